package ingest

import (
	"crypto/sha256"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// provenance is where a content was read: agent, session, source and tool. The record of a belief has the provenance
// of the first reading. Provenances of later readings are stored under keys of their own. So a quarantine by agent,
// session, source or tool also finds a text that was first read elsewhere. A provenance does not include the origin of
// the content, because the message's subject has the origin.
type provenance struct {
	Agent   string    `json:"agent"`
	Session string    `json:"session,omitzero"`
	Source  string    `json:"source,omitzero"`
	Tool    string    `json:"tool,omitzero"`
	At      time.Time `json:"at"`
}

// provenanceOf returns the provenance of the contents of an observation. pasted is set if the user pasted external
// content.
func provenanceOf(e *streams.ObservationEntry, pasted bool) provenance {
	source := sourceOf(e.Agent, &e.Observation)
	if pasted {
		source = "paste:" + source
	}
	return provenance{Agent: e.Agent, Session: e.Session, Source: source, Tool: e.Tool, At: e.Time}
}

// sourceOf returns the name of an observation's source: the stated source, the tool, or origin and agent.
func sourceOf(agent string, o *beliefs.Observation) string {
	switch {
	case o.Source != "":
		return o.Source
	case o.Tool != "":
		return "tool:" + o.Tool
	}
	return string(o.Origin) + ":" + agent
}

// from returns a copy of a record as if its content had first been read with provenance p.
func (r *record) from(p provenance) *record {
	c := *r
	c.Agent, c.Session, c.Tool, c.At, c.Ref.Source, c.Evidence = p.Agent, p.Session, p.Tool, p.At, p.Source, nil
	return &c
}

func provenancePrefix(project, id string) []byte { return stage.Key(keyProvenance, project, id, "") }

// provenanceLabels returns the keys under which a belief is found by each field of a provenance.
func provenanceLabels(project, id string, p provenance) (keys [][]byte) {
	for _, l := range [][2]string{{"agent", p.Agent}, {"session", p.Session}, {"source", p.Source}, {"tool", p.Tool}} {
		if l[1] != "" {
			keys = append(keys, append(provenBy(project, l[0], l[1]), id...))
		}
	}
	return keys
}

func provenBy(project, label, value string) []byte {
	return stage.Key(keyProvenBy, project, label, value, "")
}

// noteProvenance records p as a provenance of a content that was read again, unless the state has p already. In both
// cases, a quarantine of an open incident that matches p then applies to the belief, although the content was first
// read elsewhere.
func (f *Fold) noteProvenance(st *stage.State, project, id string, p provenance) error {
	sum := sha256.Sum256(stage.Key(0, p.Agent, p.Session, p.Source, p.Tool))
	key := append(provenancePrefix(project, id), sum[:8]...)
	_, known, err := st.Get(key)
	if err != nil {
		return err
	}
	if known {
		if orders, err := standingOrders(st, project); err != nil || len(orders) == 0 {
			return err
		}
	}
	r, err := f.belief(st, project, id)
	if err != nil || r == nil {
		return err
	}
	if known {
		return f.applyStanding(st, project, r.from(p), p.At)
	}
	if r.Agent == p.Agent && r.Session == p.Session && r.Ref.Source == p.Source && r.Tool == p.Tool {
		return st.Set(key, []byte("{}")) // the belief's record has this provenance
	}
	if err := st.Put(key, &p); err != nil {
		return err
	}
	for _, k := range provenanceLabels(project, id, p) {
		if err := st.Set(k, nil); err != nil {
			return err
		}
	}
	return f.applyStanding(st, project, r.from(p), p.At)
}

// eachProvenance calls fn for each provenance of a belief except that of its record, until fn returns false.
func eachProvenance(st *stage.State, project, id string, fn func(p provenance) bool) error {
	return st.Scan(provenancePrefix(project, id), func(_, v []byte) (bool, error) {
		var p provenance
		if err := streams.Unmarshal(v, &p); err != nil {
			return false, err
		}
		return p.Agent == "" || fn(p), nil
	})
}

// matches reports whether a belief matches a scope by the provenance of any reading of its content.
func matches(st *stage.State, project string, s *beliefs.IncidentScope, r *record) (ok bool, err error) {
	if ok = recordMatches(s, r); ok {
		return true, nil
	}
	err = eachProvenance(st, project, r.Ref.ID, func(p provenance) bool {
		ok = recordMatches(s, r.from(p))
		return !ok
	})
	return ok, err
}

// readAgain returns the ids of beliefs whose content was read again with the source, session, tool or agent of a scope.
// It compares only the first of these that is set. The caller must compare all of them with matches.
func readAgain(st *stage.State, project string, s *beliefs.IncidentScope) (ids []string, err error) {
	for _, l := range [][2]string{{"source", s.Source}, {"session", s.Session}, {"tool", s.Tool}, {"agent", s.Agent}} {
		if l[1] == "" {
			continue
		}
		prefix := provenBy(project, l[0], l[1])
		err = st.Scan(prefix, func(k, _ []byte) (bool, error) {
			ids = append(ids, string(k[len(prefix):]))
			return true, nil
		})
		return ids, err
	}
	return nil, nil
}

// dropProvenance removes the provenances of a belief except that of its record.
func dropProvenance(st *stage.State, project, id string) error {
	var keys [][]byte
	if err := eachProvenance(st, project, id, func(p provenance) bool {
		keys = append(keys, provenanceLabels(project, id, p)...)
		return true
	}); err != nil {
		return err
	}
	for _, k := range keys {
		if err := st.Delete(k); err != nil {
			return err
		}
	}
	return st.DropPrefix(provenancePrefix(project, id))
}
