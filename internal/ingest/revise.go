package ingest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Limits on the effects of one change.
const (
	// maxDependants is the maximum number of beliefs that are flagged because a belief that they
	// derive from is no longer reliable.
	maxDependants = 1000
	// maxDepth is the maximum number of steps of derivation that flagDependants follows.
	maxDepth = 8
	// maxConflicts is the maximum number of ids in record.Conflicts.
	maxConflicts = 16
)

// revise applies a revision to the record of its belief. The changes were checked when the revision was decided.
func (f *Fold) revise(st *stage.State, project string, rv *beliefs.Revision) error {
	if rv.Anew != "" {
		return f.stateAnew(st, project, rv)
	}
	r, err := f.belief(st, project, rv.Belief)
	if err != nil {
		return err
	}
	if r == nil {
		f.log.Error("a revision is of an unknown belief", "belief", rv.Belief)
		return nil
	}
	if err := f.forecast(st, project, r, rv); err != nil {
		return err
	}
	for _, m := range rv.Moves {
		if r.Ref.Axes, err = r.Ref.Axes.With(m); err != nil {
			return fmt.Errorf("revision of belief %s: %w", rv.Belief, err)
		}
		if m.Successor != "" {
			r.Successor = m.Successor
		}
	}
	if was := rv.Restored; was != nil {
		r.restore(was)
	}
	for _, e := range rv.Evidence {
		r.Evidence = r.Evidence.With(e)
	}
	if len(rv.Evidence) > 0 {
		s := r.standing()
		r.Ref.Quality, r.Ref.Confidence = s.Quality(), s.Confidence()
	}
	r.Ref.Scope = max(r.Ref.Scope, rv.Scope)
	switch rv.Who {
	case whoConflict:
		if rv.Other != "" && !slices.Contains(r.Conflicts, rv.Other) && len(r.Conflicts) < maxConflicts {
			r.Conflicts = append(r.Conflicts, rv.Other)
		}
	case whoLineage:
		r.Flag = rv.Why
	}
	return f.saveRecord(st, project, r)
}

// Values of Revision.Who for revisions that no person, rule or policy makes.
const (
	whoConflict = "contradiction" // of triples
	whoLineage  = "lineage"       // a belief from which the revised one derives is no longer reliable
	whoTime     = "time"
	whoCorrob   = "corroboration"
)

// flagDependants returns revisions that flag the beliefs that derive from a belief, directly or over several steps.
// Flagged beliefs are stale until they are confirmed. Their truth does not change, because they may have other support.
// why is the reason.
func (f *Fold) flagDependants(st *stage.State, project, belief, why string, at time.Time) ([]beliefs.Revision, error) {
	var out []beliefs.Revision
	seen := map[string]bool{belief: true}
	level := []string{belief}
	for depth := 0; depth < maxDepth && len(level) > 0; depth++ {
		var next []string
		for _, id := range level {
			children, err := f.children(st, project, id, seen)
			if err != nil {
				return nil, err
			}
			for _, c := range children {
				r, err := f.belief(st, project, c)
				if err != nil {
					return nil, err
				}
				if r == nil {
					continue
				}
				next = append(next, c)
				rv := beliefs.Revision{Belief: c, By: beliefs.BySystem, Who: whoLineage, Why: why, Other: belief, At: at}
				if _, moves, err := r.standing().Set(beliefs.Change{Axis: beliefs.AxisFreshness, To: beliefs.Stale.String()},
					beliefs.BySystem); err == nil {
					rv.Moves = moves
				}
				out = append(out, rv)
			}
		}
		level = next
	}
	return out, nil
}

// children returns the memories that derive from a belief, or from the event that introduced it, except those in seen.
func (f *Fold) children(st *stage.State, project, id string, seen map[string]bool) (out []string, err error) {
	under := []string{id}
	r, err := f.belief(st, project, id)
	if err != nil {
		return nil, err
	}
	if r != nil && !r.Memory {
		under = append(under, parentKey(streams.Parent{ID: r.Ref.Observation, Agent: r.Agent}))
	}
	for _, u := range under {
		prefix := stage.Key(keyImpact, project, u, impactMemory, "")
		err := st.Scan(prefix, func(k, _ []byte) (bool, error) {
			_, child, _ := bytes.Cut(k[len(prefix):], []byte{0}) // agent, belief
			if c := string(child); !seen[c] {
				seen[c] = true
				out = append(out, c)
			}
			return len(seen) <= maxDependants, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
