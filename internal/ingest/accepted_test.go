package ingest

import (
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// A person approves a tool at level L1 and later at L4. Then the first proposal is sent again, and its old verdict with
// L1 is repeated. The tool must stay at L4.
func TestARepeatedVerdictDoesNotBringBackTheLevelsOfATool(t *testing.T) {
	h := newHouse(t, offline(t))
	verdict := func(level beliefs.Level, again bool) {
		h.foldOther(streams.StageArbiter, streams.TypeVerdict, &streams.VerdictEntry{Type: streams.TypeAction, ID: "a",
			Agent: "agent", Verdict: streams.Allow, Again: again, Resolved: &streams.Resolved{State: streams.HoldApproved,
				Accepted: &streams.AcceptedTools{Server: "mail", Catalogue: "c",
					Levels: map[string]beliefs.Level{"send": level}}}})
	}
	verdict(beliefs.L1, false)
	verdict(beliefs.L4, false)
	verdict(beliefs.L1, true)
	if l, err := accepted(h.st, "demo", "c", "send"); err != nil || l == nil || *l != beliefs.L4 {
		t.Errorf("the level is %v, %v, want L4", l, err)
	}
}
