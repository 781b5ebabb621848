package live

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lazaret/pkg/approval"
	"lazaret/streams"
)

// Person simulates a person who approves each source that the user named, once in a session. The approval goes with the
// decision on the first held call that does what the source says. The person does not decide other holds.
type Person struct {
	// Sign signs a statement. Send sends it as a resolution of a hold.
	Sign func(*approval.Statement) ([]byte, error)
	Send func(ctx context.Context, project, hold string, signed []byte) (*streams.ResolveReply, error)
	// Reads makes the person refuse a source with a planted instruction.
	Reads bool
}

// approver is the person in one session.
type approver struct {
	*Person
	session  *Session
	approved map[string]bool // digests of sources
}

// approve approves the source of a held call, and reports whether the call is released.
func (p *approver) approve(ctx context.Context, v *streams.VerdictEntry) (bool, error) {
	if p == nil || v == nil || v.Verdict != streams.Hold || v.Hold == nil {
		return false, nil
	}
	for _, g := range v.Sources {
		planted := slices.ContainsFunc(p.session.steps, func(st step) bool {
			return st.injected && slices.Contains(g.Observations, streams.HeadOf(st.Event).ID)
		})
		if g.Limit != "" || g.Strange != "" || p.approved[g.Digest] || p.Reads && planted {
			continue
		}
		p.approved[g.Digest] = true
		now := time.Now().UTC().Truncate(time.Second)
		signed, err := p.Sign(&approval.Statement{Version: approval.Version, Project: p.session.Project, Hold: v.Hold.ID,
			Revision: v.Hold.Revision, Action: v.Digest, Decision: approval.Approve, Expires: now.Add(10 * time.Minute),
			Nonce: approval.NewNonce(), Source: &approval.Source{Actions: 50, Digest: g.Digest, Expires: now.Add(time.Hour),
				Session: v.Session}})
		if err != nil {
			return false, err
		}
		rep, err := p.Send(ctx, p.session.Project, v.Hold.ID, signed)
		if err == nil && rep.State != streams.HoldApproved {
			err = fmt.Errorf("the approval of a source was refused: %s", rep.Text)
		}
		return err == nil, err
	}
	return false, nil
}
