package ingest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// lifetime returns the times until which a memory is fresh, and until which it is served; zero means without limit. If
// the write states a TTL, that limits how long the memory is served, but cannot extend the time that the policy gives
// the memory's category.
func lifetime(pol *policy.Policy, m *streams.Memory, now time.Time) (stale, expires time.Time) {
	var fresh, served time.Duration
	if pol != nil {
		fresh, served = pol.Lifetime(m.Category)
	}
	if ttl := time.Duration(m.TTL) * time.Second; m.TTL > 0 && (served == 0 || ttl < served) {
		served = ttl
	}
	if fresh > 0 && (served == 0 || fresh < served) {
		stale = now.Add(fresh)
	}
	if served > 0 {
		expires = now.Add(served)
	}
	return stale, expires
}

// renew restarts the lifetime of a confirmed belief.
func (f *Fold) renew(st *stage.State, project string, r *record, now time.Time) error {
	if !r.Stale.IsZero() {
		r.Stale = now.Add(r.Stale.Sub(r.Since))
	}
	if !r.Expires.IsZero() {
		r.Expires = now.Add(r.Expires.Sub(r.Since))
	}
	r.Since = now
	return f.noteDue(st, project, r)
}

// axesAt returns a belief's axes at a time. A belief that is due counts as stale or expired even before an entry
// records that.
func (r *record) axesAt(now time.Time) beliefs.Axes {
	a := r.Ref.Axes
	switch {
	case !r.Expires.IsZero() && !now.Before(r.Expires):
		a.Freshness = beliefs.Expired
	case !r.Stale.IsZero() && !now.Before(r.Stale) && a.Freshness == beliefs.Fresh:
		a.Freshness = beliefs.Stale
	}
	return a
}

func dueKey(project string, at time.Time, belief string) []byte {
	k := stage.Key(keyDue, clockName(project), "")
	k = binary.BigEndian.AppendUint64(k, uint64(at.UnixNano()))
	return append(append(append(k, project...), 0), belief...)
}

// clockName names the clock of a project: the project's own name if its time is virtual, otherwise "", the clock of the
// partition.
func clockName(project string) string {
	if streams.IsSynthetic(project) {
		return project
	}
	return ""
}

// noteDue stores the times at which a belief becomes stale and expires.
func (f *Fold) noteDue(st *stage.State, project string, r *record) error {
	for _, at := range []time.Time{r.Stale, r.Expires} {
		if at.IsZero() {
			continue
		}
		if err := st.Set(dueKey(project, at, r.Ref.ID), nil); err != nil {
			return err
		}
		f.dues.forget(st.Partition(), clockName(project))
	}
	return nil
}

// dues caches, by partition and clock name, when the next belief becomes stale or expires.
type dues [streams.Partitions]map[string]time.Time // zero time: no belief does

func (d *dues) forget(p int, clock string) { delete(d[p], clock) }

// ages reports whether a belief on the clock of a project has become stale or expired by now.
func (f *Fold) ages(st *stage.State, project string, now time.Time) (bool, error) {
	clock := clockName(project)
	if f.dues[st.Partition()] == nil {
		f.dues[st.Partition()] = make(map[string]time.Time)
	}
	at, known := f.dues[st.Partition()][clock]
	if !known {
		prefix := stage.Key(keyDue, clock, "")
		if err := st.Scan(prefix, func(k, _ []byte) (bool, error) {
			at = time.Unix(0, int64(binary.BigEndian.Uint64(k[len(prefix):])))
			return false, nil
		}); err != nil {
			return false, err
		}
		f.dues[st.Partition()][clock] = at
	}
	return !at.IsZero() && !now.Before(at), nil
}

// scanDue calls fn for the beliefs of a clock that became stale or expired by the time now, the earliest first.
func (f *Fold) scanDue(st *stage.State, clock string, now time.Time,
	fn func(key []byte, project, belief string) (more bool, err error)) error {
	prefix := stage.Key(keyDue, clock, "")
	return st.Scan(prefix, func(k, _ []byte) (bool, error) {
		rest := k[len(prefix):]
		if len(rest) < 8 || int64(binary.BigEndian.Uint64(rest)) > now.UnixNano() {
			return false, nil
		}
		project, belief, _ := bytes.Cut(rest[8:], []byte{0})
		return fn(k, string(project), string(belief))
	})
}

// aged returns the revisions of beliefs of one project and one person that became stale or expired, as many as fit into
// one entry, or nil if there are none. The result's Aged is the number of due times to remove. It counts beliefs
// without a revision too: a belief that was confirmed since, or dropped, does not become stale, but its due time is
// removed.
func (f *Fold) aged(st *stage.State) (*pendingRevisions, error) {
	for _, clock := range f.agedClocks(st.Partition()) {
		now, err := f.clock(st, clock)
		if err != nil {
			return nil, err
		}
		var o *pendingRevisions
		n := 0
		err = f.scanDue(st, clock, now, func(_ []byte, project, belief string) (bool, error) {
			if o == nil {
				o = &pendingRevisions{Because: becauseTime, Project: project, At: now}
			}
			if project != o.Project || n == maxRevisions {
				return false, nil
			}
			r, err := f.belief(st, project, belief)
			if err != nil {
				return false, err
			}
			if r != nil && n == 0 {
				o.Of = r.of()
			}
			if r != nil && r.of() != o.Of || r == nil && o.Of != (streams.Person{}) {
				return false, nil
			}
			n++
			o.Aged = n
			if r == nil {
				return true, nil
			}
			var changes []beliefs.Change
			to := r.axesAt(now).Freshness
			if r.Ref.Axes.Freshness == beliefs.Fresh && to >= beliefs.Stale {
				changes = append(changes, beliefs.Change{Axis: beliefs.AxisFreshness, To: beliefs.Stale.String()})
			}
			if r.Ref.Axes.Freshness < beliefs.Expired && to == beliefs.Expired {
				changes = append(changes, beliefs.Change{Axis: beliefs.AxisFreshness, To: beliefs.Expired.String()})
			}
			rv := beliefs.Revision{Belief: belief, By: beliefs.BySystem, Who: whoTime, Why: "it came of age", At: now}
			s := r.standing()
			for _, c := range changes {
				next, moves, err := s.Set(c, beliefs.BySystem)
				if err != nil {
					break
				}
				s, rv.Moves = next, append(rv.Moves, moves...)
			}
			if len(rv.Moves) > 0 {
				o.Revisions = append(o.Revisions, rv)
			}
			return true, nil
		})
		if err != nil || o != nil {
			return o, err
		}
		f.dues.forget(st.Partition(), clock)
	}
	return nil, nil
}

// agedClocks returns the names of the clocks to check for beliefs that became stale or expired. After a restart, only
// the partition's own clock is checked. That suffices, because virtual time does not advance without an event of its
// project.
func (f *Fold) agedClocks(p int) []string {
	clocks := []string{""}
	if c := f.virtual[p]; c != "" {
		clocks = append(clocks, c)
	}
	return clocks
}

// dropDue removes the due times of a project that the entry e covers.
func (f *Fold) dropDue(st *stage.State, project string, e *streams.RevisionsEntry) error {
	clock := clockName(project)
	var gone [][]byte
	err := f.scanDue(st, clock, e.Time, func(k []byte, p, belief string) (bool, error) {
		if p != project || len(gone) == cmp.Or(e.Aged, maxRevisions) {
			return false, nil
		}
		if e.Aged > 0 {
			var of streams.Person
			r, err := f.belief(st, project, belief)
			if err != nil {
				return false, err
			}
			if r != nil {
				of = r.of()
			}
			if of != e.Of() {
				return true, nil // another entry covers this time
			}
		}
		gone = append(gone, append([]byte(nil), k...))
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, k := range gone {
		if err := st.Delete(k); err != nil {
			return err
		}
	}
	f.dues.forget(st.Partition(), clock)
	return nil
}
