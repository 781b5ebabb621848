package beliefs

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lazaret/internal/proptest"
)

// TestAnIncidentLivesAsItsTableSays tries every event in every state. An event that the table does not allow must
// change nothing. No event may leave the state closed. Each state must be reached by some event.
func TestAnIncidentLivesAsItsTableSays(t *testing.T) {
	want := map[IncidentState]map[IncidentEvent]IncidentState{
		IncidentOpen: {IncidentContain: IncidentQuarantined, IncidentClose: IncidentClosed},
		IncidentQuarantined: {IncidentContain: IncidentQuarantined, IncidentRepair: IncidentRepaired,
			IncidentClose: IncidentClosed},
		IncidentRepaired: {IncidentContain: IncidentQuarantined, IncidentRepair: IncidentRepaired,
			IncidentClose: IncidentClosed},
		IncidentClosed: {},
	}
	for from, moves := range want {
		for _, e := range []IncidentEvent{IncidentOpened, IncidentEvidence, IncidentContain, IncidentRepair, IncidentClose,
			"other"} {
			was := Incident{ID: "i1", State: from}
			got, err := was.After(e)
			to, ok := moves[e]
			var refused *IncidentError
			switch {
			case ok && (err != nil || got.State != to):
				t.Errorf("%s after %s: %s, %v, want %s", from, e, got.State, err, to)
			case !ok && (!errors.As(err, &refused) || refused.State != from || refused.Event != e || got.State != from):
				t.Errorf("%s after %s: %s, %v, want an error", from, e, got.State, err)
			}
		}
	}
}

func TestFindingsAreCountedAndTheFirstOfThemKept(t *testing.T) {
	proptest.CheckLess(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 3*MaxIncidentEvidence).Draw(t, "n")
		var i Incident
		for k := range n {
			before := i
			var err error
			if i, err = i.With(IncidentFinding{Kind: "note", ID: string(rune('a' + k%26)),
				At: time.Unix(int64(k), 0)}); err != nil {
				t.Fatal(err)
			}
			if len(before.Evidence) > 0 && before.Evidence[0] != i.Evidence[0] {
				t.Fatal("the first finding changed")
			}
		}
		if i.Findings != uint64(n) || len(i.Evidence) != min(n, MaxIncidentEvidence) {
			t.Fatalf("%d findings, %d kept of %d", i.Findings, len(i.Evidence), n)
		}
		i.State = IncidentClosed
		if got, err := i.With(IncidentFinding{}); err == nil || got.Findings != i.Findings {
			t.Fatalf("a closed incident took a finding: %v", err)
		}
	})
}
