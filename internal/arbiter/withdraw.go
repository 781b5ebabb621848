package arbiter

import (
	"fmt"
	"slices"
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// withdrawal is the entry about a hold that ended without a decision. A nil withdrawal has no entry.
type withdrawal struct {
	project string
	entry   streams.HoldStateEntry
	live    []stage.Live
}

// output returns the withdrawal as an entry of its own.
func (w *withdrawal) output() (*stage.Output, error) {
	if w == nil {
		return nil, nil
	}
	return stage.NewOutput(streams.TypeHoldState, w.project, &w.entry, w.live...)
}

// with adds the withdrawal to the output for the same input, because one input makes only one entry.
func (w *withdrawal) with(out *stage.Output, err error) (*stage.Output, error) {
	if w == nil || err != nil {
		return out, err
	}
	if out == nil {
		return w.output()
	}
	v := new(streams.VerdictEntry)
	if err := streams.Unmarshal(out.Body, v); err != nil {
		return nil, fmt.Errorf("own verdict: %w", err)
	}
	v.Replaces = w.entry.Hold
	with, err := stage.NewOutput(out.Type, out.Project, v, append(slices.Clip(out.Live), w.live...)...)
	if err != nil {
		return nil, err
	}
	with.Note = out.Note
	return with, nil
}

// lapse ends an open hold without a decision. The verdict on the proposal stays hold. why is added to its reasons.
func (f *Fold) lapse(st *stage.State, h *hold, state string, why streams.Reason, now time.Time) (*withdrawal, error) {
	if err := f.closeHold(st, h.Project, h.ID, state, now); err != nil {
		return nil, err
	}
	key := stage.Key(keyVerdict, h.Project, h.Agent, h.Entry.ID)
	v := new(streams.VerdictEntry)
	ok, err := st.Load(key, v)
	if err != nil {
		return nil, err
	}
	if ok && v.Hold != nil && v.Hold.ID == h.ID {
		v.Hold, v.Reasons = nil, append(v.Reasons, why)
		if err := st.Put(key, v); err != nil {
			return nil, err
		}
	}
	w := &withdrawal{project: h.Project, entry: streams.HoldStateEntry{Hold: h.ID, Proposal: h.Proposal, Agent: h.Agent,
		ID: h.Entry.ID, State: state, Reason: why, Time: now}}
	w.live = stage.LiveCopy(&w.entry, h.Project, "hold", h.Agent, h.ID, state)
	return w, nil
}

// replace cancels the hold of the earlier proposal that an action replaces.
func (f *Fold) replace(st *stage.State, p *proposal, a *streams.ActionEntry, now time.Time) (*withdrawal, error) {
	if a.Replaces == "" {
		return nil, nil
	}
	return f.withdraw(st, p.Project, a.Agent, a.Replaces, "the agent proposed "+a.ID+" instead", now)
}

// outcome cancels a proposal that its agent withdrew. It passes other outcomes to executed.
func (f *Fold) outcome(st *stage.State, e *streams.Entry, now time.Time) (*stage.Output, error) {
	o := new(streams.OutcomeEntry)
	if err := streams.Unmarshal(e.Body, o); err != nil {
		f.log.Error("unreadable outcome", "seq", e.Seq, "err", err)
		return nil, nil
	}
	if o.Status != streams.HoldCancelled {
		return f.executed(st, e, now)
	}
	w, err := f.withdraw(st, e.Project, o.Agent, o.Action, "the agent withdrew it", now)
	if err != nil {
		return nil, err
	}
	return w.output()
}

// withdraw cancels the open hold of an agent's own proposal. If the proposal is not decided yet, withdraw marks it so
// that it gets no hold.
func (f *Fold) withdraw(st *stage.State, project, agent, id, text string, now time.Time) (*withdrawal, error) {
	if !streams.ValidID(id) {
		return nil, nil
	}
	why := streams.Reason{Code: streams.CodeCancelled, Verdict: streams.Hold, Text: text}
	v := new(streams.VerdictEntry)
	ok, err := st.Load(stage.Key(keyVerdict, project, agent, id), v)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, f.withdrawWaiting(st, stage.Key(keyWaiting, project, agent, id), why)
	}
	if v.Hold == nil {
		return nil, nil
	}
	h := new(hold)
	ok, err = st.Load(stage.Key(keyHold, project, v.Hold.ID), h)
	if err != nil || !ok || h.State != streams.HoldOpen {
		return nil, err
	}
	return f.lapse(st, h, streams.HoldCancelled, why, now)
}

func (f *Fold) withdrawWaiting(st *stage.State, key []byte, why streams.Reason) error {
	seq, ok, err := st.Get(key)
	if err != nil || !ok {
		return err
	}
	p := new(proposal)
	pkey := append([]byte{keyProposal}, seq...)
	ok, err = st.Load(pkey, p)
	if err != nil || !ok || p.Decided != nil || p.Withdrawn {
		return err
	}
	p.Withdrawn = true
	p.Reasons = append(p.Reasons, why)
	return st.Put(pkey, p)
}
