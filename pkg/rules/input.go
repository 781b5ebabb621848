package rules

import (
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// The types that expressions see. A field's name in CEL is its cel tag; what an
// entry does not have is the zero value, so that a rule never fails for asking.

// Event is what all entries have in common.
type Event struct {
	Kind      string    `cel:"kind" doc:"observation, memory, recall, tools, session, decision, action or outcome"`
	ID        string    `cel:"id" doc:"the client's id of the event"`
	Project   string    `cel:"project"`
	Agent     string    `cel:"agent"`
	Session   string    `cel:"session"`
	Origin    string    `cel:"origin" doc:"who the content comes from, by credential"`
	External  bool      `cel:"external" doc:"the origin lies outside of user, operator and model"`
	Source    string    `cel:"source" doc:"where the content came from, as the host says"`
	Tool      string    `cel:"tool"`
	Time      time.Time `cel:"time" doc:"ledger time, or virtual time in synthetic projects"`
	Synthetic bool      `cel:"synthetic"`
	Size      int64     `cel:"size" doc:"of the content, bytes"`
}

// Content is what was read, written or answered.
type Content struct {
	Text      string   `cel:"text" doc:"verbatim"`
	Views     []string `cel:"views" doc:"normalised, then decoded forms"`
	Markers   []string `cel:"markers" doc:"classes of instruction that a view carries: override, role, address, request, exfiltrate, secrecy, tool, persist, hidden"`
	HasHidden bool     `cel:"has_hidden" doc:"zero-width, bidi or tag characters"`
	Carriers  []string `cel:"carriers" doc:"addresses, hosts, accounts, paths and the like, as kind:value"`
}

// Belief is a belief as it stood when an entry cited it.
type Belief struct {
	ID          string  `cel:"id"`
	Found       bool    `cel:"found"`
	Kind        string  `cel:"kind" doc:"envelope, content or memory"`
	Key         string  `cel:"key"`
	Truth       string  `cel:"truth"`
	Retrieval   string  `cel:"retrieval"`
	Security    string  `cel:"security"`
	Freshness   string  `cel:"freshness"`
	Sensitivity string  `cel:"sensitivity"`
	Scope       string  `cel:"scope"`
	Quality     string  `cel:"quality" doc:"strongest class of evidence in support"`
	Origin      string  `cel:"origin" doc:"weakest origin that it derives from"`
	Confidence  float64 `cel:"confidence" doc:"0.10 to 0.95"`
	Source      string  `cel:"source"`
	Observation string  `cel:"observation" doc:"event that introduced it"`
}

// Memory is a memory write.
type Memory struct {
	Key       string   `cel:"key"`
	Category  string   `cel:"category"`
	Channel   string   `cel:"channel" doc:"write, compaction, skill or import"`
	Origin    string   `cel:"origin" doc:"who writes"`
	Inherited string   `cel:"inherited" doc:"weakest origin that it derives from, when weaker than the writer's"`
	External  bool     `cel:"external" doc:"the writer or what it derives from is external"`
	KeyHolder string   `cel:"key_holder" doc:"origin of the value that the key holds now"`
	Parents   []string `cel:"parents"`
	Repeats   int64    `cel:"repeats" doc:"how often the same content was met before in the project"`
	Age       float64  `cel:"age" doc:"seconds since the same content was first met; -1 if never"`
	Belief    *Belief  `cel:"belief"`
}

// Decision is a decision.
type Decision struct {
	Summary string    `cel:"summary"`
	Beliefs []*Belief `cel:"beliefs"`
}

// Action is a proposed action.
type Action struct {
	ID            string         `cel:"id"`
	Tool          string         `cel:"tool"`
	Level         int64          `cel:"level" doc:"0 to 5, by the policy"`
	Matched       string         `cel:"matched" doc:"policy entry that gave the level"`
	Effects       []string       `cel:"effects" doc:"read, write, egress, delete, pay, publish, exec, secret"`
	Args          map[string]any `cel:"args"`
	Text          string         `cel:"text" doc:"the arguments' strings, one a line"`
	Confidence    float64        `cel:"confidence" doc:"the agent's own; -1 when not stated"`
	Decision      string         `cel:"decision"`
	Beliefs       []*Belief      `cel:"beliefs" doc:"cited by it or by its decision"`
	Unseen        bool           `cel:"unseen" doc:"the session holds input that nobody judged"`
	BlastRadius   string         `cel:"blast_radius"`
	Reversibility string         `cel:"reversibility"`
}

// Recall is a retrieval from memory.
type Recall struct {
	Query    string `cel:"query"`
	Key      string `cel:"key"`
	Purpose  string `cel:"purpose"`
	Admitted int64  `cel:"admitted" doc:"entries that the context policy admits"`
}

// Served is an instruction that a pending action would carry out.
type Served struct {
	Observation string `cel:"observation" doc:"event that carried the instruction"`
	By          string `cel:"by" doc:"tool, carrier or value"`
	Value       string `cel:"value" doc:"what both name"`
}

// Signal is state from earlier entries. Its bounds are in signal.go.
type Signal struct {
	Writes1m int64     `cel:"writes_1m" doc:"memory writes of this agent in the last 60 s, this one included"`
	Sequence []string  `cel:"sequence" doc:"events of this session that make read → egress → write, this one last; empty if they do not"`
	Serves   []*Served `cel:"serves" doc:"marked instructions of this session's external observations that this action would carry out"`
}

// Input is what one evaluation sees.
type Input struct {
	Event    *Event
	Content  *Content
	Memory   *Memory
	Decision *Decision
	Action   *Action
	Recall   *Recall
	Signal   *Signal

	features text.Features
}

func emptyInput() *Input {
	return &Input{Event: new(Event), Content: new(Content), Memory: &Memory{Age: -1, Belief: new(Belief)}, Decision: new(Decision),
		Action: &Action{Confidence: -1}, Recall: new(Recall), Signal: new(Signal)}
}

// read turns an entry into inputs: one for each content block of an
// observation, one for any other entry, none for entries that rules do not see.
func read(e *streams.Entry) ([]*Input, error) {
	switch e.Type {
	case streams.TypeObservation:
		o := new(streams.ObservationEntry)
		if err := streams.Unmarshal(e.Body, o); err != nil {
			return nil, err
		}
		var out []*Input
		for i := range o.Blocks {
			in := head(e, &o.EntryHead)
			in.origin(o.Origin)
			in.Event.Tool, in.Event.Source = o.Tool, o.Source
			in.content(o.Blocks[i].Text, o.Blocks[i].Features)
			out = append(out, in)
		}
		return out, nil
	case streams.TypeMemory:
		m := new(streams.MemoryEntry)
		if err := streams.Unmarshal(e.Body, m); err != nil {
			return nil, err
		}
		in := head(e, &m.EntryHead)
		in.origin(m.Origin)
		in.Event.Source = m.Source
		in.content(m.Content, m.Features)
		age := -1.0
		if !m.FirstSeen.IsZero() {
			age = m.Time.Sub(m.FirstSeen).Seconds()
		}
		in.Memory = &Memory{Key: m.Key, Category: m.Category, Channel: m.Channel, Origin: string(m.Origin), Inherited: string(m.Inherited),
			External: m.Origin.External() || m.Inherited.External() && m.Inherited != "", KeyHolder: string(m.KeyHolder), Parents: m.DerivedFrom,
			Repeats: int64(m.Repeats), Age: age, Belief: belief(&m.Belief)}
		return []*Input{in}, nil
	case streams.TypeDecision:
		d := new(streams.DecisionEntry)
		if err := streams.Unmarshal(e.Body, d); err != nil {
			return nil, err
		}
		in := head(e, &d.EntryHead)
		in.Decision = &Decision{Summary: d.Summary, Beliefs: cited(d.Beliefs)}
		return []*Input{in}, nil
	case streams.TypeAction:
		a := new(streams.ActionEntry)
		if err := streams.Unmarshal(e.Body, a); err != nil {
			return nil, err
		}
		in := head(e, &a.EntryHead)
		in.Event.Tool = a.Tool
		in.content(a.Text, a.Features)
		in.Action = &Action{ID: a.ID, Tool: a.Tool, Level: int64(a.Level), Matched: a.Matched, Effects: a.Effects, Text: a.Text, Confidence: -1,
			Decision: a.Decision, Beliefs: cited(a.Beliefs), Unseen: a.Unseen, BlastRadius: a.Blast.String(), Reversibility: a.Reversibility.String()}
		if a.Confidence != nil {
			in.Action.Confidence = *a.Confidence
		}
		if len(a.Args) > 0 {
			// Arguments are the agent's; what is no object is seen as text only.
			if streams.Unmarshal(a.Args, &in.Action.Args) != nil {
				in.Action.Args = nil
			}
		}
		return []*Input{in}, nil
	case streams.TypeRecall:
		r := new(streams.RecallEntry)
		if err := streams.Unmarshal(e.Body, r); err != nil {
			return nil, err
		}
		in := head(e, &r.EntryHead)
		in.Recall = &Recall{Query: r.Query, Key: r.Key, Purpose: r.Purpose, Admitted: int64(len(r.Admitted))}
		return []*Input{in}, nil
	case streams.TypeOutcome:
		o := new(streams.OutcomeEntry)
		if err := streams.Unmarshal(e.Body, o); err != nil {
			return nil, err
		}
		in := head(e, &o.EntryHead)
		in.origin(beliefs.OriginAgent)
		in.content(o.Content, o.Features)
		return []*Input{in}, nil
	case streams.TypeSession:
		s := new(streams.SessionEntry)
		if err := streams.Unmarshal(e.Body, s); err != nil {
			return nil, err
		}
		return []*Input{head(e, &s.EntryHead)}, nil
	case streams.TypeTools:
		t := new(streams.ToolsEntry)
		if err := streams.Unmarshal(e.Body, t); err != nil {
			return nil, err
		}
		return []*Input{head(e, &t.EntryHead)}, nil
	}
	return nil, nil
}

func head(e *streams.Entry, h *streams.EntryHead) *Input {
	in := emptyInput()
	in.Event = &Event{Kind: string(e.Type), ID: h.ID, Project: e.Project, Agent: h.Agent, Session: h.Session, Time: h.Time, Synthetic: streams.IsSynthetic(e.Project)}
	return in
}

func (in *Input) origin(o beliefs.Origin) {
	in.Event.Origin, in.Event.External = string(o), o.External()
}

func (in *Input) content(s string, f text.Features) {
	in.features = f
	in.Event.Size = int64(len(s))
	in.Content.Text = s
	if s == "" {
		return
	}
	for _, v := range f.Views(s) {
		in.Content.Views = append(in.Content.Views, v.Text)
	}
	in.Content.HasHidden = f.HasHidden()
	for _, c := range f.Carriers {
		in.Content.Carriers = append(in.Content.Carriers, string(c.Kind)+":"+c.Value)
	}
	in.Content.Markers = markers(in.Content.Views, in.Content.HasHidden)
}

func cited(bs []streams.BeliefRef) []*Belief {
	out := make([]*Belief, len(bs))
	for i := range bs {
		out[i] = belief(&bs[i])
	}
	return out
}

func belief(b *streams.BeliefRef) *Belief {
	return &Belief{ID: b.ID, Found: b.Found, Kind: b.Kind.String(), Key: b.Key, Truth: b.Axes.Truth.String(), Retrieval: b.Axes.Retrieval.String(),
		Security: b.Axes.Security.String(), Freshness: b.Axes.Freshness.String(), Sensitivity: b.Sensitivity.String(), Scope: b.Scope.String(),
		Quality: b.Quality.String(), Origin: string(b.Origin), Confidence: b.Confidence, Source: b.Source, Observation: b.Observation}
}
