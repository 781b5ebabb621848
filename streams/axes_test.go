package streams

import (
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
)

// A reader can tell a candidate from a belief whose state is not given: all axes are there, also with their first
// values.
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
			t.Errorf("%s: %s, %v", what, b, err)
		}
	}
}
