package ingest

import (
	"bytes"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// noteFall finds the past decisions and actions that cite a belief which is no longer reliable, and queues an entry
// that names them. next is the belief's new record. The state still has the old one.
func (f *Fold) noteFall(st *stage.State, project string, next *record) error {
	now := next.Ref.Axes
	if now.Truth < beliefs.Contradicted && now.Security < beliefs.Quarantined {
		return nil
	}
	old, err := f.belief(st, project, next.Ref.ID)
	if err != nil || old == nil || !beliefs.Fell(old.Ref.Axes, now) {
		return err
	}
	at, err := f.clock(st, project)
	if err != nil {
		return err
	}
	why := next.fallBecause()
	var all []beliefs.Dependant
	for _, kind := range []string{impactDecision, impactAction} {
		prefix := stage.Key(keyImpact, project, next.Ref.ID, kind, "")
		err := st.Scan(prefix, func(k, _ []byte) (bool, error) {
			agent, id, _ := bytes.Cut(k[len(prefix):], []byte{0})
			all = append(all, beliefs.Dependant{Kind: kind, ID: string(id), Agent: string(agent), Belief: next.Ref.ID,
				Axes: now, Why: why, At: at})
			return len(all) < maxDependants, nil
		})
		if err != nil {
			return err
		}
	}
	for len(all) > 0 {
		n := min(len(all), maxRevisions)
		if err := f.queue(st, &pendingRevisions{Because: becauseFallen, Project: project, Of: next.of(), At: at,
			Dependants: all[:n]}); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// fallBecause says why a belief is no longer reliable.
func (r *record) fallBecause() string {
	switch a := r.Ref.Axes; {
	case a.Security >= beliefs.Quarantined:
		return "it is " + a.Security.String()
	case a.Truth == beliefs.Superseded && r.Successor != "":
		return "superseded by " + r.Successor
	case a.Truth == beliefs.Contradicted && len(r.Conflicts) > 0:
		return streams.Clip("contradicted by "+r.Conflicts[len(r.Conflicts)-1], 120)
	default:
		return "it is " + a.Truth.String()
	}
}
