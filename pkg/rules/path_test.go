package rules

import (
	"slices"
	"testing"

	"lazaret/pkg/signals"
	"lazaret/streams"
)

// Two agents use the same id for different observations. A path must name the agent of an observation that is not from
// the action's agent.
func TestAPathNamesTheAgentOfAnObservationOfAnotherAgent(t *testing.T) {
	for agent, want := range map[string]string{"bot": "observation:o1", "other": "observation:other/o1"} {
		body, err := streams.Marshal(&streams.ActionEntry{EntryHead: streams.EntryHead{ID: "a1", Agent: "bot"},
			Beliefs: []streams.BeliefRef{{ID: "b1", Found: true, Agent: agent, Observation: "o1"}}})
		if err != nil {
			t.Fatal(err)
		}
		ins, err := signals.Read(&streams.Entry{Stage: streams.StageIngest, Type: streams.TypeAction, Project: "p",
			Body: body})
		if err != nil || len(ins) == 0 {
			t.Fatal(len(ins), err)
		}
		got := new(Rule).path(&signals.State{In: ins[0]}, &streams.Alert{
			Subject: streams.AlertSubject{Kind: "belief", ID: "b1"}})
		if !slices.Equal(got, []string{"action:a1", "belief:b1", want}) {
			t.Errorf("of agent %q: %v", agent, got)
		}
	}
}
