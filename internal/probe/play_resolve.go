package probe

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/embedded"
	"lazaret/internal/holds"
	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/pkg/approval"
	"lazaret/streams"
)

// holdOf returns the step with an id, or nil if it was not played, and the verdict that opened the step's hold, or nil
// if it opened none.
func (p *play) holdOf(id string) (*played, *streams.VerdictEntry) {
	d := p.done[id]
	if d == nil || d.rep == nil || d.rep.Entry == nil || d.rep.Entry.Hold == nil {
		return d, nil
	}
	return d, d.rep.Entry
}

func (p *play) resolve(ctx context.Context, st *Step, d *played) error {
	r := st.Resolve
	held, v := p.holdOf(r.Hold)
	if v == nil {
		p.fail(st, "step %s is not held: there is nothing to resolve", r.Hold)
		return nil
	}
	by := p.site.signers[r.By]
	if by == nil {
		return fmt.Errorf("unknown person %q: use %s or %s", r.By, alice, mallory)
	}
	s := approval.Statement{Version: approval.Version, Project: held.project, Hold: v.Hold.ID, Revision: v.Hold.Revision,
		Action:   v.Digest,
		Decision: approval.Decision(r.Decision), Expires: time.Now().UTC().Add(10 * time.Minute).Truncate(time.Second),
		Nonce: approval.NewNonce()}
	if r.Forge == "action" {
		s.Action = "sha256:" + strings.Repeat("00", 32)
	}
	msg, err := p.sign(&s, by, r.Forge)
	if err != nil {
		return err
	}
	d.project = held.project
	d.resolved, err = holds.Send(ctx, p.site.person, held.project, v.Hold.ID, msg)
	return err
}

// sign signs a statement, or forges a signature in the given way.
func (p *play) sign(s *approval.Statement, by note.Signer, forge string) ([]byte, error) {
	msg, err := s.Sign(by)
	if err != nil {
		return nil, err
	}
	switch forge {
	case "", "action":
	case "altered":
		msg = bytes.Replace(msg, []byte(`"decision":"reject"`), []byte(`"decision":"approve"`), 1)
	case "name":
		// Put Alice's name and key hash on another signer's signature.
		of, err := s.Sign(p.site.signers[alice])
		if err != nil {
			return nil, err
		}
		head, hers, err := cutSignature(string(of))
		if err != nil {
			return nil, err
		}
		_, his, err := cutSignature(string(msg))
		if err != nil {
			return nil, err
		}
		copy(his, hers[:4])
		msg = []byte(head + base64.StdEncoding.EncodeToString(his) + "\n")
	default:
		return nil, fmt.Errorf("forge is %q, use name, action or altered", forge)
	}
	return msg, nil
}

func cutSignature(msg string) (head string, raw []byte, err error) {
	i := strings.LastIndexByte(msg, ' ') + 1
	raw, err = base64.StdEncoding.DecodeString(strings.TrimSpace(msg[i:]))
	if err == nil && len(raw) < 4 {
		err = errors.New("the signature is too short")
	}
	return msg[:i], raw, err
}

func (p *play) await(ctx context.Context, st *Step) error {
	held, v := p.holdOf(st.Await.Hold)
	if v == nil {
		p.fail(st, "step %s is not held: there is nothing to wait for", st.Await.Hold)
		return nil
	}
	short, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	err := p.site.ledger.await(short, held.project, func(entries []streams.Entry, _ uint64) (bool, error) {
		for _, e := range entries {
			var h streams.HoldStateEntry
			if e.Type != streams.TypeHoldState {
				continue
			}
			if err := streams.Unmarshal(e.Body, &h); err != nil {
				return false, err
			}
			if h.Hold == v.Hold.ID {
				if h.State != st.Await.State {
					p.fail(st, "the hold is %s, want %s", h.State, st.Await.State)
				}
				return true, nil
			}
		}
		return false, nil
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		p.fail(st, "the hold is still open after %s, want %s", awaitTime, st.Await.State)
		return nil
	}
	return err
}

// activate publishes a signed policy and checks whether it becomes active.
func (p *play) activate(ctx context.Context, st *Step, d *played) error {
	text, err := policyWith(p.Policy, st.Activate.Policy)
	if err != nil {
		return err
	}
	by := p.site.signers[st.Activate.By]
	if st.Activate.By == "operator" {
		by = p.site.operator
	}
	if by == nil {
		return fmt.Errorf("unknown person %q: use operator, %s or %s", st.Activate.By, alice, mallory)
	}
	if err := embedded.Activate(ctx, p.site.op, by, streams.DoActivatePolicy, text); err != nil {
		return err
	}
	// Settle with a proposal. It goes through the same partition after the activation, so its verdict
	// shows that the activation was decided.
	if err := p.settle(ctx, d.project); err != nil {
		return err
	}
	var a ingest.ActiveAnswer
	if err := query.Ask(ctx, p.site.op, ingest.AskActive, streams.PartitionOf(d.project), struct{}{}, &a); err != nil {
		return err
	}
	in := a.Policy == streams.Digest(text)
	d.inForce = &in
	return nil
}

// look returns the current state of a belief.
func (p *play) look(ctx context.Context, project, ref string) (*streams.BeliefRef, error) {
	id, err := p.lookUp(ref)
	if err != nil {
		return nil, err
	}
	var ans ingest.BeliefsAnswer
	if err := query.Ask(ctx, p.site.op, ingest.AskBeliefs, streams.PartitionOf(project),
		ingest.BeliefsRequest{Project: project, ID: id}, &ans); err != nil {
		return nil, err
	}
	if len(ans.Beliefs) != 1 {
		return nil, fmt.Errorf("%d beliefs of id %s", len(ans.Beliefs), id)
	}
	return &ans.Beliefs[0].BeliefRef, nil
}

// hasItem reports whether a channel serves the belief that want ("$ID") refers to, or a belief whose
// content contains want.
func (p *play) hasItem(items []streams.RecallItem, want string) (bool, error) {
	id := ""
	if reference.MatchString(want) {
		var err error
		if id, err = p.lookUp(want); err != nil {
			return false, err
		}
	}
	return slices.ContainsFunc(items, func(x streams.RecallItem) bool {
		if id != "" {
			return x.ID == id
		}
		return strings.Contains(x.Content, want)
	}), nil
}
