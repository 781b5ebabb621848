package ingest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/position"
	"lazaret/streams"
)

func init() {
	writesIn(streams.TypeRestore, (*Fold).applyRestore)
}

// A rollback goes through a project's beliefs once, in the order of walk. Its entries have at most maxRevisions
// revisions each. A belief from before the point gets its former state back, as far as the transition tables allow a
// person to restore that. A later belief is hidden, but stays in the ledger for review. The progress of a rollback is
// part of the state and advances with the rollback's own entries, as that of a re-audit does.

const (
	becauseRestore = "restore"
	whoRestore     = "restore"

	// maxRolled is the size of an entry in bytes from which it takes no further belief. The revision of a restored
	// belief contains its evidence, with up to 48 sources.
	maxRolled = 1 << 20
)

// rolling is the progress of a rollback. Rollback.Last is set once it is finished.
type rolling struct {
	streams.Rollback
	Number uint64 `json:"number"` // number of the point
	Intake uint64 `json:"intake"` // Intake of the point
	Until  uint64 `json:"until"`  // beliefs from this place in the intake on are not changed
	By     string `json:"by"`
	Order  string `json:"order"` // id of the order
}

func (f *Fold) running(st *stage.State, project string) (*rolling, error) {
	r := new(rolling)
	ok, err := st.Load(stage.Key(keyRollback, project), r)
	if err != nil || !ok {
		return nil, err
	}
	return r, nil
}

func (f *Fold) pointOf(st *stage.State, project, name string) (*Point, error) {
	all, err := f.points(st, project)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(p Point) bool { return p.Name == name })
	if i < 0 {
		return nil, nil
	}
	return &all[i], nil
}

// orderRestore begins a rollback, by a signed order.
func (f *Fold) orderRestore(st *stage.State, project string, head streams.EntryHead, s *approval.SignedOrder,
	signed *streams.Signature) (*stage.Admission, error) {
	p, err := f.pointOf(st, project, s.Point)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, orderError("project %s has no restore point %s", project, streams.Clip(s.Point, 64))
	}
	if run, err := f.running(st, project); err != nil {
		return nil, err
	} else if run != nil && !run.Last {
		return nil, orderError("a rollback to %s is under way: wait for it", run.Point)
	}
	return admission(streams.TypeRestore, project, &streams.RestoreEntry{EntryHead: head, Point: p.Name, Taken: p.At,
		Text: s.Reason, Signed: signed, Before: autoName(pointRestore, head.Intake)})
}

func (f *Fold) applyRestore(st *stage.State, project string, e *streams.RestoreEntry) error {
	if err := f.useNonce(st, project, e.Signed.Nonce, e.Signed.Until, e.Time); err != nil {
		return err
	}
	p, err := f.pointOf(st, project, e.Point)
	if err != nil {
		return err
	}
	if p == nil {
		f.log.Error("a rollback is to an unknown restore point", "point", e.Point)
		return nil
	}
	// A rollback to this point undoes this rollback.
	if err := f.takePoint(st, project, &Point{Name: e.Before, Why: pointRestore, By: e.Signed.Signer, At: e.Time,
		Intake: placeBefore(e.Intake)}); err != nil {
		return err
	}
	f.wakes[st.Partition()] = true
	return st.Put(stage.Key(keyRollback, project), &rolling{Rollback: streams.Rollback{Point: p.Name}, Number: p.Number,
		Intake: p.Intake, Until: e.Intake, By: e.Signed.Signer, Order: e.ID})
}

// rollback returns the next entry of a running rollback, or nil.
func (f *Fold) rollback(st *stage.State) (*stage.Admission, error) {
	var project string
	run := new(rolling)
	err := st.Scan([]byte{keyRollback}, func(k, v []byte) (bool, error) {
		r := new(rolling)
		if err := streams.Unmarshal(v, r); err != nil {
			return false, err
		}
		if r.Last {
			return true, nil
		}
		project, run = string(k[1:]), r
		return false, nil
	})
	if err != nil || project == "" {
		return nil, err
	}
	now, err := f.clock(st, project)
	if err != nil {
		return nil, err
	}
	e := &streams.RevisionsEntry{EntryHead: streams.EntryHead{Time: now}, Because: becauseRestore, Rollback: &run.Rollback}
	if e.Revisions, err = f.roll(st, project, run, now); err != nil {
		return nil, err
	}
	e.EntryHead = named(e.EntryHead, run.Of)
	return admission(streams.TypeRevision, project, e, stage.LiveCopy(&run.Rollback, project, "rollback", run.Point)...)
}

// roll computes the next revisions of a rollback, and advances its progress in run.
func (f *Fold) roll(st *stage.State, project string, run *rolling, now time.Time) ([]beliefs.Revision, error) {
	from := walk{project: project, belief: run.Next, named: run.Named, of: run.Of}
	run.Last = true
	if !run.Named {
		run.Of = streams.Person{}
	}
	var out []beliefs.Revision
	found, looked, size := 0, 0, 0
	err := walkBeliefs(st, project, from, func(at walk, r *record) (bool, error) {
		// Stop at half of the limit, because a belief may take two revisions.
		if found == maxRevisions/2 || size >= maxRolled || looked == maxLooked || found > 0 && (at.named != run.Named ||
			r != nil && at.of != run.Of) {
			run.Last = false
			return false, nil
		}
		looked++
		if run.Next, run.Named = at.belief, at.named; r == nil {
			return true, nil
		}
		if found == 0 {
			run.Of = at.of
		}
		if position.Compare(r.Intake, run.Until) >= 0 {
			return true, nil // this rollback made the belief, or the belief came later
		}
		found++
		rvs, err := f.rollOne(st, project, run, r, now)
		if err != nil {
			return false, err
		}
		v, err := streams.Marshal(rvs)
		out, size = append(out, rvs...), size+len(v)
		return true, err
	})
	return out, err
}

// rollOne computes the revisions of one belief.
func (f *Fold) rollOne(st *stage.State, project string, run *rolling, r *record, now time.Time) ([]beliefs.Revision,
	error) {
	rv := beliefs.Revision{Belief: r.Ref.ID, By: beliefs.ByUser, Who: run.By, Why: "rollback to " + run.Point, At: now}
	if position.Compare(r.Intake, run.Intake) > 0 {
		if r.Ref.Axes.Retrieval != beliefs.Normal && r.Ref.Axes.Retrieval != beliefs.Restricted {
			return nil, nil
		}
		_, moves, err := r.standing().Set(beliefs.Change{Axis: beliefs.AxisRetrieval, To: beliefs.Hidden.String()},
			beliefs.ByUser)
		if err != nil {
			return nil, nil
		}
		rv.Moves, rv.Why = moves, rv.Why+": it came in later"
		run.Out++
		return []beliefs.Revision{rv}, nil
	}
	was, err := f.before(st, project, r.Ref.ID, run.Number)
	if err != nil || was == nil {
		return nil, err
	}
	if r.asItWas().same(was) {
		return nil, nil
	}
	next, moves, left := r.standing().Back(was.Axes, was.Evidence)
	restored := was.AsItWas
	restored.Evidence = next.Evidence
	if next.Axes.Truth == beliefs.Supported && was.Axes.Truth != beliefs.Supported {
		restored.Signed = r.Signed // this signature supports the belief
	}
	rv.Moves, rv.Restored = moves, &restored
	out := []beliefs.Revision{rv}
	switch {
	case r.Ref.Axes.Truth == beliefs.Superseded && was.Axes.Truth == beliefs.Supported &&
		was.Axes.Security == beliefs.Clean && r.Ref.Axes.Security == beliefs.Clean:
		run.Anew++
		anew := rv
		anew.Belief, anew.Anew, anew.Moves = beliefID("anew", project, r.Ref.ID, run.Order), r.Ref.ID, nil
		anew.Restored = &was.AsItWas
		// A new belief begins as a candidate. These moves lead from there to the former state.
		for _, x := range []struct {
			axis     beliefs.Axis
			from, to string
		}{{beliefs.AxisTruth, beliefs.Unverified.String(), was.Axes.Truth.String()},
			{beliefs.AxisRetrieval, beliefs.Hidden.String(), was.Axes.Retrieval.String()}} {
			if x.from != x.to {
				anew.Moves = append(anew.Moves, beliefs.Move{Axis: x.axis, From: x.from, To: x.to})
			}
		}
		out[0].Other = anew.Belief
		out = append(out, anew)
	case len(left) > 0:
		run.Left++
	default:
		run.Back++
	}
	return out, nil
}

// same reports whether two states are equal.
func (a *asItWas) same(b *asItWas) bool {
	x, errX := streams.Marshal(a)
	y, errY := streams.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// applyRollback folds an entry of a rollback.
func (f *Fold) applyRollback(st *stage.State, project string, e *streams.RevisionsEntry) error {
	run, err := f.running(st, project)
	if err != nil || run == nil {
		return err
	}
	for i := range e.Revisions {
		if err := f.revise(st, project, &e.Revisions[i]); err != nil {
			return err
		}
	}
	run.Rollback = *e.Rollback
	run.Index++
	f.wakes[st.Partition()] = !run.Last
	return st.Put(stage.Key(keyRollback, project), run)
}

// stateAnew creates a new belief with the content and the former state of a superseded belief, because a superseded
// belief itself cannot be restored.
func (f *Fold) stateAnew(st *stage.State, project string, rv *beliefs.Revision) error {
	r, err := f.belief(st, project, rv.Anew)
	if err != nil {
		return err
	}
	if r == nil {
		f.log.Error("a rollback restores an unknown belief", "belief", rv.Anew)
		return nil
	}
	run, err := f.running(st, project)
	if err != nil || run == nil {
		return err
	}
	content := r.Content
	if !r.Memory {
		if content, _, err = f.beliefText(st, project, r); err != nil {
			return err
		}
	}
	r.Ref.ID, r.Intake, r.Successor, r.At = rv.Belief, run.Until, "", rv.At
	r.Ref.Axes = beliefs.Axes{Freshness: beliefs.Fresh}
	for _, m := range rv.Moves {
		if r.Ref.Axes, err = r.Ref.Axes.With(m); err != nil {
			return fmt.Errorf("restoring belief %s: %w", rv.Anew, err)
		}
	}
	r.restore(rv.Restored)
	r.Parents = []streams.Parent{{ID: rv.Anew, Origin: r.Ref.Origin, Declared: true}}
	if err := f.renew(st, project, r, rv.At); err != nil {
		return err
	}
	if !r.Memory {
		if err := keepText(st, project, r.Ref.ID, content); err != nil {
			return err
		}
	}
	if err := f.saveRecord(st, project, r); err != nil {
		return err
	}
	if err := notePerson(st, project, r); err != nil {
		return err
	}
	if err := f.influence(st, project, rv.Anew, impactMemory, r.Agent, r.Ref.ID); err != nil {
		return err
	}
	if r.Ref.Key != "" {
		if err := st.Set(nameKey(project, r.Ref.Namespace, r.Ref.Key), []byte(r.Ref.ID)); err != nil {
			return err
		}
	}
	return indexBelief(st, project, r, content, sha256.Sum256([]byte(content)))
}

// AskRollback is the query for a preview of a rollback.
const AskRollback = "rollback"

// RollbackRequest asks for a part of the preview of a rollback to a point.
type RollbackRequest struct {
	Project string `json:"project"`
	Point   string `json:"point"`
	// Run is the progress that the previous answer returned; nil for the first part.
	Run *streams.Rollback `json:"run,omitzero"`
}

// RollbackAnswer is the next part of a preview. If a revision states a belief anew, the preview leaves out the new
// belief's id, because that id depends on the signed order, and a preview has none.
type RollbackAnswer struct {
	Run       streams.Rollback   `json:"run"` // if Last is set, the preview is complete
	Revisions []beliefs.Revision `json:"revisions"`
}

func tryRollback(st *stage.State, req []byte) (any, error) {
	var q RollbackRequest
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	if err := streams.CheckID("project", q.Project); err != nil {
		return nil, err
	}
	f := New(Config{})
	p, err := f.pointOf(st, q.Project, q.Point)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, fmt.Errorf("project %s has no restore point %s", q.Project, streams.Clip(q.Point, 64))
	}
	run := &rolling{Rollback: streams.Rollback{Point: p.Name}, Number: p.Number, Intake: p.Intake, Until: ^uint64(0),
		Order: "dry"}
	if q.Run != nil {
		run.Rollback = *q.Run
	}
	now, err := f.clock(st, q.Project)
	if err != nil {
		return nil, err
	}
	revisions, err := f.roll(st, q.Project, run, now)
	for i := range revisions {
		if revisions[i].Anew != "" {
			revisions[i].Belief = ""
		}
	}
	return &RollbackAnswer{Run: run.Rollback, Revisions: append([]beliefs.Revision{}, revisions...)}, err
}
