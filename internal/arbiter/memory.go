package arbiter

import (
	"fmt"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// openStanding notes what a memory write itself says against it, before any
// sentinel was asked: that it repeats what was refused, that it is a procedure
// nobody signed for, and why it is staged.
func openStanding(p *proposal, m *streams.MemoryEntry) {
	// The user and the operator may say what a page was refused for saying.
	weak := m.Belief.Origin != beliefs.OriginUser && m.Belief.Origin != beliefs.OriginSystem
	if t := m.Tombstone; t != nil && weak {
		v, how := streams.Deny, "says the same as"
		if !t.Exact {
			v, how = streams.Hold, fmt.Sprintf("is almost the same (%.2f) as", t.Similarity)
		}
		r := streams.Reason{Code: streams.CodeTombstone, Verdict: v, Path: []string{"memory:" + p.ID, "belief:" + t.Belief},
			Text: streams.Clip(fmt.Sprintf("it %s memory write %s of %s, which was %s at %s", how, t.Event, t.Agent, t.Why, t.At.UTC().Format(time.RFC3339)), maxReasonText)}
		p.Reasons = append(p.Reasons, r)
	}
	if m.Belief.Procedure {
		p.reason(streams.CodeProcedure, streams.Hold, "it is a procedure: it is served once a person has signed for exactly its bytes")
	}
	if m.Belief.Staged {
		p.reason(streams.CodeStaged, streams.Allow, "it is staged: %s", streams.Clip(m.StagedFor, maxReasonText))
	}
}
