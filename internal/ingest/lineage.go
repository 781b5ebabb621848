package ingest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lazaret/internal/stage"
	"lazaret/pkg/lexical"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// AskLineage is the query for what a belief derives from and what it influenced.
const AskLineage = "lineage"

// Limits of a lineage. Lineage.Cut says whether one was reached.
const (
	maxLineage      = 2000 // nodes
	maxLineageSteps = 32   // distance from the requested node
)

// LineageRequest asks for the lineage of a belief, or of an event if Agent is set.
type LineageRequest struct {
	Project string `json:"project"`
	ID      string `json:"id"`
	Agent   string `json:"agent,omitzero"`
	Up      bool   `json:"up,omitzero"`   // include the causes: what the belief derives from
	Down    bool   `json:"down,omitzero"` // include the effects: what the belief influenced
}

// Lineage is a graph. Its edges lead from a cause to its effect.
type Lineage struct {
	Nodes []LineageNode `json:"nodes"` // the requested node first, then by distance
	Edges []LineageEdge `json:"edges"`
	// Cut is set if a limit was reached, so that the graph is not complete.
	Cut bool `json:"cut,omitzero"`
}

// Values of LineageNode.Kind.
const (
	NodeSource   = "source"
	NodeEvent    = "event" // an event that introduced a belief
	NodeBelief   = "belief"
	NodeDecision = "decision"
	NodeAction   = "action"
)

// LineageNode is a source, event, belief, decision or action. Its ID is the belief's id, agent/id for an event,
// decision or action, or the name of a source.
type LineageNode struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Step int    `json:"step"` // distance from the requested node; negative for causes
	// Belief is the belief's reference. It is nil for other kinds of nodes, and for an unknown belief.
	Belief  *streams.BeliefRef `json:"belief,omitzero"`
	Content string             `json:"content,omitzero"` // beginning of the content
}

// LineageEdge leads from a cause to its effect. How says how the effect came about.
type LineageEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	How  string `json:"how"`
}

// lineage builds the graph breadth first. The order of nodes and edges depends only on the state.
type lineage struct {
	f       *Fold
	st      *stage.State
	project string
	g       Lineage
	at      map[string]int // node → index
	edges   map[LineageEdge]bool
}

func (l *lineage) node(n LineageNode) (added bool) {
	if _, ok := l.at[n.ID]; ok {
		return false
	}
	if len(l.g.Nodes) == maxLineage {
		l.g.Cut = true
		return false
	}
	l.at[n.ID] = len(l.g.Nodes)
	l.g.Nodes = append(l.g.Nodes, n)
	return true
}

func (l *lineage) edge(from, to, how string) {
	e := LineageEdge{from, to, how}
	_, a := l.at[from]
	_, b := l.at[to]
	if a && b && !l.edges[e] {
		l.edges[e] = true
		l.g.Edges = append(l.g.Edges, e)
	}
}

// beliefNode returns the node of a belief, and its record, or a nil record if the id is unknown.
func (l *lineage) beliefNode(id string, step int) (LineageNode, *record, error) {
	n := LineageNode{ID: id, Kind: NodeBelief, Step: step}
	r, err := l.f.belief(l.st, l.project, id)
	if r != nil {
		ref := r.cited()
		n.Belief, n.Content = &ref, streams.Clip(r.Content, previewLen)
	}
	return n, r, err
}

// parentNode returns the node of a text's parent, which is an event or a belief.
func (l *lineage) parentNode(p streams.Parent, step int) (LineageNode, error) {
	if p.Agent == "" {
		n, _, err := l.beliefNode(p.ID, step)
		return n, err
	}
	return LineageNode{ID: parentKey(p), Kind: NodeEvent, Step: step}, nil
}

// above adds the causes of a node to the graph.
func (l *lineage) above(n LineageNode) error {
	up := func(m LineageNode, how string) {
		l.node(m)
		l.edge(m.ID, n.ID, how)
	}
	switch n.Kind {
	case NodeEvent:
		// The source is stored with the contents that the event introduced.
		ids, err := broughtBy(l.st, l.project, n.ID)
		if err != nil {
			return err
		}
		for _, id := range ids {
			r, err := l.f.belief(l.st, l.project, id)
			if err != nil {
				return err
			}
			if r != nil && !r.Memory && r.Ref.Source != "" {
				up(LineageNode{ID: r.Ref.Source, Kind: NodeSource, Step: n.Step - 1}, "was read in")
			}
		}
		return nil
	case NodeBelief:
	default:
		return nil
	}
	_, r, err := l.beliefNode(n.ID, n.Step)
	if err != nil || r == nil {
		return err
	}
	if !r.Memory {
		up(LineageNode{ID: parentKey(streams.Parent{ID: r.Ref.Observation, Agent: r.Agent}), Kind: NodeEvent,
			Step: n.Step - 1}, "brought in")
		return nil
	}
	if len(r.Parents) == 0 && r.Ref.Source != "" {
		up(LineageNode{ID: r.Ref.Source, Kind: NodeSource, Step: n.Step - 1}, "wrote")
	}
	for _, p := range r.Parents {
		m, err := l.parentNode(p, n.Step-1)
		if err != nil {
			return err
		}
		how := "shares " + fmt.Sprint(p.Phrases) + " phrases with"
		switch {
		case p.Declared:
			how = "is a declared parent of"
		case p.Carrier != "":
			how = "first contained a value of"
		}
		up(m, how)
	}
	return nil
}

// below adds the effects of a node to the graph.
func (l *lineage) below(n LineageNode) error {
	down := func(m LineageNode, how string) {
		l.node(m)
		l.edge(n.ID, m.ID, how)
	}
	under := []string{n.ID}
	switch n.Kind {
	case NodeEvent:
		ids, err := broughtBy(l.st, l.project, n.ID)
		if err != nil {
			return err
		}
		for _, id := range ids {
			m, r, err := l.beliefNode(id, n.Step+1)
			if err != nil {
				return err
			}
			if r != nil && !r.Memory {
				down(m, "brought in")
			}
		}
	case NodeBelief:
		// A memory may name the event that introduced the belief as its parent, and not the belief itself. So add the
		// effects of that event too.
		if _, r, err := l.beliefNode(n.ID, n.Step); err != nil {
			return err
		} else if r != nil && !r.Memory {
			under = append(under, parentKey(streams.Parent{ID: r.Ref.Observation, Agent: r.Agent}))
		}
	default:
		return nil
	}
	came := func(kind, agent, event string) error {
		switch kind {
		case impactMemory:
			m, _, err := l.beliefNode(event, n.Step+1)
			if err != nil {
				return err
			}
			down(m, "was written into")
		case impactDecision:
			down(LineageNode{ID: agent + "/" + event, Kind: NodeDecision, Step: n.Step + 1}, "is cited by")
		case impactAction:
			down(LineageNode{ID: agent + "/" + event, Kind: NodeAction, Step: n.Step + 1}, "is relied on by")
		}
		return nil
	}
	for _, id := range under {
		if err := influenced(l.st, l.project, id, came); err != nil {
			return err
		}
	}
	return nil
}

// influenced calls fn for each event that a belief or another event influenced, in the order of the keys under
// keyImpact. id is a belief's id, or agent/id of an event.
func influenced(st *stage.State, project, id string, fn func(kind, agent, event string) error) error {
	prefix := stage.Key(keyImpact, project, id, "")
	return st.Scan(prefix, func(k, _ []byte) (bool, error) {
		parts := bytes.Split(k[len(prefix):], []byte{0})
		if len(parts) != 3 {
			return true, nil
		}
		return true, fn(string(parts[0]), string(parts[1]), string(parts[2]))
	})
}

// broughtBy returns the ids of the beliefs that an event introduced. event is the event's agent/id.
func broughtBy(st *stage.State, project, event string) ([]string, error) {
	return labelled(st, project, text.Label("event", event))
}

// labelled returns the ids of a project's beliefs that have all labels, in all places (see placesOf). It returns at
// most the latest lexical.MaxPostings of each index.
func labelled(st *stage.State, project string, labels ...text.Term) ([]string, error) {
	var out []string
	places, err := placesOf(st, project)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		for _, s := range shelves {
			hits, err := searchShelf(st, project, place, s, lexical.Query{Labels: labels, Limit: lexical.MaxPostings}, nil)
			if err != nil {
				return nil, err
			}
			for _, h := range hits {
				id, err := h.in.ID(h.hit)
				if err != nil {
					return nil, err
				}
				out = append(out, id)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// trace builds the graph that a request asks for.
func (f *Fold) trace(st *stage.State, q *LineageRequest) (*Lineage, error) {
	l := &lineage{f: f, st: st, project: q.Project, at: map[string]int{}, edges: map[LineageEdge]bool{}}
	start, _, err := l.beliefNode(q.ID, 0)
	if err != nil {
		return nil, err
	}
	if q.Agent != "" {
		start = LineageNode{ID: q.Agent + "/" + q.ID, Kind: NodeEvent}
	}
	walk := func(next func(LineageNode) error) error {
		seen := map[string]bool{}
		level := []LineageNode{start}
		for step := 0; len(level) > 0; step++ {
			if step == maxLineageSteps {
				l.g.Cut = true
				return nil
			}
			from := len(l.g.Nodes)
			for _, n := range level {
				if seen[n.ID] {
					continue
				}
				seen[n.ID] = true
				if err := next(n); err != nil {
					return err
				}
			}
			level = slices.Clone(l.g.Nodes[from:])
		}
		return nil
	}
	l.node(start)
	if q.Up {
		if err := walk(l.above); err != nil {
			return nil, err
		}
	}
	if q.Down {
		if err := walk(l.below); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(l.g.Edges, func(a, b LineageEdge) int {
		return cmp.Or(cmp.Compare(l.g.Nodes[l.at[a.From]].Step, l.g.Nodes[l.at[b.From]].Step),
			strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
	return &l.g, nil
}

func askLineage(st *stage.State, req []byte) (any, error) {
	q := new(LineageRequest)
	if err := streams.Unmarshal(req, q); err != nil {
		return nil, err
	}
	if err := streams.CheckID("project", q.Project); err != nil {
		return nil, err
	}
	return New(Config{}).trace(st, q)
}
