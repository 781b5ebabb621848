package otel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"lazaret/internal/auditor"
	"lazaret/internal/ceiling"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Options selects the content and the projects to export.
type Options struct {
	// Ceiling is the highest exported sensitivity; the zero value is internal.
	Ceiling beliefs.Sensitivity
	// Content exports the texts of agents and people: arguments, results, memories, queries, and the
	// reasons that quote them.
	Content bool
	// Project is the only exported project. Empty: all projects; synthetic ones only with
	// Synthetic.
	Project   string
	Synthetic bool
}

// maxOpen is the maximum number of stored actions without an outcome. The oldest are dropped first. If the outcome
// of a dropped action comes later, its span has no tool name.
const maxOpen = 10_000

// patience is how long, in ledger time, a result waits for its outcome.
const patience = 5 * time.Second

// open is an action with a verdict. It is part of the stored progress.
type open struct {
	Tool    string    `json:"tool,omitzero"`
	Seq     uint64    `json:"seq"`   // position of the verdict's entry
	Since   time.Time `json:"since"` // time of the release or refusal
	Session string    `json:"session,omitzero"`
	Trace   string    `json:"trace,omitzero"`  // traceparent of the proposal
	Done    bool      `json:"done,omitzero"`   // the span of the execution exists
	Result  uint64    `json:"result,omitzero"` // position of the result's entry, while the outcome is missing
	At      time.Time `json:"at,omitzero"`     // time of the result's entry
}

// Fold converts ledger entries to spans. It is not safe for concurrent use.
type Fold struct {
	o      Options
	read   func(seq uint64) (*streams.Entry, error)
	labels ceiling.Labels
	open   map[string]*open // by project, agent and id
	order  []string         // keys of open, oldest first
	await  []string         // keys of actions with a result and without an outcome, in the order of their results
}

// NewFold returns a Fold. read must return an earlier entry of the ledger.
func NewFold(o Options, read func(seq uint64) (*streams.Entry, error)) *Fold {
	return &Fold{o: o, read: read, open: make(map[string]*open)}
}

// Skip updates the labels from an entry that was exported before.
func (f *Fold) Skip(e *streams.Entry) { f.labels.Scan(ceiling.FromLedger(e)) }

// Take returns the spans that an entry completes.
func (f *Fold) Take(e *streams.Entry) ([]*tracepb.Span, error) {
	as := f.labels.Scan(ceiling.FromLedger(e))
	if !f.wanted(e.Project) {
		return nil, nil
	}
	var out []*tracepb.Span
	var err error
	_, group := streams.SentinelGroup(e.Stage)
	switch typ := e.Type; {
	case group: // a third-party group may write entries of every type
	case typ == streams.TypeVerdict:
		out, err = f.verdict(e, as)
	case typ == streams.TypeHoldState:
		out, err = f.holdState(e)
	case typ == streams.TypeOutcome:
		out, err = f.outcome(e, as)
	case typ == streams.TypeObservation:
		out, err = f.observation(e, as)
	}
	if err != nil {
		return nil, fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
	}
	more, err := f.Due(e.Time)
	return append(out, more...), err
}

func (f *Fold) wanted(project string) bool {
	switch {
	case f.o.Project != "":
		return project == f.o.Project
	case project == "" || project == streams.SystemProject:
		return false
	}
	return f.o.Synthetic || !streams.IsSynthetic(project)
}

// tells reports whether content of this sensitivity may be exported: it must not be above the ceiling, and
// Options.Content must be set. If it is above the ceiling, tells adds the sensitivity to the span.
func (f *Fold) tells(b builder, as beliefs.Sensitivity) bool {
	if !as.Within(f.o.Ceiling) {
		b.str(attrRedacted, as.String())
		return false
	}
	return f.o.Content
}

// name returns a name that an agent chose, or its redaction if it is labeled above the ceiling.
func (f *Fold) name(project, s string) string {
	if f.labels.Text(project, s).Within(f.o.Ceiling) {
		return s
	}
	return "redacted"
}

// proposal is the proposal that a verdict is about.
type proposal struct {
	entry *streams.Entry
	as    beliefs.Sensitivity
	start time.Time
	head  streams.EntryHead
}

func (f *Fold) proposal(seq uint64) (*proposal, error) {
	e, err := f.read(seq)
	if err != nil || e == nil {
		return nil, err
	}
	p := &proposal{entry: e, as: f.labels.Of(ceiling.FromLedger(e)), start: e.Time}
	if err := streams.Unmarshal(e.Body, &p.head); err != nil {
		return nil, err
	}
	// The entry's time is when the event reached the intake. Prefer the event's own time, except in
	// synthetic projects, where it is virtual.
	if !streams.IsSynthetic(e.Project) && !p.head.Time.IsZero() {
		p.start = p.head.Time
	}
	return p, nil
}

func openKey(project, agent, id string) string { return project + "/" + agent + "/" + id }

// verdict returns the span of a verdict. It is the root of the request's trace, because the proposal
// may never be executed.
func (f *Fold) verdict(e *streams.Entry, as beliefs.Sensitivity) ([]*tracepb.Span, error) {
	var v streams.VerdictEntry
	if err := streams.Unmarshal(e.Body, &v); err != nil {
		return nil, err
	}
	p, err := f.proposal(v.Proposal)
	if err != nil {
		return nil, err
	}
	start := e.Time
	if p != nil {
		start, as = p.start, as.Join(p.as)
	}
	r := request{Project: e.Project, Agent: v.Agent, Session: v.Session, ID: v.ID}
	if p != nil {
		r.Parent = p.head.Trace
	}
	what, root := "verdict", "verdict"
	switch {
	case v.Resolved != nil:
		what, start = "hold "+v.Resolved.State, f.since(e, &v)
	case v.Late:
		what, start = fmt.Sprintf("late %s", codes(v.Reasons)), e.Time
	}
	first := what == root
	if v.Type != streams.TypeAction && first {
		root = "memory"
	}
	var out []*tracepb.Span
	if v.Type != streams.TypeAction && first {
		out = append(out, f.memory(e, &v, p, r, start, as).Span)
	}
	parent := root
	if v.Type == streams.TypeAction && first {
		parent = ""
	}
	if v.Type != streams.TypeAction && !first {
		parent = "memory"
	}
	b := newSpan(r, what, parent, opGuardrail+" "+provider, start, e.Time)
	b.str(attrOperation, opGuardrail)
	b.str(attrProvider, provider)
	b.str(attrComponent, provider)
	b.str(attrPolicy, v.Policy)
	b.str(attrResultType, resultType)
	b.str(attrResultValue, v.Verdict.String())
	b.str(attrResultReason, codes(v.Reasons))
	b.str(attrSource, source(v.Type))
	if v.Type == streams.TypeAction {
		b.str(attrTool, f.name(e.Project, v.Tool))
		b.str(attrToolCall, v.ID)
	}
	f.refer(b, e, v.Proposal, p)
	b.str(attrRules, v.Rules)
	b.str(attrLevel, v.Level)
	b.str(attrClass, v.Class)
	b.str(attrDigest, v.Digest)
	b.strs(attrDegraded, v.Degraded)
	if v.Hold != nil {
		b.str(attrHold, v.Hold.ID)
	}
	if v.Resolved != nil {
		b.str(attrHold, v.Resolved.Hold)
		b.str(attrState, v.Resolved.State)
		b.str(attrBy, v.Resolved.By)
	}
	if v.Learn && v.Would != nil {
		b.str(attrWould, v.Would.String())
	}
	if v.Late {
		b.flag(attrLate, true)
	}
	tells := f.tells(b, as)
	if tells && v.Type == streams.TypeAction && p != nil && first {
		var a streams.ActionEntry
		if err := streams.Unmarshal(p.entry.Body, &a); err != nil {
			return nil, err
		}
		b.str(attrToolArgs, string(a.Args))
	}
	for _, x := range v.Reasons {
		b.finding(e.Time, &x, tells)
	}
	out = append(out, b.Span)
	if v.Type == streams.TypeAction {
		f.note(openKey(e.Project, v.Agent, v.ID), &open{Tool: f.name(e.Project, v.Tool), Seq: v.Proposal, Since: e.Time,
			Session: v.Session, Trace: r.Parent})
	}
	return out, nil
}

// since returns the time at which the hold was opened that verdict v resolves.
func (f *Fold) since(e *streams.Entry, v *streams.VerdictEntry) time.Time {
	if o := f.open[openKey(e.Project, v.Agent, v.ID)]; o != nil {
		return o.Since
	}
	return e.Time
}

// source returns the kind of input that was judged.
func source(t streams.Type) string {
	switch t {
	case streams.TypeAction:
		return "tool_input"
	case streams.TypeMemory:
		return "memory_write"
	}
	return "memory_read"
}

// codes returns the codes and rules of reasons, which contain no content.
func codes(reasons []streams.Reason) string {
	var out []string
	for _, r := range reasons {
		s := string(r.Code)
		if r.Rule != "" {
			s += " " + r.Group + "/" + r.Rule
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return strings.Join(out, ", ")
}

// refer adds the positions of the entry and the proposal, and the proposal's commitment.
func (f *Fold) refer(b builder, e *streams.Entry, proposal uint64, p *proposal) {
	b.num(attrSeq, e.Position())
	if proposal != 0 {
		b.num(attrProposal, proposal)
	}
	if p != nil {
		b.str(attrCommitment, commitment(p.entry, auditor.Payload(p.entry)))
	}
}

// finding adds a reason of a verdict to the span as an event. The event has the reason's text only if tells is set.
func (b builder) finding(at time.Time, r *streams.Reason, tells bool) {
	e := builder{new(tracepb.Span)}
	e.str(attrComponent, provider)
	e.str(attrGroup, r.Group)
	e.str(attrRule, r.Rule)
	e.str(attrRuleVersion, r.Digest)
	e.str(attrResultType, resultType)
	e.str(attrResultValue, r.Verdict.String())
	e.str(attrResultReason, string(r.Code))
	if tells {
		e.str(attrText, r.Text)
	}
	b.Events = append(b.Events, &tracepb.Span_Event{Name: eventResult, TimeUnixNano: uint64(at.UnixNano()),
		Attributes: e.Attributes})
}

// memory returns the span of a memory write or a recall.
func (f *Fold) memory(e *streams.Entry, v *streams.VerdictEntry, p *proposal, r request, start time.Time,
	as beliefs.Sensitivity) builder {
	op := opUpsertMemory
	if v.Type == streams.TypeRecall {
		op = opSearchMemory
	}
	b := newSpan(r, "memory", "", op, start, e.Time)
	b.str(attrOperation, op)
	b.str(attrMemoryStore, e.Project)
	f.refer(b, e, v.Proposal, p)
	if v.Verdict != streams.Allow {
		b.fails(v.Verdict.String())
	}
	if v.Type == streams.TypeMemory {
		b.num(attrMemoryCount, 1)
		if v.Belief != nil {
			b.str(attrMemoryRecord, v.Belief.ID)
		}
		var m streams.MemoryEntry
		if p == nil || !f.tells(b, as) || streams.Unmarshal(p.entry.Body, &m) != nil {
			return b
		}
		b.str(attrOrigin, string(m.Origin))
		b.records([]streams.RecallItem{{BeliefRef: m.Belief, Content: m.Content, Score: -1}})
		return b
	}
	var c streams.RecallEntry
	if p == nil || streams.Unmarshal(p.entry.Body, &c) != nil {
		return b
	}
	served := c.Admitted
	if v.Verdict != streams.Allow {
		served = nil
	}
	b.num(attrMemoryCount, uint64(len(served)))
	if f.tells(b, as) {
		b.str(attrMemoryQuery, c.Query)
		b.records(served)
	}
	return b
}

// records adds the attribute with the recalled memories, in the JSON schema of the conventions.
func (b builder) records(items []streams.RecallItem) {
	type record struct {
		ID      string   `json:"id"`
		Content string   `json:"content"`
		Score   *float64 `json:"score,omitzero"`
	}
	var out []record
	for _, x := range items {
		rec := record{ID: x.ID, Content: streams.Clip(x.Content, maxText/4)}
		if x.Score >= 0 {
			rec.Score = &x.Score
		}
		out = append(out, rec)
	}
	if body, err := streams.Marshal(out); err == nil && len(out) > 0 {
		b.str(attrMemories, string(body))
	}
}

// holdState returns the span of a hold that ended without a verdict: expired or withdrawn.
func (f *Fold) holdState(e *streams.Entry) ([]*tracepb.Span, error) {
	var h streams.HoldStateEntry
	if err := streams.Unmarshal(e.Body, &h); err != nil {
		return nil, err
	}
	p, err := f.proposal(h.Proposal)
	if err != nil {
		return nil, err
	}
	r := request{Project: e.Project, Agent: h.Agent, ID: h.ID}
	start, parent := e.Time, "verdict"
	if p != nil {
		start, r.ID, r.Session, r.Parent = p.start, p.head.ID, p.head.Session, p.head.Trace
		if p.entry.Type != streams.TypeAction {
			parent = "memory"
		}
	}
	b := newSpan(r, "hold "+h.State, parent, opGuardrail+" "+provider, start, e.Time)
	b.str(attrOperation, opGuardrail)
	b.str(attrProvider, provider)
	b.str(attrComponent, provider)
	b.str(attrResultType, resultType)
	b.str(attrResultValue, streams.Hold.String())
	b.str(attrResultReason, string(h.Reason.Code))
	b.str(attrHold, h.Hold)
	b.str(attrState, h.State)
	f.refer(b, e, h.Proposal, p)
	return []*tracepb.Span{b.Span}, nil
}

// note stores an action, and drops the oldest beyond maxOpen.
func (f *Fold) note(key string, o *open) {
	if f.open[key] == nil {
		f.order = append(f.order, key)
	}
	f.open[key] = o
	for len(f.order) > maxOpen {
		delete(f.open, f.order[0])
		f.order = f.order[1:]
	}
}

// outcome returns the span of an execution that the host reports.
func (f *Fold) outcome(e *streams.Entry, as beliefs.Sensitivity) ([]*tracepb.Span, error) {
	var x streams.OutcomeEntry
	if err := streams.Unmarshal(e.Body, &x); err != nil {
		return nil, err
	}
	if x.Action == "" || x.Status != "ok" && x.Status != "error" {
		return nil, nil // the outcome reports an answer, or that the action was not executed
	}
	key := openKey(e.Project, x.Agent, x.Action)
	o := f.open[key]
	if o != nil && o.Done {
		return nil, nil
	}
	if o == nil {
		o = &open{Tool: "unknown", Since: e.Time, Session: x.Session, Trace: x.Trace}
	}
	o.Done, o.Result = true, 0
	r := request{e.Project, x.Agent, o.Session, x.Action, o.Trace}
	b := f.executed(e, r, o, o.Since, e.Time)
	if x.Status == "error" {
		b.fails("tool_error")
	}
	b.flag(attrProposed, o.Seq != 0)
	b.str(attrDigest, x.Digest)
	if f.tells(b, as) {
		b.str(attrToolResult, x.Content)
	}
	return []*tracepb.Span{b.Span}, nil
}

// executed returns the span of an execution, a child of its verdict.
func (f *Fold) executed(e *streams.Entry, r request, o *open, start, end time.Time) builder {
	b := newSpan(r, "execute", "verdict", opExecuteTool+" "+o.Tool, start, end)
	b.str(attrOperation, opExecuteTool)
	b.str(attrTool, o.Tool)
	b.str(attrToolCall, r.ID)
	b.str(attrToolType, "function")
	b.num(attrSeq, e.Position())
	if o.Seq != 0 {
		b.num(attrProposal, o.Seq)
	}
	return b
}

// observation returns the span of a tool execution that was not proposed. If the execution was proposed, observation
// stores only the tool's result. The span is then made when the outcome's entry arrives, or by Due if none arrives in
// time.
func (f *Fold) observation(e *streams.Entry, as beliefs.Sensitivity) ([]*tracepb.Span, error) {
	var x streams.ObservationEntry
	if err := streams.Unmarshal(e.Body, &x); err != nil {
		return nil, err
	}
	if x.Tool == "" {
		return nil, nil
	}
	if o := f.open[openKey(e.Project, x.Agent, x.Call)]; x.Call != "" && o != nil {
		if !o.Done && o.Result == 0 {
			o.Result, o.At = e.Position(), e.Time // a later outcome has more information
			f.await = append(f.await, openKey(e.Project, x.Agent, x.Call))
		}
		return nil, nil
	}
	id := cmp.Or(x.Call, x.ID)
	r := request{e.Project, x.Agent, x.Session, id, x.Trace}
	b := f.executed(e, r, &open{Tool: f.name(e.Project, x.Tool)}, e.Time, e.Time)
	_, b.ParentSpanId = streams.ParseTraceparent(x.Trace)
	if !streams.IsSynthetic(e.Project) && x.Time.Before(e.Time) {
		b.StartTimeUnixNano = uint64(x.Time.UnixNano())
	}
	b.flag(attrProposed, false)
	f.result(b, &x, as)
	return []*tracepb.Span{b.Span}, nil
}

func (f *Fold) result(b builder, x *streams.ObservationEntry, as beliefs.Sensitivity) {
	b.str(attrOrigin, string(x.Origin))
	if !f.tells(b, as) {
		return
	}
	if len(x.Args) > 0 {
		b.str(attrToolArgs, string(x.Args))
	}
	var words []string
	for _, blk := range x.Blocks {
		words = append(words, blk.Text)
	}
	b.str(attrToolResult, strings.Join(words, "\n"))
}

// Due returns the spans of executions whose outcome did not arrive within patience.
func (f *Fold) Due(now time.Time) ([]*tracepb.Span, error) {
	var out []*tracepb.Span
	for len(f.await) > 0 {
		o := f.open[f.await[0]]
		if o != nil && !o.Done && o.Result != 0 && now.Sub(o.At) < patience {
			break
		}
		f.await = f.await[1:]
		if o == nil || o.Done || o.Result == 0 {
			continue
		}
		e, err := f.read(o.Result)
		if err != nil {
			return nil, err
		}
		o.Done, o.Result = true, 0
		var x streams.ObservationEntry
		if e == nil {
			continue // dropped
		}
		if err := streams.Unmarshal(e.Body, &x); err != nil {
			return nil, err
		}
		b := f.executed(e, request{e.Project, x.Agent, o.Session, x.Call, o.Trace}, o, o.Since, e.Time)
		b.flag(attrProposed, true)
		f.result(b, &x, f.labels.Of(ceiling.FromLedger(e)))
		out = append(out, b.Span)
	}
	return out, nil
}
