package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/retain"
	"lazaret/streams"
)

// The dry run of an erasure must list the same entries that the erasure then removes. These include entries about
// another person that name the erased person as their user. For each entry, the dry run must say which other people it
// is about.
func TestTheDryRunOfAnErasureListsWhatTheErasureRemoves(t *testing.T) {
	long(t)
	t.Parallel()
	data := t.TempDir()
	start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", freePort(t), "--no-sync")
	h := newHost(t, data)
	for i, who := range []streams.Head{{DataSubject: "p-17"}, {User: "p-17"}, {DataSubject: "p-18", User: "p-17"},
		{DataSubject: "p-17", User: "p-18"}, {DataSubject: "p-18"}, {DataSubject: "p-18", User: "p-19"}} {
		who.Session = fmt.Sprint("s", i)
		who.ID = fmt.Sprint("m", i)
		if _, err := h.c.Remember(h.ctx(), "user", &streams.Memory{Head: who, Content: "parcel number " + who.ID}); err != nil {
			t.Fatal(err)
		}
		who.ID = fmt.Sprint("a", i)
		if _, err := h.c.Decide(h.ctx(), &streams.Action{Head: who, Tool: "read_file",
			Args: jsontext.Value(`{"path":"notes.txt"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	awaitLog(t, data, `type == "verdict" && body.id == "a5"`)

	forget := func(flags ...string) *retain.Record {
		t.Helper()
		r := new(retain.Record)
		args := append([]string{"audit", "forget", "--subject", "demo/p-17", "--reason", "r", "--json"}, flags...)
		if err := streams.Unmarshal([]byte(lastJSON(must(t, data, args...))), r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	dry := forget("--dry-run")
	for _, id := range []string{"m2", "a2"} {
		if !slices.ContainsFunc(dry.Also, func(a retain.AlsoForgotten) bool {
			return a.ID == id && slices.Equal(a.Persons, []string{"p-18"})
		}) {
			t.Errorf("%s, about p-18 with the user p-17, is not listed: %+v", id, dry.Also)
		}
	}
	for _, a := range dry.Also {
		if slices.Contains([]string{"m0", "m1", "m3", "a0", "a1", "a3"}, a.ID) {
			t.Errorf("an entry about the person alone is listed: %+v", a)
		}
		if slices.Contains([]string{"m4", "m5", "a4", "a5"}, a.ID) {
			t.Errorf("an entry about others would go: %+v", a)
		}
	}
	done := forget()
	if !slices.EqualFunc(dry.Also, done.Also, func(a, b retain.AlsoForgotten) bool {
		return a.Seq == b.Seq && a.Stage == b.Stage && a.Type == b.Type && a.ID == b.ID && a.Why == b.Why &&
			slices.Equal(a.Persons, b.Persons)
	}) {
		t.Errorf("the dry run lists\n%+v\nand the erasure removes\n%+v", dry.Also, done.Also)
	}
	counts := func(r *retain.Record) map[string]int {
		out := make(map[string]int)
		for _, p := range r.Places {
			what := strings.NewReplacer(", deleted", "", "erased ", "").Replace(p.What)
			if p.Where == streams.LedgerStream || p.Where == streams.LiveStream || p.Where == "the log" {
				out[p.Where+": "+what] += p.Count
			}
		}
		return out
	}
	before, after := counts(dry), counts(done)
	if len(before) < 5 {
		t.Errorf("the dry run names %v", before)
	}
	for place, n := range before {
		if after[place] != n {
			t.Errorf("%s: %d in the dry run, %d removed", place, n, after[place])
		}
	}
}
