package stage

import (
	"strings"
	"testing"
	"time"

	"lazaret/internal/statement"
	"lazaret/streams"
)

func TestAnOrderOfAnEarlierVersionExplainsAllThatIsBeforeIt(t *testing.T) {
	at := time.Now()
	f := forgettings{listed: map[uint64]struct{}{3: {}, 30: {}},
		ordered: []ordered{{at: 20, late: at.Add(statement.LateFor)}}}
	for _, test := range []struct {
		from, to uint64
		before   time.Time
		want     uint64
	}{
		{3, 3, at, 0},
		{5, 19, at, 0},                            // before the project's statement
		{25, 26, at.Add(time.Minute), 0},          // entries of other stages shortly after the statement may be missing too
		{25, 26, at.Add(time.Hour), 25},           // not entries much later
		{30, 30, at.Add(time.Hour), 0},            // unless they are listed
		{30, 31, at.Add(time.Hour), 31},           // each sequence separately
		{18, 22, at.Add(time.Hour), 20},           // the statement itself stays
		{40, 1 << 20, at.Add(24 * time.Hour), 40}, // no statement covers these
	} {
		if got := f.explain(test.from, test.to, test.before); got != test.want {
			t.Errorf("%d to %d: %d is not explained, want %d", test.from, test.to, got, test.want)
		}
	}
	if got := new(forgettings).explain(1, 2, time.Time{}); got != 1 {
		t.Errorf("without a statement %d is not explained, want 1", got)
	}
}

func TestPromiseB18AnOrderOnAProjectExplainsTheHolesThatItNames(t *testing.T) {
	at := time.Now()
	c := streams.Custody{Do: streams.DoForget, Project: "acme", ID: "c1", Issued: at, Reason: "r", UpTo: 100,
		Ranges: []streams.SeqRange{{From: 5, To: 9}, {From: 90, To: 99}}}
	body, err := streams.Marshal(&streams.CustodyEntry{Do: c.Do, Note: c.Text() + "\n— nobody AAAA\n"})
	if err != nil {
		t.Fatal(err)
	}
	f := new(forgettings)
	f.add(&streams.Entry{Seq: 103, Time: at, Type: streams.TypeForgotten, Body: body})
	for _, test := range []struct {
		from, to uint64
		before   time.Time
		want     uint64
	}{
		{5, 9, at, 0},
		{4, 9, at, 4},   // sequence 4 is not listed: it belongs to another project, or someone else deleted it
		{7, 12, at, 10}, // after a listed range
		{50, 50, at, 50},
		{90, 99, at.Add(time.Hour), 0},
		{101, 102, at, 0}, // entries of other stages in between
		{104, 106, at, 0}, // or soon after
		{104, 106, at.Add(time.Hour), 104},
		{100, 100, at, 100}, // covered, but not named
	} {
		if got := f.explain(test.from, test.to, test.before); got != test.want {
			t.Errorf("%d to %d: %d is not explained, want %d", test.from, test.to, got, test.want)
		}
	}
	text := (&HoleError{From: 4, To: 4, Stage: "arbiter"}).Error()
	if doc, ok := streams.CodeHole.Doc(); !ok || !strings.HasPrefix(text, string(streams.CodeHole)+": ") ||
		!strings.Contains(text, "audit verify --ledger") || !strings.Contains(doc.Action, "audit verify --ledger") {
		t.Errorf("the error or the code does not say what to do: %s, %+v", text, doc)
	}
}
