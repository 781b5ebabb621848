package retain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lazaret/streams"
)

func TestAMessageIsForgottenWithAllOfItsEntries(t *testing.T) {
	var ledger []*streams.Entry
	add := func(seq uint64, index int, typ streams.Type, stage string, src uint64, body string) {
		ledger = append(ledger, &streams.Entry{Seq: seq, Index: index, Stage: stage, Type: typ, Project: "p", Src: src,
			Body: []byte(body)})
	}
	observation := func(id, person, text string) string {
		return fmt.Sprintf(`{"id":%q,"agent":"a","data_subject":%q,"time":"2026-11-21T09:00:00Z","intake":1,"blocks":[{"text":%q}]}`, id, person, text)
	}
	add(1, 0, streams.TypeObservation, streams.StageIngest, 1, observation("event-one", "jane", "hello"))
	add(2, 0, streams.TypeObservation, streams.StageIngest, 2, observation("event-two", "", "weather"))
	add(2, 1, streams.TypeObservation, streams.StageIngest, 3, observation("event-three", "", "see event-one for more"))
	add(2, 2, streams.TypeObservation, streams.StageIngest, 4, observation("event-four", "", "weather again"))
	add(3, 0, streams.TypeObservation, streams.StageIngest, 5, observation("event-five", "", "weather still"))
	add(3, 1, streams.TypeObservation, streams.StageIngest, 6, observation("event-six", "", "after event-four"))
	add(4, 0, streams.TypeObservation, streams.StageIngest, 7, observation("event-seven", "", "nothing"))
	add(4, 1, streams.TypeObservation, streams.StageIngest, 8, observation("event-eight", "", "nothing either"))
	add(5, 0, streams.TypeAlerts, "sentinel-core", ledger[4].Position(), `{"group":"core","alerts":[]}`) // event-five
	add(6, 0, streams.TypeAlerts, "sentinel-core", ledger[7].Position(), `{"group":"core","alerts":[]}`) // event-eight
	tr := newTrace(Subject{"p", "jane"})
	passOver(t, tr, ledger)
	parts, _ := tr.statement(nil)
	if want := []uint64{1, 2, 3, 5}; len(parts) != 1 || !slices.Equal(parts[0], want) {
		t.Fatalf("messages %v go, want %v", parts, want)
	}
	why := make(map[uint64]string)
	for _, a := range tr.alsoForgotten() {
		why[a.Seq] = a.Why
	}
	for i, want := range map[int]string{1: "in the same ledger message", 2: "names", 3: "in the same ledger message", 4: "in the same ledger message",
		5: "names", 8: "was made from"} {
		if at := ledger[i].Position(); !strings.Contains(why[at], want) {
			t.Errorf("entry %d goes because it %q, want %q", i, why[at], want)
		}
	}
}

// passOver lets a trace pass over a ledger.
func passOver(t interface{ Fatal(...any) }, tr *trace, ledger []*streams.Entry) {
	err := tr.passes(func(fn func(*streams.Entry)) error {
		for _, e := range ledger {
			fn(e)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
