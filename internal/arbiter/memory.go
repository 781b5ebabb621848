package arbiter

import (
	"fmt"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// openMemoryReasons adds those reasons to hold a memory write that are known before a sentinel group assesses it: it
// repeats refused content, it is an unsigned procedure, or it is staged (by the policy, a person must confirm it before
// actions may use it).
func openMemoryReasons(p *proposal, m *streams.MemoryEntry, pol *policy.Policy) {
	// The user and the operator may write a content that was refused when it came from another origin. So this reason
	// is not added for them.
	weak := m.Belief.Origin != beliefs.OriginUser && m.Belief.Origin != beliefs.OriginSystem
	if t := m.Tombstone; t != nil && weak {
		v, how := streams.Deny, "says the same as"
		if !t.Exact {
			v, how = streams.Hold, fmt.Sprintf("is almost the same (%.2f) as", t.Similarity)
		}
		r := streams.Reason{Code: streams.CodeTombstone, Verdict: v, Path: []string{"memory:" + p.ID, "belief:" + t.Belief},
			Text: streams.Clip(fmt.Sprintf("it %s memory write %s of %s, which was %s at %s", how, t.Event, t.Agent, t.Why,
				t.At.UTC().Format(time.RFC3339)), maxReasonText)}
		p.Reasons = append(p.Reasons, r)
	}
	if m.Belief.Procedure {
		p.reason(streams.CodeProcedure, streams.Hold,
			"it is a procedure: it is served once a person has signed for exactly its bytes")
	}
	if m.Belief.Staged {
		v := streams.Allow
		if m.Channel == streams.ChannelCompaction && pol != nil && pol.Compaction() == policy.CompactionHold {
			v = streams.Hold
		}
		p.reason(streams.CodeStaged, v, "it is staged: %s", streams.Clip(m.StagedFor, maxReasonText))
	}
}

// signProcedure marks the procedure in a verdict as signed by a person, if a person approved its hold. The approval
// covers exactly the bytes of the procedure.
func signProcedure(b *streams.BeliefRef, v *streams.VerdictEntry) {
	if b.Procedure && v.Verdict == streams.Allow && v.Resolved != nil {
		b.Axes = beliefs.Axes{Truth: beliefs.Supported, Retrieval: beliefs.Normal}
		b.Staged, b.Scope, b.Quality = false, beliefs.ToolActionAllowed, beliefs.HumanAssertion
	}
}
