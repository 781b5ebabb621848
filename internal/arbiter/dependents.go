package arbiter

import (
	"slices"
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// This file revises an open hold when a belief or event on which it depends becomes less reliable.
//
// An index leads from beliefs and events to the open holds that depend on them. A new finding on a belief or event
// sets a timer that is due at once. Each due entry of this timer checks the next open hold that depends on the belief
// or event, so that the work is spread over many entries. If there are new reasons against the hold, it gets a new
// revision, in an entry of the arbiter.
//
// Three kinds of findings do not revise open holds: findings on sources, findings on beliefs that were recalled in the
// session, and findings on subjects of a hold beyond its first maxSubjects. They are looked up when somebody is about
// to release the hold.

// maxSubjects is the maximum number of subjects under which a hold is in the index.
const maxSubjects = 256

// touched is a subject with a new finding, whose open holds are being checked again.
type touched struct {
	At    time.Time `json:"at"`             // time at which the timer is due
	After string    `json:"after,omitzero"` // id of the last hold that was checked
}

// walk calls visit for each subject whose findings apply to a proposal that depends on r. The subjects that r names
// come first: its belief, and its decision or its observation and source. Then come the ancestors of the belief.
//
// sender is the agent that sent the proposal. If r names a decision, sender sent that too. base is the path from the
// proposal to r, or nil if the caller needs no paths.
//
// The arguments of visit: under is the subject's key. If the subject is an event, agent is the agent that sent it, else
// "". path leads from the proposal to the subject. named is true only for the belief that r itself names.
func walk(st *stage.State, project, sender string, r dependency, base []string,
	visit func(under, agent string, path []string, named bool) error) error {
	if r.Belief != "" {
		if err := visit(beliefSubject(r.Belief), "", base, true); err != nil {
			return err
		}
	}
	if r.Rel == relDecision {
		return visit(eventSubject(r.Decision), sender, base, false)
	}
	if r.Observation != "" {
		if err := visit(eventSubject(r.Observation), r.Agent, base, false); err != nil {
			return err
		}
	}
	if source := sourceOf(r); source != "" {
		if err := visit(sourceSubject(source), "", base, false); err != nil {
			return err
		}
	}
	if r.Belief == "" {
		return nil
	}
	seen := map[string]bool{r.Belief: true}
	next := []step{{id: r.Belief, path: base}}
	for n := 0; len(next) > 0 && n < maxSteps; n++ {
		s := next[0]
		next = next[1:]
		var from parents
		ok, err := st.Load(stage.Key(keyParents, project, s.id), &from)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		for _, id := range from.From {
			if seen[id] {
				continue
			}
			seen[id] = true
			path := append(slices.Clip(s.path), streams.Clip("from:"+id, maxStep))
			if err := visit(beliefSubject(id), "", path, false); err != nil {
				return err
			}
			if err := visit(eventSubject(id), from.Agent, path, false); err != nil {
				return err
			}
			if len(path) < maxPath {
				next = append(next, step{id, from.Agent, path})
			}
		}
	}
	return nil
}

// holdSubject returns the key of a hold as a subject of its own.
func holdSubject(id string) string { return subject('h', id) }

// offerSubject returns the key of a catalogue of tools as a subject. seq is the ledger sequence of the catalogue.
func offerSubject(seq uint64) string { return subject('t', offerKey(seq)) }

func dependentKey(project, under, hold string) []byte {
	return stage.Key(keyDependents, project, under, hold)
}

// index stores the subjects under which an open hold is found, in place of the earlier ones. The caller must store the
// hold.
func (h *hold) index(st *stage.State) error {
	now := []string{holdSubject(h.ID)}
	if h.Catalogue != 0 {
		now = append(now, offerSubject(h.Catalogue))
	}
	deps := slices.Clone(h.Rests)
	for _, id := range h.From {
		deps = append(deps, dependency{Rel: relCited, Belief: id})
	}
	for _, r := range deps {
		err := walk(st, h.Project, h.Agent, r, nil, func(under, _ string, _ []string, _ bool) error {
			if under[0] != 's' {
				now = append(now, under)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	now = now[:min(len(now), maxSubjects)]
	slices.Sort(now)
	now = slices.Compact(now)
	if err := h.unindex(st, now); err != nil {
		return err
	}
	for _, under := range now {
		if err := st.Set(dependentKey(h.Project, under, h.ID), nil); err != nil {
			return err
		}
	}
	h.Under = now
	return nil
}

// unindex removes the hold from the index, except under the subjects in keep. keep is sorted.
func (h *hold) unindex(st *stage.State, keep []string) error {
	for _, under := range h.Under {
		if _, kept := slices.BinarySearch(keep, under); kept {
			continue
		}
		if err := st.Delete(dependentKey(h.Project, under, h.ID)); err != nil {
			return err
		}
	}
	h.Under = nil
	return nil
}

// dependents returns the ids of the next one or two holds that are indexed under a subject. It skips ids up to after.
func dependents(st *stage.State, project, under, after string) (ids []string, err error) {
	prefix := dependentKey(project, under, "")
	err = st.ScanFrom(prefix, dependentKey(project, under, after), func(k, _ []byte) (bool, error) {
		if id := string(k[len(prefix):]); id > after {
			ids = append(ids, id)
		}
		return len(ids) < 2, nil
	})
	return ids, err
}

// startRecheck starts to check the open holds that depend on a subject again. The first check is due at once. Each due
// entry checks one hold.
func (f *Fold) startRecheck(st *stage.State, project, under string, now time.Time) error {
	ids, err := dependents(st, project, under, "")
	if err != nil || len(ids) == 0 {
		return err
	}
	t, key := new(touched), stage.Key(keyTouched, project, under)
	ok, err := st.Load(key, t)
	if err != nil {
		return err
	}
	if !ok {
		t.At = now
	}
	t.After = "" // the holds checked so far were not checked for this finding
	if err := f.addTimer(st, t.At, timerRecheck, []byte(project+"\x00"+under)); err != nil {
		return err
	}
	f.timers[st.Partition()].fresh = false
	return st.Put(key, t)
}

// recheckDue sets the fields of the due entry that checks the next hold of a subject.
func recheckDue(st *stage.State, project, under string, due *streams.DueEntry) error {
	t := new(touched)
	_, err := st.Load(stage.Key(keyTouched, project, under), t)
	due.Recheck, due.After = under, t.After
	return err
}

// rechecked folds a due entry that recheckDue filled in: it checks the next open hold of the entry's subject again.
func (f *Fold) rechecked(st *stage.State, project string, d *streams.DueEntry, now time.Time) (*stage.Output, error) {
	t, key := new(touched), stage.Key(keyTouched, project, d.Recheck)
	ok, err := st.Load(key, t)
	if err != nil || ok && (!t.At.Equal(d.Until) || t.After != d.After) {
		return nil, err // a repeated due entry
	}
	ids, err := dependents(st, project, d.Recheck, d.After)
	if err != nil {
		return nil, err
	}
	if !ok || len(ids) < 2 {
		if err := f.dropTimer(st, d.Until, timerRecheck, []byte(project+"\x00"+d.Recheck)); err != nil {
			return nil, err
		}
		if err := st.Delete(key); err != nil {
			return nil, err
		}
	} else {
		t.After = ids[0]
		f.timers[st.Partition()].fresh = false
		if err := st.Put(key, t); err != nil {
			return nil, err
		}
	}
	if !ok || len(ids) == 0 {
		return nil, nil
	}
	return f.reviseOpen(st, project, ids[0], now)
}

// reviseOpen gives an open hold a new revision if there are new reasons against it. If a new reason asks for deny, it
// denies the held action.
func (f *Fold) reviseOpen(st *stage.State, project, id string, now time.Time) (*stage.Output, error) {
	h := new(hold)
	ok, err := st.Load(stage.Key(keyHold, project, id), h)
	if err != nil || !ok || h.State != streams.HoldOpen {
		return nil, err
	}
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil || pol == nil {
		return nil, err
	}
	// Index the hold again: its beliefs may have more parents than when it was indexed.
	if err := h.index(st); err != nil {
		return nil, err
	}
	if err := st.Put(stage.Key(keyHold, project, id), h); err != nil {
		return nil, err
	}
	fresh, err := f.recheck(st, h, pol)
	if err != nil || len(fresh) == 0 {
		return nil, err
	}
	v := &h.Entry
	v.Time, v.Late, v.Again, v.Alert = now, true, false, nil
	if strictest(fresh) == streams.Deny {
		return f.denyHeld(st, nil, h, fresh, now)
	}
	if err := f.revise(st, h, fresh); err != nil {
		return nil, err
	}
	return stage.NewOutput(streams.TypeVerdict, project, v, append(verdictLive(project, v),
		holdLive(project, v, streams.HoldOpen)...)...)
}
