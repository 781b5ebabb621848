package ingest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// testdata/state-10.jsonl.gz has the keys and values of one partition of a state of format 10. The version that wrote
// it had trimmed its ledger. So no ledger exists from which this state could be rebuilt, and the migration must convert
// it.
func TestAStateWhoseIndexHasUnstemmedWordsIsSearchedAfterItsMigration(t *testing.T) {
	st := stage.NewMemState(streams.PartitionOf("demo"))
	b, err := os.ReadFile("testdata/state-10.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(z); ; {
		var kv [2][]byte
		if err := d.Decode(&kv); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if err := st.Set(kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	h := &house{t: t, f: New(Config{}), st: st, now: epoch.AddDate(0, 0, 3), seq: 1000}
	found := func(query, id string) (n int) {
		t.Helper()
		head := streams.Head{ID: fmt.Sprint("r", h.seq), Session: "s"}
		got := h.say(streams.KindRecall, "", &streams.Recall{Head: head, Query: query})
		e, ok := got.(*streams.RecallEntry)
		if !ok {
			t.Fatalf("the recall was not admitted: %+v", got)
		}
		for _, got := range append(ids(e.Admitted), ids(e.ContextOnly)...) {
			if got == id {
				n++
			}
		}
		return n
	}
	const gardeners, invoices = "b2f7sm5mqej7t8ds5", "bpon4ha110jullg4m"
	if n := found("gardener", gardeners); n != 0 {
		t.Fatalf("%d found before: the test could not fail", n)
	}
	for _, again := range []string{"once", "after an interruption"} {
		if err := migrations[10].Do(st); err != nil {
			t.Fatal(err)
		}
		for query, id := range map[string]string{"gardener": gardeners, "lantern": gardeners, "invoice": invoices} {
			if n := found(query, id); n != 1 {
				t.Errorf("migrated %s: %q finds it %d times", again, query, n)
			}
		}
	}
}
