package arbiter

import (
	"slices"
	"testing"

	"lazaret/streams"
)

// Two agents may use the same id for different observations. So the path must name another agent's observation as
// agent/id, and that of the proposal's own agent by its id only.
func TestAPathNamesTheAgentOfAnObservationOfAnotherAgent(t *testing.T) {
	p := &proposal{Type: streams.TypeAction, ID: "a1", Agent: "bot"}
	for agent, want := range map[string]string{"": "observation:o1", "bot": "observation:o1",
		"other": "observation:other/o1"} {
		if got := p.pathTo(dependency{Agent: agent, Observation: "o1"}); !slices.Equal(got, []string{"action:a1", want}) {
			t.Errorf("of agent %q: %v", agent, got)
		}
	}
}

// The paths of earlier versions had no agent, and approvals in old ledgers name revisions of these paths. So the
// revision of the same reasons with agents in their paths must be the same.
func TestARevisionDoesNotDependOnTheAgentInAPath(t *testing.T) {
	reason := func(text, observation string) streams.Reason {
		return streams.Reason{Verdict: streams.Hold, Code: streams.CodeRests, Group: "g", Text: text,
			Path: []string{"action:a1", "observation:" + observation}}
	}
	earlier := []streams.Reason{reason("x", "o1"), reason("x", "o2"), reason("y", "o1")}
	const was = "1d0a7897731b8822" // as the version before the agent was added computed it
	if got := revision(earlier); got != was {
		t.Errorf("the revision of an earlier version's hold is %s, was %s", got, was)
	}
	_, now := judge([]streams.Reason{reason("x", "z-bot/o1"), reason("x", "o2"), reason("y", "other/o1")})
	path := slices.Clone(now[0].Path)
	if got := revision(now); got != was {
		t.Errorf("with agents the revision is %s, was %s", got, was)
	}
	if !slices.Equal(now[0].Path, path) {
		t.Errorf("the reason's path became %v", now[0].Path)
	}
	// After a late finding, reasons with and without the agent are joined. Their revision must be the same too.
	if _, both := judge(earlier, now); revision(both) != was {
		t.Errorf("of both forms the revision is %s, was %s", revision(both), was)
	}
	for _, other := range []string{"o3", "other/o3", "https://x.example/o1"} {
		if revision([]streams.Reason{reason("x", other)}) == revision([]streams.Reason{reason("x", "o1")}) {
			t.Errorf("the revision of %s is that of o1", other)
		}
	}
}
