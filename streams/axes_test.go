package streams

import (
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
)

// The JSON of a belief must have all four axes, even if they have their zero values. A candidate's axes have these
// values. If they were left out, a reader could not tell a candidate from a belief whose state is not given.
func TestABeliefAlwaysHasAllAxes(t *testing.T) {
	const axes = `"axes":{"truth":"unverified","retrieval":"hidden","security":"clean","freshness":"fresh"}`
	candidate := BeliefRef{ID: "b1", Found: true, Kind: beliefs.Content}
	for what, v := range map[string]any{
		"a belief of a query": struct {
			BeliefRef
			Project string `json:"project"`
		}{candidate, "demo"},
		"an observation": &ObservationEntry{Claims: []ClaimEntry{{Belief: candidate}}},
		"a memory":       &MemoryEntry{Belief: candidate},
		"a verdict":      &VerdictEntry{Belief: &candidate},
	} {
		if b, err := Marshal(v); err != nil || !strings.Contains(string(b), axes) {
			t.Errorf("%s lacks an axis: %s, %v", what, b, err)
		}
	}
}
