package ruletest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/pkg/internal/strictyaml"
	"lazaret/pkg/policy"
	"lazaret/pkg/rules"
	"lazaret/pkg/signals/index"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// TestEvent is the YAML form of one event. Its fields have the same names as in ledger entries. A field that is left
// out gets a default value.
type TestEvent struct {
	After   string `yaml:"after" is:"duration" doc:"Time since the previous event, such as 4m."`
	ID      string `yaml:"id" is:"id" doc:"Default: e and the event's number."`
	Session string `yaml:"session" doc:"Default: s1."`
	Agent   string `yaml:"agent" doc:"Default: agent."`

	Observation *observationDoc `yaml:"observation" doc:"Content that was read."`
	Memory      *memoryDoc      `yaml:"memory" doc:"A memory write."`
	Recall      *recallDoc      `yaml:"recall" doc:"A retrieval from memory."`
	Tools       *toolsDoc       `yaml:"tools" doc:"A tool catalogue."`
	Phase       string          `yaml:"phase" is:"phase" doc:"Start or end of the session."`
	Decision    *decisionDoc    `yaml:"decision" doc:"A decision."`
	Action      *actionDoc      `yaml:"action" doc:"A proposed action."`
	Outcome     *outcomeDoc     `yaml:"outcome" doc:"The outcome of an action. Without an action, an answer of the agent."`
}

type observationDoc struct {
	Origin string   `yaml:"origin" is:"origin" doc:"Default: tool."`
	Tool   string   `yaml:"tool"`
	Source string   `yaml:"source"`
	Text   string   `yaml:"text"`
	Blocks []string `yaml:"blocks" doc:"Further content blocks."`
}

type memoryDoc struct {
	Origin    string     `yaml:"origin" is:"origin" doc:"Default: agent."`
	Inherited string     `yaml:"inherited" is:"origin" doc:"The weakest origin among the memory's sources."`
	Key       string     `yaml:"key"`
	Category  string     `yaml:"category"`
	Channel   string     `yaml:"channel"`
	KeyHolder string     `yaml:"key_holder" is:"origin" doc:"Origin of the current value of the key."`
	Source    string     `yaml:"source"`
	Parents   []string   `yaml:"parents"`
	Text      string     `yaml:"text"`
	Times     int        `yaml:"times" is:"natural" doc:"Repeats the text this many times, to make it large."`
	Age       string     `yaml:"age" is:"duration" doc:"Time since the same content was first seen."`
	Repeats   uint64     `yaml:"repeats" is:"natural" doc:"How often the same content was seen before."`
	Belief    *beliefDoc `yaml:"belief"`
}

type recallDoc struct {
	Query          string          `yaml:"query"`
	Key            string          `yaml:"key"`
	Purpose        string          `yaml:"purpose"`
	Items          []recallItemDoc `yaml:"items" doc:"The items that the context policy admits."`
	ContextOnly    []recallItemDoc `yaml:"context_only"`
	Contradictions []recallItemDoc `yaml:"contradictions"`
}

type recallItemDoc struct {
	Belief beliefDoc `yaml:",inline"`
	Text   string    `yaml:"text"`
	Score  *float64  `yaml:"score" doc:"The store's score, if it gave one."`
}

type toolsDoc struct {
	Server string    `yaml:"server"`
	Items  []toolDoc `yaml:"items"`
}

type toolDoc struct {
	Name        string         `yaml:"name"`
	Description string         `yaml:"description"`
	Schema      map[string]any `yaml:"schema"`
}

type decisionDoc struct {
	Summary string      `yaml:"summary"`
	Beliefs []beliefDoc `yaml:"beliefs"`
}

// beliefDoc is the YAML form of a cited belief. By default, a tool result supports the belief, with a confidence of
// 0.7.
type beliefDoc struct {
	ID          string  `yaml:"id"`
	Missing     bool    `yaml:"missing" doc:"The belief was not found."`
	Kind        string  `yaml:"kind"`
	Key         string  `yaml:"key"`
	Truth       string  `yaml:"truth" is:"truth" doc:"Default: supported."`
	Retrieval   string  `yaml:"retrieval"`
	Security    string  `yaml:"security"`
	Freshness   string  `yaml:"freshness"`
	Sensitivity string  `yaml:"sensitivity"`
	Scope       string  `yaml:"scope"`
	Quality     string  `yaml:"quality" is:"quality" doc:"Default: tool_result."`
	Origin      string  `yaml:"origin" is:"origin"`
	Grade       string  `yaml:"grade" doc:"own, derived or record."`
	Confidence  float64 `yaml:"confidence" is:"share" doc:"Default: 0.7."`
	Source      string  `yaml:"source"`
	Observation string  `yaml:"observation"`
}

type actionDoc struct {
	Tool          string         `yaml:"tool"`
	Level         int            `yaml:"level" is:"level" doc:"The level under the policy, 0 to 5."`
	Effects       []string       `yaml:"effects"`
	Args          map[string]any `yaml:"args"`
	Confidence    *float64       `yaml:"confidence" is:"share" doc:"The agent's stated confidence."`
	Decision      string         `yaml:"decision"`
	Beliefs       []beliefDoc    `yaml:"beliefs"`
	Repeats       string         `yaml:"repeats" doc:"Id of an earlier faultless proposal of the same call."`
	Unseen        bool           `yaml:"unseen" doc:"The session has a rejected observation."`
	Blast         string         `yaml:"blast_radius"`
	Reversibility string         `yaml:"reversibility"`
}

// outcomeDoc is the YAML form of an outcome: the result of an action, or the agent's answer.
type outcomeDoc struct {
	Action    string   `yaml:"action"`
	Status    string   `yaml:"status"` // answer for an agent's answer
	Text      string   `yaml:"text"`
	Grounding *float64 `yaml:"grounding"` // omitted: the answer names no sources
}

// timeline converts test events to a sequence of ledger entries.
type timeline struct {
	project string
	seq     uint64
	now     time.Time
	said    map[string]*intent.Said // the user's words, by agent and session
	calls   map[string]called       // facts about the last call of each tool, by agent, session and tool
	read    map[string]bool         // whether the agent has read external content, by agent and session
}

func newTimeline(project string) *timeline {
	return &timeline{project: cmp.Or(project, "test"), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		said: make(map[string]*intent.Said), calls: make(map[string]called), read: make(map[string]bool)}
}

// add returns the ledger entry that ingest would write for an event.
func (tl *timeline) add(g *TestEvent) (*streams.Entry, error) {
	if g.After != "" {
		d, err := time.ParseDuration(g.After)
		if err != nil {
			return nil, fmt.Errorf("after: %w", err)
		}
		tl.now = tl.now.Add(d)
	}
	tl.seq++
	h := streams.EntryHead{
		ID:      cmp.Or(g.ID, fmt.Sprintf("e%d", tl.seq)),
		Agent:   cmp.Or(g.Agent, "agent"),
		Session: cmp.Or(g.Session, "s1"),
		Time:    tl.now,
		Intake:  tl.seq,
	}
	typ, body, err := g.body(h)
	if err != nil {
		return nil, err
	}
	tl.relate(&h, body)
	e := &streams.Entry{Seq: tl.seq, Time: tl.now, Stage: streams.StageIngest, Project: tl.project, Type: typ}
	e.Body, err = streams.Marshal(body)
	return e, err
}

// called returns two facts about a call: whether the user named one of its values, and whether the user asked the agent
// to do what its result says.
type called struct{ named, handed bool }

// relate sets in an entry how the event relates to the user's words, in the same way as ingest.
func (tl *timeline) relate(h *streams.EntryHead, body any) {
	at := h.Agent + "\x00" + h.Session
	said := tl.said[at]
	if said == nil {
		said = new(intent.Said)
		tl.said[at] = said
	}
	switch b := body.(type) {
	case *streams.MemoryEntry:
		if file, ok := strings.CutPrefix(b.Key, streams.FileKey); ok {
			b.Asked = said.AsksToChange([]intent.File{{Path: file, Loaded: true}})
		}
	case *streams.ObservationEntry:
		if b.Origin == beliefs.OriginUser {
			for _, x := range b.Blocks {
				said.Add(x.Text)
			}
			return
		}
		tl.read[at] = tl.read[at] || b.Origin.External()
		call := tl.calls[at+"\x00"+b.Tool]
		b.Handed = said.HandsOver("", b.Source, nil) || call.handed
		if b.UserNamed = said.Named(b.Source, nil) || call.named; !b.UserNamed && !b.Handed {
			return
		}
		for _, x := range b.Blocks {
			said.Read(x.Text, x.Features.Carriers, b.Handed)
		}
	case *streams.ActionEntry:
		var args map[string]any
		if streams.Unmarshal(b.Args, &args) != nil {
			args = nil
		}
		b.Intent = policy.Relate(said, b.Tool, args, b.Features.Carriers, b.Loads...)
		said.Look(said.Looks(b.Tool, args, tl.read[at]))
		tl.calls[at+"\x00"+b.Tool] = called{said.Named("", args), said.HandsOver(b.Tool, "", args)}
	}
}

// hear passes the evaluator's verdict on an action back to the evaluator, as the arbiter's verdict would be.
func (tl *timeline) hear(ev *rules.Evaluator, st index.Store, e *streams.Entry, verdict streams.Verdict) error {
	if e.Type != streams.TypeAction || verdict == streams.Allow {
		return nil
	}
	a, err := streams.Read[streams.ActionEntry](e)
	if err != nil {
		return err
	}
	return ev.Heard(
		st,
		tl.project,
		&streams.VerdictEntry{
			Type:    e.Type,
			ID:      a.ID,
			Agent:   a.Agent,
			Session: a.Session,
			Tool:    a.Tool,
			Verdict: verdict,
		},
	)
}

// Events reads a file of test events. The file is a list, or a document that has the list under the key `given`.
func Events(name string, data []byte) ([]*streams.Entry, error) {
	d, err := strictyaml.Parse(name, data)
	if err != nil {
		return nil, err
	}
	var doc eventsDoc
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	if len(doc.Given) == 0 {
		return nil, fmt.Errorf("%s has no events: write a list of events, or events under `given` as in a test", name)
	}
	tl := newTimeline(doc.Project)
	var out []*streams.Entry
	for i := range doc.Given {
		e, err := tl.add(&doc.Given[i])
		if err != nil {
			path := []any{"given", i}
			if doc.bare {
				path = path[1:]
			}
			return nil, d.Errorf(path, "%w", err)
		}
		out = append(out, e)
	}
	return out, nil
}

type eventsDoc struct {
	Project string      `yaml:"project"`
	Given   []TestEvent `yaml:"given"`
	bare    bool
}

// UnmarshalYAML implements yaml.InterfaceUnmarshaler.
func (d *eventsDoc) UnmarshalYAML(decode func(any) error) error {
	var v any
	if err := decode(&v); err != nil {
		return err
	}
	if _, ok := v.([]any); ok {
		d.bare = true
		return decode(&d.Given)
	}
	type plain eventsDoc
	return decode((*plain)(d))
}

func (g *TestEvent) body(h streams.EntryHead) (typ streams.Type, body any, err error) {
	n := 0
	set := func(t streams.Type, b any, e error) {
		n++
		typ, body, err = t, b, e
	}
	if o := g.Observation; o != nil {
		b := &streams.ObservationEntry{EntryHead: h, Observation: beliefs.Observation{
			Origin: beliefs.Origin(cmp.Or(o.Origin, "tool")), Tool: o.Tool, Source: o.Source}}
		blocks := o.Blocks
		if o.Text != "" || len(blocks) == 0 {
			blocks = append([]string{o.Text}, blocks...)
		}
		for i, s := range blocks {
			b.Blocks = append(b.Blocks, streams.BlockEntry{Text: s, Features: text.Analyze(s)})
			if i == 0 { // a recall in a test names the belief by the event's id, so only the first block can have it
				b.Claims = []streams.ClaimEntry{{Kind: beliefs.Content, Belief: streams.BeliefRef{ID: h.ID, Found: true,
					Kind: beliefs.Content, Origin: b.Origin}}}
			}
		}
		set(streams.TypeObservation, b, nil)
	}
	if g.Memory != nil {
		b, err := g.Memory.entry(h)
		set(streams.TypeMemory, b, err)
	}
	if r := g.Recall; r != nil {
		b := &streams.RecallEntry{EntryHead: h, Query: r.Query, Key: r.Key, Purpose: r.Purpose, Limit: len(r.Items)}
		var err error
		for _, part := range []struct {
			from []recallItemDoc
			to   *[]streams.RecallItem
		}{{r.Items, &b.Admitted}, {r.ContextOnly, &b.ContextOnly}, {r.Contradictions, &b.Contradictions}} {
			for i := range part.from {
				it := &part.from[i]
				ref, e := it.Belief.ref()
				if e != nil {
					err = e
				}
				score := -1.0
				if it.Score != nil {
					score = *it.Score
				}
				*part.to = append(*part.to, streams.RecallItem{BeliefRef: ref, Content: it.Text, Score: score})
			}
		}
		set(streams.TypeRecall, b, err)
	}
	if t := g.Tools; t != nil {
		b := &streams.ToolsEntry{EntryHead: h, Server: t.Server}
		var err error
		for _, it := range t.Items {
			tool := streams.Tool{Name: it.Name, Description: it.Description}
			if it.Schema != nil {
				schema, e := streams.Marshal(it.Schema)
				if tool.InputSchema = schema; e != nil {
					err = e
				}
			}
			b.Tools = append(b.Tools, tool)
		}
		set(streams.TypeTools, b, err)
	}
	if g.Phase != "" {
		var err error
		if g.Phase != "start" && g.Phase != "end" {
			err = fmt.Errorf("the phase of a session is start or end, not %q", g.Phase)
		}
		set(streams.TypeSession, &streams.SessionEntry{EntryHead: h, Phase: g.Phase}, err)
	}
	if g.Decision != nil {
		bs, err := refs(g.Decision.Beliefs)
		set(streams.TypeDecision, &streams.DecisionEntry{EntryHead: h, Summary: g.Decision.Summary, Beliefs: bs}, err)
	}
	if g.Action != nil {
		b, err := g.Action.entry(h)
		set(streams.TypeAction, b, err)
	}
	if o := g.Outcome; o != nil {
		set(streams.TypeOutcome, &streams.OutcomeEntry{EntryHead: h,
			Outcome: beliefs.Outcome{Action: o.Action, Status: o.Status}, Content: o.Text,
			Features: text.Analyze(o.Text), Grounding: o.Grounding}, nil)
	}
	if n != 1 {
		return "", nil, fmt.Errorf(
			"an event under `given` must have exactly one of observation, memory, recall, tools, phase, decision, action and "+
				"outcome, but this one has %d",
			n,
		)
	}
	return typ, body, err
}

func (m *memoryDoc) entry(h streams.EntryHead) (*streams.MemoryEntry, error) {
	if m.Times > 1 && len(m.Text) > streams.DefaultMaxEvent/m.Times {
		return nil, fmt.Errorf("a text of %d bytes %d times is more than an event holds, %d bytes", len(m.Text),
			m.Times, streams.DefaultMaxEvent)
	}
	content := strings.Repeat(m.Text, max(m.Times, 1))
	b := &streams.MemoryEntry{
		EntryHead:   h,
		Origin:      beliefs.Origin(cmp.Or(m.Origin, "agent")),
		Inherited:   beliefs.Origin(m.Inherited),
		Key:         m.Key,
		Category:    m.Category,
		Channel:     m.Channel,
		KeyHolder:   beliefs.Origin(m.KeyHolder),
		Source:      m.Source,
		DerivedFrom: m.Parents,
		Content:     content,
		Features:    text.Analyze(content),
		Repeats:     m.Repeats,
		Belief:      streams.BeliefRef{ID: fmt.Sprintf("b%d", h.Intake), Found: true},
	}
	if m.Belief != nil {
		ref, err := m.Belief.ref()
		if err != nil {
			return nil, err
		}
		ref.ID = cmp.Or(ref.ID, b.Belief.ID)
		b.Belief = ref
	}
	if m.Age != "" {
		d, err := time.ParseDuration(m.Age)
		if err != nil {
			return nil, fmt.Errorf("age: %w", err)
		}
		b.FirstSeen, b.Repeats = h.Time.Add(-d), max(m.Repeats, 1)
	}
	return b, nil
}

func (a *actionDoc) entry(h streams.EntryHead) (*streams.ActionEntry, error) {
	bs, err := refs(a.Beliefs)
	if err != nil {
		return nil, err
	}
	b := &streams.ActionEntry{
		EntryHead: h,
		Action: beliefs.Action{
			Tool:       a.Tool,
			Effects:    a.Effects,
			Confidence: a.Confidence,
			Decision:   a.Decision,
			Contract:   beliefs.Contract{Level: beliefs.Level(a.Level)},
		},
		Beliefs: bs,
		Repeats: a.Repeats,
		Unseen:  a.Unseen,
		Matched: "test",
	}
	if a.Args != nil {
		if b.Args, err = streams.Marshal(a.Args); err != nil {
			return nil, err
		}
	}
	var lines strings.Builder
	for _, k := range slices.Sorted(maps.Keys(a.Args)) {
		fmt.Fprintln(&lines, a.Args[k])
	}
	b.Text, b.Features = lines.String(), text.Analyze(lines.String())
	return b, firstError(word(a.Blast, &b.Blast), word(a.Reversibility, &b.Reversibility))
}

func refs(bs []beliefDoc) ([]streams.BeliefRef, error) {
	var out []streams.BeliefRef
	for i := range bs {
		r, err := bs[i].ref()
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (b *beliefDoc) ref() (streams.BeliefRef, error) {
	r := streams.BeliefRef{
		ID:          b.ID,
		Found:       !b.Missing,
		Key:         b.Key,
		Origin:      beliefs.Origin(b.Origin),
		Confidence:  b.Confidence,
		Source:      b.Source,
		Observation: b.Observation,
	}
	if b.Confidence == 0 {
		r.Confidence = 0.7
	}
	return r, firstError(word(cmp.Or(b.Truth, "supported"), &r.Axes.Truth),
		word(cmp.Or(b.Quality, "tool_result"), &r.Quality), word(b.Kind, &r.Kind), word(b.Grade, &r.Grade),
		word(b.Retrieval, &r.Axes.Retrieval), word(b.Security, &r.Axes.Security), word(b.Freshness, &r.Axes.Freshness),
		word(b.Sensitivity, &r.Sensitivity), word(b.Scope, &r.Scope))
}

// word parses an optional word.
func word(s string, v interface{ UnmarshalText([]byte) error }) error {
	if s == "" {
		return nil
	}
	return v.UnmarshalText([]byte(s))
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
