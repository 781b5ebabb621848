package ingest

import (
	"fmt"
	"slices"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/pkg/position"
	"lazaret/streams"
)

func init() {
	admits(streams.KindSession, (*Fold).session)
	writesIn(streams.TypeSession, (*Fold).applySession)
	admits(streams.KindDec, (*Fold).decide)
	writesIn(streams.TypeDecision, (*Fold).applyDecision)
}

// An observation that was rejected may have been shown to the agent nevertheless. Therefore the actions of its session
// are held until the observation is admitted after all, with the same id and origin, or until the session is started
// again.

// holes are the rejected observations of a session. Rejected observations that name no session are stored under the
// empty session.
type holes struct {
	All  []streams.Unseen `json:"all,omitzero"`
	More bool             `json:"more,omitzero"` // more than maxHoles, or an old version stored only this flag
	// Last is the highest place in the intake of the observations that are not in All.
	Last uint64 `json:"last,omitzero"`
	// Expired is set if an expiry dropped the state of the session. Its proposals are then held until the session is
	// started again.
	Expired bool `json:"expired,omitzero"`
}

const (
	maxHoles      = 16  // maximum number of observations in All
	maxHoleReason = 300 // bytes
)

func sessionKey(project, agent, session string) []byte {
	return stage.Key(keySession, project, agent, session)
}

func (f *Fold) holes(st *stage.State, project, agent, session string) (h holes, err error) {
	v, ok, err := st.Get(sessionKey(project, agent, session))
	if err != nil || !ok {
		return h, err
	}
	if len(v) == 1 { // an earlier version stored only a flag
		h.More = v[0] != 0
		return h, nil
	}
	return h, streams.Unmarshal(v, &h)
}

// setUnseen records a rejected observation for a session or, if session is empty, for the whole agent.
func (f *Fold) setUnseen(st *stage.State, project, agent, session string, u streams.Unseen) error {
	h, err := f.holes(st, project, agent, session)
	if err != nil {
		return err
	}
	if len(h.All) < maxHoles {
		h.All = append(h.All, u)
	} else {
		h.More, h.Last = true, max(h.Last, u.Intake)
	}
	return f.putHoles(st, sessionKey(project, agent, session), &h)
}

// putHoles stores a session's holes, or deletes the record if there is nothing to store.
func (f *Fold) putHoles(st *stage.State, key []byte, h *holes) error {
	if len(h.All) == 0 && !h.More && !h.Expired {
		return st.Delete(key)
	}
	return st.Put(key, h)
}

// nowSeen removes an admitted observation from the holes, if it was rejected earlier. A hole with a higher place in the
// intake stays. Such a hole may be recorded already: under load, ingest rejects (sheds) later messages before it
// decides earlier ones.
func (f *Fold) nowSeen(st *stage.State, project string, head *streams.EntryHead, origin beliefs.Origin) error {
	for _, s := range []string{head.Session, ""} {
		h, err := f.holes(st, project, head.Agent, s)
		if err != nil {
			return err
		}
		n := len(h.All)
		h.All = slices.DeleteFunc(h.All, func(u streams.Unseen) bool {
			return u.ID == head.Sent() && u.Origin == origin && u.Intake < head.Intake
		})
		if len(h.All) == n {
			continue
		}
		if err := f.putHoles(st, sessionKey(project, head.Agent, s), &h); err != nil {
			return err
		}
	}
	return nil
}

// applyRepeat folds a repeat of an event. If an observation was admitted, and an earlier repeat of it was shed and
// recorded as a hole, applyRepeat removes that hole.
func (f *Fold) applyRepeat(st *stage.State, project string, e *streams.RepeatEntry) error {
	if e.Kind != streams.KindObs {
		return nil
	}
	origin, ok, err := f.originOf(st, project, e.Agent, e.ID)
	if err != nil || !ok {
		return err
	}
	return f.nowSeen(st, project, &e.EntryHead, origin)
}

// closeHoles removes those holes of a session that come before event e in the intake.
func (f *Fold) closeHoles(st *stage.State, project, session string, e *streams.EntryHead) error {
	h, err := f.holes(st, project, e.Agent, session)
	if err != nil {
		return err
	}
	h.All = slices.DeleteFunc(h.All, func(u streams.Unseen) bool { return u.Intake < e.Intake })
	h.More, h.Expired = h.More && h.Last > e.Intake, false
	return f.putHoles(st, sessionKey(project, e.Agent, session), &h)
}

// sessionState returns why the proposals of a session are suspect. unseen is a rejected observation, or nil. after is
// the acknowledged sequence that the agent names. restored is set if this intake has not reached that sequence, because
// it was restored from an older state.
func (f *Fold) sessionState(st *stage.State, a streams.Address, head streams.EntryHead,
	after uint64) (unseen *streams.Unseen, restored bool, err error) {
	for _, s := range []string{head.Session, ""} {
		h, err := f.holes(st, a.Project, a.Agent, s)
		switch {
		case err != nil:
			return nil, false, err
		case unseen != nil:
		case len(h.All) > 0:
			unseen = &h.All[0]
		case h.More:
			unseen = new(streams.Unseen)
		case h.Expired:
			unseen = &streams.Unseen{Scope: streams.UnseenExpired}
		}
		if unseen != nil && unseen.Scope == "" {
			unseen.Scope = streams.UnseenSession
			if s == "" {
				unseen.Scope = streams.UnseenAgent
			}
		}
	}
	// Every acknowledged message comes before this one. Only a sequence can be acknowledged, so a place with an index
	// is not valid.
	return unseen, position.Index(after) > 0 || position.Compare(after, head.Intake) >= 0, nil
}

// applySession removes the state of a session that starts or ends, so that a new session with the same id starts
// without it. Holes from later events stay. Holes without a session are removed when the agent starts any session.
func (f *Fold) applySession(st *stage.State, project string, e *streams.SessionEntry) error {
	if err := f.closeHoles(st, project, e.Session, &e.EntryHead); err != nil {
		return err
	}
	if err := dropSession(st, project, e.Agent, e.Session); err != nil {
		return err
	}
	if err := f.takeAuto(st, project, e.Point, &e.EntryHead); err != nil {
		return err
	}
	if e.Phase != "start" {
		return nil
	}
	if err := noteActive(st, project, &e.EntryHead); err != nil {
		return err
	}
	if err := st.Delete(heardKey(project, e.Agent, "")); err != nil {
		return err
	}
	return f.closeHoles(st, project, "", &e.EntryHead)
}

// decide records a decision of an agent, and the beliefs that it cites.
func (f *Fold) decide(st *stage.State, m *stage.Message, head streams.EntryHead,
	d *streams.Decision) (*stage.Admission, error) {
	project := m.Address.Project
	cited, err := f.cite(st, project, d.Beliefs, head.Time)
	if err != nil {
		return nil, err
	}
	e := &streams.DecisionEntry{EntryHead: head, Summary: d.Summary, Beliefs: cited, CitesNone: d.CitesNone}
	if err := d.Check(); err != nil {
		e.Uncited = err.Error()
	} else if !d.CitesNone && !slices.ContainsFunc(cited, func(b streams.BeliefRef) bool { return b.Found }) {
		e.Uncited = fmt.Sprintf("none of the %d beliefs that it cites is known", len(cited))
	}
	if e.Uncited == "" {
		return admission(streams.TypeDecision, project, e)
	}
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil {
		return nil, err
	}
	if pol != nil && pol.Uncited() == policy.UncitedReject {
		return f.reject(st, m, &streams.RejectError{Code: streams.CodeUncited, ID: head.ID, Session: head.Session,
			Reason: "decision " + head.ID + ": " + e.Uncited})
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
