package ingest

import (
	"fmt"
	"slices"

	"lazaret/internal/stage"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// session flags.
const flagUnseen = 1

// setUnseen marks a session, or without one the agent as a whole, as holding
// input that no sentinel has judged.
func (f *Fold) setUnseen(st *stage.State, project, agent, session string) error {
	return st.Set(stage.Key(keySession, project, agent, session), []byte{flagUnseen})
}

// sessionState reports what taints a proposal of this session as a whole:
// unseen input, and a claim to have been acknowledged a sequence that this
// intake never gave out.
func (f *Fold) sessionState(st *stage.State, a streams.Address, head streams.EntryHead, after uint64) (unseen, restored bool, err error) {
	for _, s := range []string{head.Session, ""} {
		v, ok, err := st.Get(stage.Key(keySession, a.Project, a.Agent, s))
		if err != nil {
			return false, false, err
		}
		if ok && len(v) == 1 && v[0]&flagUnseen != 0 {
			unseen = true
		}
	}
	// Every acknowledged message has a lower sequence than this one.
	return unseen, after >= head.Intake, nil
}

// applySession ends what was known of a session when it starts or ends: a new
// session starts clean. Holes that could not be laid to one session last until
// the agent starts any session.
func (f *Fold) applySession(st *stage.State, project string, e *streams.SessionEntry) error {
	if err := st.Delete(stage.Key(keySession, project, e.Agent, e.Session)); err != nil {
		return err
	}
	if err := st.DropPrefix(stage.Key(keySaid, project, e.Agent, e.Session, "")); err != nil {
		return err
	}
	if err := f.takeAuto(st, project, e.Point, &e.EntryHead); err != nil {
		return err
	}
	if e.Phase != "start" {
		return nil
	}
	return st.Delete(stage.Key(keySession, project, e.Agent, ""))
}

// decide records what a decision rests on.
func (f *Fold) decide(st *stage.State, m *stage.Message, head streams.EntryHead, d *streams.Decision) (*stage.Admission, error) {
	project := m.Address.Project
	cited, err := f.cite(st, project, d.Beliefs, head.Time)
	if err != nil {
		return nil, err
	}
	e := &streams.DecisionEntry{EntryHead: head, Summary: d.Summary, Beliefs: cited, CitesNone: d.CitesNone}
	if err := d.Check(); err != nil {
		e.Uncited = err.Error()
	} else if !d.CitesNone && !slices.ContainsFunc(cited, func(b streams.BeliefRef) bool { return b.Found }) {
		e.Uncited = fmt.Sprintf("nobody knows any of the %d beliefs that it cites", len(cited))
	}
	if e.Uncited == "" {
		return admission(streams.TypeDecision, project, e)
	}
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return nil, err
	}
	if pol != nil && pol.Uncited() == policy.UncitedReject {
		return f.reject(st, m, &streams.RejectError{Code: streams.CodeUncited, ID: head.ID, Session: head.Session, Reason: "decision " + head.ID + ": " + e.Uncited})
	}
	if pol != nil && pol.Uncited() == policy.UncitedAllow {
		e.Uncited = ""
	}
	return admission(streams.TypeDecision, project, e)
}

func (f *Fold) applyDecision(st *stage.State, project string, e *streams.DecisionEntry) error {
	ids := make([]string, len(e.Beliefs))
	for i, b := range e.Beliefs {
		ids[i] = b.ID
		if !b.Found {
			continue
		}
		if err := f.influence(st, project, b.ID, impactDecision, e.Agent, e.ID); err != nil {
			return err
		}
	}
	return st.Put(stage.Key(keyDecision, project, e.Agent, e.ID), ids)
}
