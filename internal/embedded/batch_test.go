package embedded_test

import (
	"fmt"
	"strings"
	"testing"

	"lazaret/internal/embedded"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func TestEachObservationOfABatchIsJudgedByItself(t *testing.T) {
	data := t.TempDir()
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	c := agent(t, p, data, "demo")
	var os []*streams.Observation
	for i := range 100 {
		os = append(os, &streams.Observation{Head: streams.Head{ID: fmt.Sprintf("o%d", i), Session: "s"},
			Content: fmt.Sprintf("page %d of a report on harbours", i)})
	}
	os[7].User = "no id!"
	os[9].ID, os[9].Content = os[8].ID, os[8].Content // a repeat
	reps, err := c.ObserveAll(t.Context(), beliefs.OriginWeb, os...)
	if err != nil {
		t.Fatal(err)
	}
	seqs := make(map[uint64]bool)
	for i, rep := range reps {
		switch {
		case rep.Index != i || rep.IntakeSeq != reps[0].IntakeSeq || rep.Seq == 0:
			t.Errorf("reply %d is %+v", i, rep)
		case i == 7:
			if rep.Error == nil || !rep.Unseen {
				t.Errorf("an invalid observation is answered %+v", rep)
			}
		case rep.Error != nil || rep.ID != os[i].ID || rep.Repeat != (i == 9):
			t.Errorf("observation %d is answered %+v, %+v", i, rep, rep.Error)
		}
		seqs[rep.Seq] = true
	}
	if len(reps) != len(os) || len(seqs) != len(os) {
		t.Errorf("%d observations have %d replies and %d places in the ledger", len(os), len(reps), len(seqs))
	}
	// The same batch again adds no duplicates.
	os[7].User = ""
	if reps, err = c.ObserveAll(t.Context(), beliefs.OriginWeb, os...); err != nil {
		t.Fatal(err)
	}
	for i, rep := range reps {
		if rep.Error != nil || rep.Repeat != (i != 7) {
			t.Errorf("observation %d is answered %+v, %+v the second time", i, rep, rep.Error)
		}
	}
	// After a batch, its events must take effect at once. One event of this batch is rejected, so the next action must
	// be held.
	if _, err := c.ObserveAll(t.Context(), beliefs.OriginWeb, os[0],
		&streams.Observation{Head: streams.Head{ID: "bad", Session: "s"},
			Content: strings.Repeat("x", streams.DefaultMaxEvent+1)}); err != nil {
		t.Fatal(err)
	}
	rep, err := c.Decide(t.Context(), &streams.Action{Head: streams.Head{Session: "s"}, Tool: "read_file",
		Args: []byte(`{"path":"notes.txt"}`)})
	if err != nil || rep.Verdict != streams.Hold {
		t.Errorf("after one of a batch was rejected: %+v, %v", rep, err)
	}
	if _, err := c.ObserveAll(t.Context(), beliefs.OriginWeb); err == nil {
		t.Error("a batch of nothing is taken")
	}
}
