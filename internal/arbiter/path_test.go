package arbiter

import (
	"slices"
	"testing"

	"lazaret/streams"
)

// Two agents may use the same id for different observations.
func TestAPathNamesTheAgentOfAnObservationOfAnotherAgent(t *testing.T) {
	p := &proposal{Type: streams.TypeAction, ID: "a1", Agent: "bot"}
	for agent, want := range map[string]string{"": "observation:o1", "bot": "observation:o1",
		"other": "observation:other/o1"} {
		if got := p.pathTo(rest{Agent: agent, Observation: "o1"}); !slices.Equal(got, []string{"action:a1", want}) {
			t.Errorf("of agent %q: %v", agent, got)
		}
	}
}
