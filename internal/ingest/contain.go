package ingest

import (
	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// touched records what an incident did to one belief: it withheld the belief or flagged it.
type touched struct {
	Was  beliefs.Axes `json:"was"`
	Root bool         `json:"root,omitzero"` // the belief matches the scope; else it derives from a belief that does
	Out  bool         `json:"out,omitzero"`  // the belief was withheld; else it was flagged
	Back bool         `json:"back,omitzero"` // a repair has restored the belief
}

// served reports whether the belief was served for planning before the incident.
func (t *touched) served() bool {
	return t.Was.Truth == beliefs.Supported && t.Was.Retrieval == beliefs.Normal && t.Was.Security == beliefs.Clean &&
		t.Was.Freshness == beliefs.Fresh
}

// contained is the effect of a quarantine on one belief.
type contained struct {
	record *record
	touched
	rev beliefs.Revision
}

// containment sums up what a quarantine does to beliefs.
type containment struct {
	found, descendants, spared int
	all                        []contained
	cut                        bool
}

func (c *containment) count(r *beliefs.IncidentReport) {
	r.Found += c.found
	r.Descendants += c.descendants
	r.Spared += c.spared
	for i := range c.all {
		x := &c.all[i]
		if x.Out {
			r.Quarantined++
			if x.served() {
				r.Served++
			}
		}
		if !x.Root && x.served() {
			r.Collateral++
		}
	}
}

// contain computes the effects of a quarantine without applying them. Matching beliefs are withheld. If Descendants or
// All is set, beliefs that derive from the matching ones are withheld too. If neither is set, the deriving beliefs
// become stale until a person confirms them or a repair restores them. Unless All is set, beliefs with independent
// support are spared.
func (f *Fold) contain(st *stage.State, project string, s *beliefs.IncidentScope) (*containment, error) {
	p, err := f.pinpoint(st, &PinpointRequest{Project: project, Beliefs: s.Beliefs, Agent: s.Agent, Session: s.Session,
		Source: s.Source, Tool: s.Tool, Since: s.Since, Until: s.Until, Descendants: true})
	if err != nil {
		return nil, err
	}
	c := &containment{cut: p.Cut}
	for i := range p.Beliefs {
		b := &p.Beliefs[i]
		root := b.From == ""
		if root {
			c.found++
		} else {
			c.descendants++
		}
		if b.Stands != "" && !s.All {
			c.spared++
			continue
		}
		r, err := f.belief(st, project, b.ID)
		if err != nil {
			return nil, err
		}
		x := contained{record: r, touched: touched{Was: r.Ref.Axes, Root: root, Out: root || s.Descendants || s.All}}
		var moves []beliefs.Move
		if x.Out {
			if r.Ref.Axes.Security >= beliefs.Quarantined {
				continue // the belief is already quarantined
			}
			_, moves, err = r.standing().Quarantine(beliefs.ByUser)
		} else {
			_, moves, err = r.standing().Set(beliefs.Change{Axis: beliefs.AxisFreshness, To: beliefs.Stale.String()},
				beliefs.BySystem)
		}
		if err != nil || len(moves) == 0 {
			continue // the belief is already restricted at least as much
		}
		x.rev = beliefs.Revision{Belief: b.ID, Moves: moves, By: beliefs.ByUser, Other: b.From}
		if !x.Out {
			x.rev.By = beliefs.BySystem
		}
		c.all = append(c.all, x)
	}
	return c, nil
}

// back is a belief that a repair restores.
type back struct {
	id  string
	was touched
	rev beliefs.Revision
}

// rederive returns those beliefs of an incident that derive from its roots (the beliefs that matched the scope), but
// are also supported independently of the incident: by other evidence of a class that may support a belief, or by an
// untouched belief that states the same. A repair restores each to at most the state before the incident.
func (f *Fold) rederive(st *stage.State, project, incident string) ([]back, error) {
	rows := map[string]*touched{}
	var order []string
	prefix := touchedPrefix(project, incident)
	err := st.Scan(prefix, func(k, v []byte) (bool, error) {
		t := new(touched)
		id := string(k[len(prefix):])
		rows[id], order = t, append(order, id)
		return true, streams.Unmarshal(v, t)
	})
	if err != nil {
		return nil, err
	}
	sources, events := map[string]bool{}, map[string]bool{}
	records := map[string]*record{}
	for _, id := range order {
		r, err := f.belief(st, project, id)
		if err != nil {
			return nil, err
		}
		if records[id] = r; r != nil && !rows[id].Back {
			sources[r.Ref.Source], events[r.Agent+"/"+r.Ref.Observation] = true, true
		}
	}
	var out []back
	for _, id := range order {
		r, t := records[id], rows[id]
		if r == nil || t.Root || t.Back {
			continue
		}
		var found beliefs.EvidenceSet // the new evidence
		stands := r.independent(sources, events)
		if stands == "" {
			e, err := f.restated(st, project, r, rows)
			if err != nil {
				return nil, err
			}
			if e == nil || sources[e.Source] {
				continue
			}
			stands, found = e.Quality.String()+" of "+e.Source, beliefs.EvidenceSet{*e}
		}
		s := r.standing()
		rv := beliefs.Revision{Belief: id, By: beliefs.ByUser, Why: "it is supported by " + stands, Evidence: found}
		for _, c := range t.changesBack(s.Axes) {
			next, moves, err := s.Set(c, beliefs.ByUser)
			if err != nil {
				break
			}
			s, rv.Moves = next, append(rv.Moves, moves...)
		}
		if len(rv.Moves) > 0 {
			out = append(out, back{id, *t, rv})
		}
	}
	return out, nil
}

// changesBack returns the changes that restore a belief's earlier state, as far as the incident changed it.
func (t *touched) changesBack(now beliefs.Axes) (out []beliefs.Change) {
	if t.Out && now.Security == beliefs.Quarantined && t.Was.Security == beliefs.Clean {
		out = append(out, beliefs.Change{Axis: beliefs.AxisSecurity, To: beliefs.Clean.String()})
		if now.Retrieval == beliefs.Hidden && (t.Was.Retrieval == beliefs.Restricted || t.Was.Retrieval == beliefs.Normal) {
			out = append(out, beliefs.Change{Axis: beliefs.AxisRetrieval, To: beliefs.Restricted.String()})
		}
		if t.Was.Retrieval == beliefs.Normal && now.Truth == beliefs.Supported {
			out = append(out, beliefs.Change{Axis: beliefs.AxisRetrieval, To: beliefs.Normal.String()})
		}
	}
	if now.Freshness == beliefs.Stale && t.Was.Freshness == beliefs.Fresh {
		out = append(out, beliefs.Change{Axis: beliefs.AxisFreshness, To: beliefs.Fresh.String()})
	}
	return out
}

// independent looks for evidence that supports the belief, that is of a class that may support a belief, and that comes
// from none of the given sources and events. It returns the class and source as text, or "" if there is none.
func (r *record) independent(sources, events map[string]bool) string {
	for _, e := range r.Evidence {
		if e.Relation == beliefs.Supports && e.Quality.MaySupport() && !sources[e.Source] &&
			!events[r.Agent+"/"+e.Observation] {
			return e.Quality.String() + " of " + e.Source
		}
	}
	return ""
}

// restated returns evidence from another belief that states the same as r, is supported and clean, and was not touched
// by the incident. rows are the touched beliefs. It returns nil if there is none.
func (f *Fold) restated(st *stage.State, project string, r *record, rows map[string]*touched) (*beliefs.Evidence,
	error) {
	type saying struct {
		key    []byte
		object string
	}
	var all []saying
	if r.Print != "" {
		all = append(all, saying{sameKey(project, r.Ref.Namespace, r.Print), ""})
	}
	for _, t := range r.Triples {
		all = append(all, saying{stateKey(project, r.Ref.Namespace, t.Subject, t.Predicate), text.Normalize(t.Object)})
	}
	for _, says := range all {
		var same []stated
		if _, err := st.Load(says.key, &same); err != nil {
			return nil, err
		}
		for _, s := range same {
			if rows[s.Belief] != nil || s.Object != says.object {
				continue
			}
			by, err := f.belief(st, project, s.Belief)
			if err != nil {
				return nil, err
			}
			if by == nil || by.Ref.ID == r.Ref.ID || by.Ref.Axes.Truth != beliefs.Supported ||
				by.Ref.Axes.Security != beliefs.Clean || !by.Ref.Quality.MaySupport() {
				continue
			}
			e := by.asEvidence(by.At)
			return &e, nil
		}
	}
	return nil, nil
}
