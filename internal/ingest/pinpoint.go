package ingest

import (
	"slices"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// AskPinpoint is the query for the beliefs that an incident affects.
const AskPinpoint = "pinpoint"

// maxPinpoint is the maximum number of beliefs in an answer.
const maxPinpoint = 10_000

// PinpointRequest selects beliefs. Candidates are the beliefs in Beliefs and, if Agent, Session, Source or Tool is set,
// all beliefs that match these. If none of these five is set, all beliefs of the project are candidates. A candidate
// must match each of Agent, Session, Source, Tool, Since and Until that is set. A belief from read content matches if
// one reading of the content matches.
type PinpointRequest struct {
	Project string   `json:"project"`
	Beliefs []string `json:"beliefs,omitzero"`
	Agent   string   `json:"agent,omitzero"`
	Session string   `json:"session,omitzero"`
	Source  string   `json:"source,omitzero"`
	Tool    string   `json:"tool,omitzero"`
	// Since (inclusive) and Until (exclusive) limit the ledger time at which a belief came in.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Descendants adds the beliefs that derive from the matching ones, directly or indirectly.
	Descendants bool `json:"descendants,omitzero"`
}

// Pinpointed is the answer: the beliefs that an incident affects.
type Pinpointed struct {
	Beliefs []PinpointedBelief `json:"beliefs"`
	Cut     bool               `json:"cut,omitzero"` // there are more than maxPinpoint
}

// PinpointedBelief is a belief that an incident affects.
type PinpointedBelief struct {
	Belief
	// From is set for a descendant: it is the belief that this belief derives from.
	From string `json:"from,omitzero"`
	// Stands names evidence of a class that may support the belief and that does not come from the incident. It is
	// empty if there is none. A belief with such evidence need not be quarantined.
	Stands string `json:"stands,omitzero"`
}

// came returns the ledger time at which a belief came in.
func (r *record) came() time.Time {
	at := r.At
	for _, e := range r.Evidence {
		if e.At.Before(at) {
			at = e.At
		}
	}
	return at
}

// pinpoint returns the beliefs that a request selects.
func (f *Fold) pinpoint(st *stage.State, q *PinpointRequest) (*Pinpointed, error) {
	out := &Pinpointed{Beliefs: []PinpointedBelief{}}
	found := q.Beliefs
	scope := &beliefs.IncidentScope{Agent: q.Agent, Session: q.Session, Source: q.Source, Tool: q.Tool, Since: q.Since,
		Until: q.Until}
	var labels []text.Term
	for _, l := range [][2]string{{"agent", q.Agent}, {"session", q.Session}, {"source", q.Source}, {"tool", q.Tool}} {
		if l[1] != "" {
			labels = append(labels, text.Label(l[0], l[1]))
		}
	}
	if len(labels) > 0 || len(q.Beliefs) == 0 {
		all, err := labelled(st, q.Project, labels...)
		if err != nil {
			return nil, err
		}
		again, err := readAgain(st, q.Project, scope)
		if err != nil {
			return nil, err
		}
		found = slices.Concat(found, all, again)
	}
	suspects := map[string]*record{}
	var order []string
	for _, id := range found {
		r, err := f.belief(st, q.Project, id)
		if err != nil {
			return nil, err
		}
		if r == nil || suspects[id] != nil {
			continue
		}
		if ok, err := matches(st, q.Project, scope, r); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		if len(order) == maxPinpoint {
			out.Cut = true
			break
		}
		suspects[id] = r
		order = append(order, id)
	}
	from := map[string]string{}
	if q.Descendants {
		seen := map[string]bool{}
		for _, id := range order {
			seen[id] = true
		}
		for level := slices.Clone(order); len(level) > 0; {
			var next []string
			for _, id := range level {
				children, err := f.children(st, q.Project, id, seen)
				if err != nil {
					return nil, err
				}
				for _, c := range children {
					r, err := f.belief(st, q.Project, c)
					if err != nil {
						return nil, err
					}
					if r == nil {
						continue
					}
					if len(order) == maxPinpoint {
						out.Cut = true
						break
					}
					suspects[c], from[c] = r, id
					order, next = append(order, c), append(next, c)
				}
			}
			level = next
		}
	}
	sources, events := map[string]bool{}, map[string]bool{}
	for _, r := range suspects {
		sources[r.Ref.Source], events[r.Agent+"/"+r.Ref.Observation] = true, true
	}
	for _, id := range order {
		r := suspects[id]
		p := PinpointedBelief{Belief: view(q.Project, r), From: from[id]}
		p.Stands = r.independent(sources, events)
		out.Beliefs = append(out.Beliefs, p)
	}
	return out, nil
}

// view returns a belief as queries return it.
func view(project string, r *record) Belief {
	return Belief{BeliefRef: r.Ref, Project: project, Agent: r.Agent, Session: r.Session, Tool: r.Tool,
		Content: r.Content, Adopted: r.Adopted, At: r.last(), Count: r.times(), Memory: r.Memory, Category: r.Category,
		From: r.From, To: r.To, Digest: r.Digest, Revision: r.revision(), Evidence: r.Evidence, Parents: r.Parents,
		Triples: r.Triples, Conflicts: r.Conflicts, Successor: r.Successor, Flag: r.Flag, StagedFor: r.StagedFor,
		Signed: r.Signed, Stale: r.Stale, Expires: r.Expires}
}

func askPinpoint(st *stage.State, req []byte) (any, error) {
	q := new(PinpointRequest)
	if err := streams.Unmarshal(req, q); err != nil {
		return nil, err
	}
	if err := streams.CheckID("project", q.Project); err != nil {
		return nil, err
	}
	return New(Config{}).pinpoint(st, q)
}
