package inquiry

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"lazaret/internal/ingest"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Session is all data of the log about one session of an agent.
type Session struct {
	Project string
	Name    string
	Agents  []string
	Entries []*Entry // entries of the session and entries about it, in ledger order

	observations []observed
	memories     []*memory
	recalls      []*recalled
	decisions    []*decided
	actions      []*proposed
	rejected     []rejected
	alerts       []raised
	holds        []*held
	unproposed   []outcome // reports of executed actions that were never proposed
	beliefs      []ingest.Belief
	forgotten    int64 // entries of the project with erased payloads
	inForce      []activated
	brought      map[string]*Entry // agent, event id → the entry that introduced the event
}

type observed struct {
	e      *Entry
	o      *streams.ObservationEntry
	alerts int
}

type memory struct {
	e       *Entry
	m       *streams.MemoryEntry
	verdict *given
}

type recalled struct {
	e       *Entry
	r       *streams.RecallEntry
	verdict *given
}

type decided struct {
	e *Entry
	d *streams.DecisionEntry
}

type proposed struct {
	e       *Entry
	a       *streams.ActionEntry
	verdict *given
	first   *given // the first verdict, if a later one changed it
	out     *outcome
}

type given struct {
	e *Entry
	v *streams.VerdictEntry
}

type outcome struct {
	e *Entry
	o *streams.OutcomeEntry
}

type rejected struct {
	e *Entry
	r *streams.RejectedEntry
}

type raised struct {
	e *Entry
	a streams.Alert
}

// held is a hold with its result.
type held struct {
	id, tool, proposal string
	opened             *given
	state              string
	by, reason         string
	at                 *Entry
}

type activated struct {
	e      *Entry
	a      *streams.ActivationEntry
	counts int // number of verdicts under it
}

// Select selects a session. Project and Agent may be empty if the session's name is unique.
type Select struct {
	Session, Project, Agent string
}

// AmbiguousError means that several projects have a session with this name.
type AmbiguousError struct {
	Session  string
	Projects []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("several projects have a session %q: name one with --project (%s)", e.Session,
		strings.Join(e.Projects, ", "))
}

// NoSessionError means that the log has no entries about a session.
type NoSessionError struct{ Session string }

func (e *NoSessionError) Error() string {
	return fmt.Sprintf("the log holds nothing about a session %q", e.Session)
}

// projectOf returns the one project that has the session.
func (l *Log) projectOf(ctx context.Context, sel Select) (string, error) {
	found := make(map[string]bool)
	told := l.told // this search must not change the counts
	err := l.Range(ctx, 0, l.Size(), func(e *Entry) bool { return e.Project != streams.SystemProject },
		func(e *Entry) error {
			if e.Stage == streams.StageIngest && e.Session == sel.Session && (sel.Agent == "" || e.Agent == sel.Agent) {
				found[e.Project] = true
			}
			return nil
		})
	l.told = told
	if err != nil {
		return "", err
	}
	switch names := slices.Sorted(maps.Keys(found)); len(names) {
	case 0:
		return "", &NoSessionError{sel.Session}
	case 1:
		return names[0], nil
	default:
		return "", &AmbiguousError{sel.Session, names}
	}
}

// Session collects the log's entries about a session.
func (l *Log) Session(ctx context.Context, sel Select) (*Session, error) {
	if sel.Project == "" {
		var err error
		if sel.Project, err = l.projectOf(ctx, sel); err != nil {
			return nil, err
		}
	}
	c := &collector{sel: sel, s: &Session{Project: sel.Project, Name: sel.Session, brought: make(map[string]*Entry)},
		mine: make(map[uint64]bool), byEvent: make(map[string]*proposed),
		byHold: make(map[string]*held), agents: make(map[string]bool), obs: make(map[uint64]int),
		mem: make(map[uint64]*memory), rec: make(map[uint64]*recalled),
		act: make(map[uint64]*proposed), used: make(map[string]int), wanted: make(map[string]bool)}
	replay, err := ingest.NewReplay()
	if err != nil {
		return nil, err
	}
	defer replay.Close()
	err = l.Range(ctx, 0, l.Size(), func(e *Entry) bool {
		return e.Project == sel.Project || e.Type == string(streams.TypeActivation)
	}, func(e *Entry) error {
		if e.Forgotten && e.Project == sel.Project {
			c.s.forgotten++
		}
		if e.Body == nil {
			return nil
		}
		if e.Project == sel.Project {
			if e.Stage == streams.StageIngest && (e.Type == string(streams.TypeObservation) ||
				e.Type == string(streams.TypeMemory)) {
				c.s.brought[e.Agent+"\x00"+e.ID] = e
			}
			if err := replay.Add(&streams.Entry{Seq: position.Sequence(e.Seq), Index: position.Index(e.Seq), Time: e.Time,
				Stage: e.Stage, Type: streams.Type(e.Type), Project: e.Project, Src: e.Src, At: e.At,
				Partition: streams.PartitionOf(e.Project), Body: e.Body}); err != nil {
				return fmt.Errorf("computing the beliefs from log entry %d: %w", e.Index, err)
			}
		}
		return c.take(e)
	})
	if err != nil {
		return nil, err
	}
	if len(c.s.Entries) == 0 {
		return nil, &NoSessionError{sel.Session}
	}
	all, err := replay.Beliefs(sel.Project)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		if b.Session == sel.Session && (sel.Agent == "" || b.Agent == sel.Agent) || c.wanted[b.ID] {
			c.s.beliefs = append(c.s.beliefs, b)
		}
	}
	// Keep only the entries that the beliefs refer to.
	brought := make(map[string]*Entry)
	for _, b := range c.s.beliefs {
		k := b.Agent + "\x00" + b.Observation
		brought[k] = c.s.brought[k]
	}
	c.s.brought = brought
	sort.SliceStable(c.s.beliefs, func(i, j int) bool { return concern(c.s.beliefs[i]) > concern(c.s.beliefs[j]) })
	for a := range c.agents {
		c.s.Agents = append(c.s.Agents, a)
	}
	slices.Sort(c.s.Agents)
	for i := range c.s.inForce {
		c.s.inForce[i].counts = c.used[c.s.inForce[i].a.Digest]
	}
	// Each of the sixteen partitions records an activation; list it once.
	seen := make(map[string]bool)
	c.s.inForce = slices.DeleteFunc(c.s.inForce, func(a activated) bool {
		k := a.a.Do + a.a.Digest
		gone := seen[k] || a.counts == 0 && a.a.Do != streams.DoActivateTrust
		seen[k] = true
		return gone
	})
	for _, e := range c.s.Entries {
		if _, err := l.Prove(e); err != nil {
			return nil, err
		}
	}
	return c.s, nil
}

// concern returns a sort key for beliefs: those that need attention first.
func concern(b ingest.Belief) int {
	n := 100 * int(b.Axes.Security)
	if b.Memory {
		n += 20
	}
	if b.Axes.Truth == beliefs.Supported && b.Kind != beliefs.Envelope {
		n += 10
	}
	if b.Kind == beliefs.Envelope {
		n -= 50
	}
	return n
}

// collector collects the entries of a session.
type collector struct {
	sel     Select
	s       *Session
	mine    map[uint64]bool // ledger sequences of the session's own entries
	obs     map[uint64]int
	mem     map[uint64]*memory
	rec     map[uint64]*recalled
	act     map[uint64]*proposed
	byEvent map[string]*proposed // agent, id
	byHold  map[string]*held
	agents  map[string]bool
	used    map[string]int  // digest of a policy or rule set → number of verdicts under it
	wanted  map[string]bool // beliefs that the session cites or recalls
}

func (c *collector) keep(e *Entry) {
	c.mine[e.Seq] = true
	c.s.Entries = append(c.s.Entries, e)
}

// take adds one entry.
func (c *collector) take(e *Entry) error {
	if streams.Type(e.Type) == streams.TypeActivation && e.Stage == streams.StageIngest {
		a := new(streams.ActivationEntry)
		if err := e.decode(a); err != nil {
			return err
		}
		c.s.inForce = append(c.s.inForce, activated{e: e, a: a})
		return nil
	}
	if e.Project != c.sel.Project {
		return nil
	}
	if e.Stage == streams.StageIngest {
		return c.takeEvent(e)
	}
	if e.Stage == streams.StageArbiter && streams.Type(e.Type) != streams.TypeAlerts {
		return c.takeArbiter(e)
	}
	var as struct {
		Alerts []streams.Alert `json:"alerts"`
	}
	if err := e.decode(&as); err != nil {
		return err
	}
	about := c.mine[e.Src]
	for _, a := range as.Alerts {
		if !about && (a.Session != c.sel.Session || c.sel.Agent != "" && a.Agent != c.sel.Agent) {
			continue
		}
		if !c.mine[e.Seq] {
			c.keep(e)
		}
		c.s.alerts = append(c.s.alerts, raised{e, a})
		if i, ok := c.obs[e.Src]; ok {
			c.s.observations[i].alerts++
		}
	}
	if about && !c.mine[e.Seq] {
		c.keep(e)
	}
	return nil
}

func (c *collector) takeEvent(e *Entry) error {
	own := e.Session == c.sel.Session && (c.sel.Agent == "" || e.Agent == c.sel.Agent)
	if streams.Type(e.Type) == streams.TypeOutcome {
		o := new(streams.OutcomeEntry)
		if err := e.decode(o); err != nil {
			return err
		}
		p := c.byEvent[o.Agent+"\x00"+o.Action]
		if !own && p == nil {
			return nil
		}
		c.keep(e)
		if p != nil {
			if p.out == nil || o.Ran() {
				p.out = &outcome{e, o}
			}
		} else {
			c.s.unproposed = append(c.s.unproposed, outcome{e, o})
		}
		return nil
	}
	if streams.Type(e.Type) == streams.TypeResolution {
		r := new(streams.ResolutionEntry)
		if err := e.decode(r); err != nil {
			return err
		}
		if c.byHold[r.Hold] != nil {
			c.keep(e)
		}
		return nil
	}
	if !own {
		return nil
	}
	c.keep(e)
	c.agents[e.Agent] = true
	switch streams.Type(e.Type) {
	case streams.TypeObservation:
		o := new(streams.ObservationEntry)
		if err := e.decode(o); err != nil {
			return err
		}
		c.obs[e.Seq] = len(c.s.observations)
		c.s.observations = append(c.s.observations, observed{e: e, o: o})
	case streams.TypeMemory:
		m := &memory{e: e, m: new(streams.MemoryEntry)}
		c.mem[e.Seq] = m
		c.s.memories = append(c.s.memories, m)
		return e.decode(m.m)
	case streams.TypeRecall:
		r := &recalled{e: e, r: new(streams.RecallEntry)}
		c.rec[e.Seq] = r
		c.s.recalls = append(c.s.recalls, r)
		if err := e.decode(r.r); err != nil {
			return err
		}
		for _, items := range [][]streams.RecallItem{r.r.Admitted, r.r.ContextOnly, r.r.Contradictions} {
			for _, it := range items {
				c.wanted[it.ID] = true
			}
		}
	case streams.TypeDecision:
		d := &decided{e, new(streams.DecisionEntry)}
		c.s.decisions = append(c.s.decisions, d)
		if err := e.decode(d.d); err != nil {
			return err
		}
		c.want(d.d.Beliefs)
	case streams.TypeAction:
		p := &proposed{e: e, a: new(streams.ActionEntry)}
		if err := e.decode(p.a); err != nil {
			return err
		}
		c.want(p.a.Beliefs)
		c.act[e.Seq], c.byEvent[p.a.Agent+"\x00"+p.a.ID] = p, p
		c.s.actions = append(c.s.actions, p)
	case streams.TypeRejected:
		r := new(streams.RejectedEntry)
		if err := e.decode(r); err != nil {
			return err
		}
		c.s.rejected = append(c.s.rejected, rejected{e, r})
	}
	return nil
}

func (c *collector) want(refs []streams.BeliefRef) {
	for _, b := range refs {
		c.wanted[b.ID] = true
	}
}

func (c *collector) takeArbiter(e *Entry) error {
	switch streams.Type(e.Type) {
	case streams.TypeVerdict:
		v := new(streams.VerdictEntry)
		if err := e.decode(v); err != nil {
			return err
		}
		if !c.mine[v.Proposal] {
			return nil
		}
		c.keep(e)
		g := &given{e, v}
		c.used[v.Policy]++
		c.used[v.Rules]++
		switch {
		case v.Again:
		case c.act[v.Proposal] != nil:
			p := c.act[v.Proposal]
			if p.verdict = g; p.first == nil {
				p.first = g
			}
		case c.mem[v.Proposal] != nil:
			c.mem[v.Proposal].verdict = g
		case c.rec[v.Proposal] != nil:
			c.rec[v.Proposal].verdict = g
		}
		if v.Hold != nil && !v.Again && c.byHold[v.Hold.ID] == nil {
			h := &held{id: v.Hold.ID, tool: cmp.Or(v.Tool, string(v.Type)), proposal: v.ID, opened: g, state: streams.HoldOpen}
			c.byHold[h.id] = h
			c.s.holds = append(c.s.holds, h)
		}
		if v.Late && v.Verdict == streams.Deny {
			for _, h := range c.s.holds {
				if h.opened.v.Proposal == v.Proposal && h.state == streams.HoldOpen {
					h.settle(streams.HoldDenied, "", "a later finding", e)
				}
			}
		}
		if r := v.Resolved; r != nil && c.byHold[r.Hold] != nil {
			c.byHold[r.Hold].settle(r.State, r.By, r.Reason, e)
		}
	case streams.TypeHoldState:
		s := new(streams.HoldStateEntry)
		if err := e.decode(s); err != nil {
			return err
		}
		h := c.byHold[s.Hold]
		if h == nil {
			return nil
		}
		c.keep(e)
		by := ""
		if s.Resolved != nil {
			by = s.Resolved.By
		}
		h.settle(s.State, by, s.Reason.Text, e)
	}
	return nil
}

func (h *held) settle(state, by, reason string, e *Entry) {
	h.state, h.by, h.reason, h.at = state, by, reason, e
}

// span returns the ledger times of the first and last entry.
func (s *Session) span() (from, to time.Time) {
	return s.Entries[0].Time, s.Entries[len(s.Entries)-1].Time
}
