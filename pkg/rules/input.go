package rules

import (
	"math"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// The types that expressions see. A field's name in CEL is its cel tag; what an
// entry does not have is the zero value, so that a rule never fails for asking.

// Event is what all entries have in common.
type Event struct {
	Kind      string    `cel:"kind" doc:"observation, memory, recall, tools, session, decision, action, outcome, or belief when one is judged again"`
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
	Markers   []string `cel:"markers" doc:"classes of instruction that a view carries: override, role, address, request, exfiltrate, secrecy, tool, persist, plea, answer, obey, hidden"`
	HasHidden bool     `cel:"has_hidden" doc:"zero-width, bidi or tag characters"`
	Score     int64    `cel:"command_score" doc:"how much it reads like an order to its reader, 0 to 100, by a linear text model; docs/detection.md has the false positives of each threshold"`
	Commands  []string `cel:"command_words" doc:"up to three words that weigh most in command_score"`
	Carriers  []string `cel:"carriers" doc:"addresses, hosts, accounts, paths and the like, as kind:value"`
	Kinds     []string `cel:"kinds" doc:"the kinds of its carriers: email, host, url, path, secret and the like"`
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
	Acts          []string       `cel:"acts" doc:"what the tool does by its name and declared effects: send, delete, pay, grant, export and the like"`
	Args          map[string]any `cel:"args"`
	Text          string         `cel:"text" doc:"the arguments' strings, one a line"`
	Confidence    float64        `cel:"confidence" doc:"the agent's own; -1 when not stated"`
	Decision      string         `cel:"decision"`
	Beliefs       []*Belief      `cel:"beliefs" doc:"cited by it or by its decision"`
	Asked         bool           `cel:"asked" doc:"the user's words in the session ask for what the tool does"`
	Unseen        bool           `cel:"unseen" doc:"the session holds input that nobody judged"`
	BlastRadius   string         `cel:"blast_radius"`
	Reversibility string         `cel:"reversibility"`
}

// Recall is a retrieval from memory.
type Recall struct {
	Query    string      `cel:"query"`
	Key      string      `cel:"key"`
	Purpose  string      `cel:"purpose"`
	Admitted int64       `cel:"admitted" doc:"entries that the context policy admits"`
	Items    []*Recalled `cel:"items" doc:"what was found and not refused"`
}

// Recalled is one entry that a retrieval found.
type Recalled struct {
	ID         string   `cel:"id" doc:"of the belief"`
	Key        string   `cel:"key"`
	Similarity float64  `cel:"similarity" doc:"the store's score, 0 to 1; -1 when it gave none"`
	Overlap    float64  `cel:"overlap" doc:"share of the query's words that the content holds, 0 to 1"`
	Origin     string   `cel:"origin"`
	External   bool     `cel:"external"`
	Quality    string   `cel:"quality"`
	Source     string   `cel:"source"`
	Markers    []string `cel:"markers" doc:"classes of instruction in it, as in content.markers"`
	Hidden     bool     `cel:"hidden" doc:"zero-width, bidi or tag characters"`
	Score      int64    `cel:"command_score" doc:"how much it reads like an order, as content.command_score"`
	Commands   []string `cel:"command_words" doc:"up to three words that weigh most in command_score"`
	Kinds      []string `cel:"kinds" doc:"the kinds of its carriers"`
}

// Outcome is what came of an action, or an answer of the agent.
type Outcome struct {
	Action    string  `cel:"action" doc:"id of the action"`
	Status    string  `cel:"status"`
	Kind      string  `cel:"kind" doc:"answer for an agent's answer, else empty"`
	Grounding float64 `cel:"grounding" doc:"how far an answer is supported by the sources that it names, 0 to 1; -1 when it names none"`
}

// Tools is a tool catalogue.
type Tools struct {
	Server string      `cel:"server"`
	Items  []*ToolInfo `cel:"items"`

	digest string // streams.CatalogueDigest
}

// ToolInfo is one tool of a catalogue.
type ToolInfo struct {
	Name        string   `cel:"name"`
	Description string   `cel:"description"`
	Hidden      bool     `cel:"hidden" doc:"zero-width, bidi or tag characters in its description or schema"`
	Markers     []string `cel:"markers" doc:"classes of instruction in its description or schema"`
	Drift       bool     `cel:"drift" doc:"description or schema differ from the first catalogue of this server, or the last one that a person accepted"`
	Shadows     string   `cel:"shadows" doc:"server that offered a tool of this name before; empty if none"`

	print string // of description and schema
}

// Input is what one evaluation sees.
type Input struct {
	Event    Event
	Content  Content
	Memory   Memory
	Decision Decision
	Action   Action
	Recall   Recall
	Outcome  Outcome
	Tools    Tools

	features   text.Features
	belief     string // that the content became
	directives directives

	// What signals compare of the text; like views, it depends on nothing else.
	names     []uint32        // identifiers, hashed
	carried   []string        // carriers, and proper names as name:a b
	carriedBy []uint64        // their hashes
	pieces    []string        // unusual words
	piecesBy  []uint64        // their hashes
	values    []string        // of an action: what may be put together from pieces
	sample    []uint64        // of the phrases
	pushes    []string        // what a source may push
	targetsBy []uint64        // hashes of it and the source
	carriers  []uint32        // hashes of Content.Carriers, as words are
	call      *intent.Call    // of an action
	intent    intent.Relation // of an action
	userNamed bool            // of an observation: the user named where it came from

	viewNames []string // of Content.Views, as pkg/text names them
	large     bool     // beyond the sizes that costs are estimated for
	markedIn  string   // the first decoded view that carries a marker that no view before it had
}

func emptyInput() *Input {
	in := new(Input)
	in.Memory.Age, in.Memory.Belief, in.Action.Confidence, in.Outcome.Grounding = -1, new(Belief), -1, -1
	return in
}

// read turns an entry into inputs: one for each content block of an
// observation, one for any other entry, none for entries that rules do not see.
func read(e *streams.Entry) ([]*Input, error) {
	ins, err := readBody(e)
	for _, in := range ins {
		in.large = !in.bounded()
	}
	return ins, err
}

func readBody(e *streams.Entry) ([]*Input, error) {
	switch e.Type {
	case streams.TypeObservation:
		o, err := streams.Read[streams.ObservationEntry](e)
		if err != nil {
			return nil, err
		}
		var out []*Input
		for i := range o.Blocks {
			in := head(e, &o.EntryHead)
			in.origin(o.Origin)
			in.Event.Tool, in.Event.Source, in.userNamed = o.Tool, o.Source, o.UserNamed
			in.content(o.Blocks[i].Text, o.Blocks[i].Features)
			for j := range o.Claims {
				if c := &o.Claims[j]; c.Block == i {
					in.belief = c.Belief.ID
				}
			}
			out = append(out, in)
		}
		return out, nil
	case streams.TypeMemory:
		m, err := streams.Read[streams.MemoryEntry](e)
		if err != nil {
			return nil, err
		}
		in := head(e, &m.EntryHead)
		in.origin(m.Origin)
		in.Event.Source, in.belief = m.Source, m.Belief.ID
		in.content(m.Content, m.Features)
		age := -1.0
		if !m.FirstSeen.IsZero() {
			age = m.Time.Sub(m.FirstSeen).Seconds()
		}
		in.Memory = Memory{Key: m.Key, Category: m.Category, Channel: m.Channel, Origin: string(m.Origin), Inherited: string(m.Inherited),
			External: m.Origin.External() || m.Inherited.External() && m.Inherited != "", KeyHolder: string(m.KeyHolder), Parents: m.DerivedFrom,
			Repeats: int64(m.Repeats), Age: age, Belief: belief(&m.Belief)}
		return []*Input{in}, nil
	case streams.TypeDecision:
		d, err := streams.Read[streams.DecisionEntry](e)
		if err != nil {
			return nil, err
		}
		in := head(e, &d.EntryHead)
		in.Decision = Decision{Summary: d.Summary, Beliefs: cited(d.Beliefs)}
		return []*Input{in}, nil
	case streams.TypeAction:
		a, err := streams.Read[streams.ActionEntry](e)
		if err != nil {
			return nil, err
		}
		in := head(e, &a.EntryHead)
		in.Event.Tool = a.Tool
		in.content(a.Text, a.Features)
		if a.Intent != nil {
			in.intent = *a.Intent
		}
		in.Action = Action{ID: a.ID, Tool: a.Tool, Level: int64(a.Level), Matched: a.Matched, Effects: a.Effects, Text: a.Text, Confidence: -1,
			Decision: a.Decision, Beliefs: cited(a.Beliefs), Unseen: a.Unseen, BlastRadius: a.Blast.String(), Reversibility: a.Reversibility.String()}
		in.Action.Acts, in.Action.Asked = intent.ActsOf(a.Tool, a.Effects), in.intent.Asked
		args := ""
		if len(in.Content.Views) > 0 {
			args = in.Content.Views[0]
		}
		in.call, in.values = intent.ReadCall(a.Tool, args), values(a.Text)
		if a.Confidence != nil {
			in.Action.Confidence = *a.Confidence
		}
		if len(a.Args) > 0 {
			// Arguments are the agent's; what is no object is seen as text only.
			if streams.Unmarshal(a.Args, &in.Action.Args) != nil {
				in.Action.Args = nil
			}
		}
		in.call.Values = intent.ReadValues(in.Action.Args)
		return []*Input{in}, nil
	case streams.TypeRecall:
		r, err := streams.Read[streams.RecallEntry](e)
		if err != nil {
			return nil, err
		}
		in := head(e, &r.EntryHead)
		in.Recall = Recall{Query: r.Query, Key: r.Key, Purpose: r.Purpose, Admitted: int64(len(r.Admitted))}
		wanted := askedFor(r.Query)
		for _, items := range [][]streams.RecallItem{r.Admitted, r.ContextOnly, r.Contradictions} {
			for i := range items {
				in.Recall.Items = append(in.Recall.Items, recalled(wanted, &items[i]))
			}
		}
		return []*Input{in}, nil
	case streams.TypeOutcome:
		o, err := streams.Read[streams.OutcomeEntry](e)
		if err != nil {
			return nil, err
		}
		in := head(e, &o.EntryHead)
		in.origin(beliefs.OriginAgent)
		in.content(o.Content, o.Features)
		in.Outcome.Action, in.Outcome.Status = o.Action, o.Status
		if o.Status == streams.StatusAnswer {
			in.Outcome.Kind = o.Status
		}
		if o.Grounding != nil {
			in.Outcome.Grounding = *o.Grounding
		}
		return []*Input{in}, nil
	case streams.TypeBelief:
		b, err := streams.Read[streams.BeliefsEntry](e)
		if err != nil {
			return nil, err
		}
		var out []*Input
		for i := range b.Beliefs {
			out = append(out, audited(e, b, &b.Beliefs[i]))
		}
		return out, nil
	case streams.TypeSession:
		s, err := streams.Read[streams.SessionEntry](e)
		if err != nil {
			return nil, err
		}
		return []*Input{head(e, &s.EntryHead)}, nil
	case streams.TypeTools:
		t, err := streams.Read[streams.ToolsEntry](e)
		if err != nil {
			return nil, err
		}
		in := head(e, &t.EntryHead)
		in.Tools.Server, in.Tools.digest = t.Server, streams.CatalogueDigest(t.Server, t.Tools)
		for i := range t.Tools {
			in.Tools.Items = append(in.Tools.Items, toolInfo(&t.Tools[i]))
		}
		return []*Input{in}, nil
	}
	return nil, nil
}

// audited is a belief that is judged again. What a memory write says of the
// moment of writing is not there.
func audited(e *streams.Entry, b *streams.BeliefsEntry, a *streams.AuditedBelief) *Input {
	in := head(e, &streams.EntryHead{ID: a.Observation, Agent: a.Agent, Session: a.Session, Time: b.Time})
	writer := a.Writer
	if writer == "" {
		writer = a.Origin
	}
	in.origin(writer)
	in.Event.Tool, in.Event.Source = a.Tool, a.Source
	in.content(a.Content, a.Features)
	in.Memory = Memory{Key: a.Key, Category: a.Category, Channel: a.Channel, Origin: string(writer), Inherited: string(a.Inherited),
		External: writer.External() || a.Inherited.External() && a.Inherited != "", Age: -1, Belief: belief(&a.BeliefRef)}
	return in
}

func head(e *streams.Entry, h *streams.EntryHead) *Input {
	in := emptyInput()
	in.Event = Event{Kind: string(e.Type), ID: h.ID, Project: e.Project, Agent: h.Agent, Session: h.Session, Time: h.Time, Synthetic: streams.IsSynthetic(e.Project)}
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
	views := f.Views(s)
	for _, v := range views {
		in.Content.Views = append(in.Content.Views, v.Text)
		in.viewNames = append(in.viewNames, v.Name)
	}
	in.Content.HasHidden = f.HasHidden()
	in.Content.Score, in.Content.Commands = int64(f.Command.Points), f.Command.Words
	for _, c := range f.Carriers {
		in.Content.Carriers = append(in.Content.Carriers, string(c.Kind)+":"+c.Value)
		if !slices.Contains(in.Content.Kinds, string(c.Kind)) {
			in.Content.Kinds = append(in.Content.Kinds, string(c.Kind))
		}
	}
	keep := in.Event.External || in.Event.Kind == string(streams.TypeMemory)
	in.markedIn = in.directives.read(views, keep)
	in.Content.Markers = in.directives.names(in.Content.HasHidden)
	in.sample = sampled(f.Phrases)
	if len(views) > 1 && views[1].Lines == "" {
		s = decoded(s) + "\n" + s // names and unusual words stand in its strings
	}
	in.carried = append(slices.Clip(in.Content.Carriers), properNames(s)...)
	in.carriedBy = hashesOf(in.carried)
	for _, c := range in.Content.Carriers {
		in.carriers = append(in.carriers, hash32(c))
	}
	switch {
	case in.Event.Kind == string(streams.TypeMemory):
		in.names, in.pieces, in.pushes = identifiers(s), pieces(s), in.findTargets()
		source := in.sourceOf() + "\x00"
		for _, target := range in.pushes {
			in.targetsBy = append(in.targetsBy, hash64(source+target))
		}
	case in.Event.Kind == string(streams.TypeObservation) && in.Event.External:
		in.names, in.pieces = identifiers(s), pieces(s)
	}
	in.piecesBy = hashesOf(in.pieces)
}

// decoded is the text of a content's segments.
func decoded(s string) string {
	var b strings.Builder
	for _, seg := range text.Segments(s) {
		b.WriteString(seg.Text)
		b.WriteByte('\n')
	}
	return b.String()
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

func recalled(wanted asked, r *streams.RecallItem) *Recalled {
	f := text.Analyze(r.Content)
	out := &Recalled{ID: r.ID, Key: r.Key, Similarity: r.Score, Overlap: wanted.overlap(r.Content), Origin: string(r.Origin), External: r.Origin.External(),
		Quality: r.Quality.String(), Source: r.Source, Hidden: f.HasHidden(),
		Score: int64(f.Command.Points), Commands: f.Command.Words}
	out.Markers = markers(f.Views(r.Content), out.Hidden)
	for _, c := range f.Carriers {
		if !slices.Contains(out.Kinds, string(c.Kind)) {
			out.Kinds = append(out.Kinds, string(c.Kind))
		}
	}
	return out
}

func toolInfo(t *streams.Tool) *ToolInfo {
	words := t.Description + "\n" + string(t.InputSchema)
	f := text.Analyze(words)
	out := &ToolInfo{Name: t.Name, Description: t.Description, Hidden: f.HasHidden(), print: streams.Digest([]byte(words))}
	out.Markers = markers(f.Views(words), out.Hidden)
	return out
}

// asked are the stems of a query's words.
type asked struct {
	stems []string // a query has few words, and a content has many
	first [26]bool // letters that they begin with
}

func askedFor(query string) (a asked) {
	for w := range strings.FieldsFuncSeq(text.Normalize(query), notWord) {
		if len(w) < 3 {
			continue
		}
		a.stems = append(a.stems, stem(w))
		if i := w[0] - 'a'; i < 26 {
			a.first[i] = true
		}
	}
	return a
}

// may reports whether a word may have one of the stems: each begins like its word.
func (a *asked) may(w string) bool {
	i := w[0] - 'a'
	return i >= 26 || a.first[i]
}

// overlap is the share of a query's words that a content holds.
func (a *asked) overlap(content string) float64 {
	n := len(a.stems)
	if n == 0 {
		return 0
	}
	wanted := slices.Clone(a.stems)
	for w := range strings.FieldsFuncSeq(text.Normalize(content), notWord) {
		if !a.may(w) {
			continue
		}
		s := stem(w)
		wanted = slices.DeleteFunc(wanted, func(q string) bool { return q == s })
		if len(wanted) == 0 {
			break
		}
	}
	return float64(n-len(wanted)) / float64(n)
}

// entropy is the Shannon entropy of a text's bytes, over its first 64 KiB:
// log2 n less the mean of log2 c over the n bytes, c being how often each is there.
func entropy(s string) float64 {
	// Two counts of each byte: one need not wait for what the other has written.
	var n [2][256]int32
	s = s[:min(len(s), boundText)]
	i := 0
	for ; i+1 < len(s); i += 2 {
		n[0][s[i]]++
		n[1][s[i+1]]++
	}
	if i < len(s) {
		n[0][s[i]]++
	}
	sum := 0.0
	for b := range n[0] {
		if c := int(n[0][b] + n[1][b]); c > 1 {
			sum += timesLog(c)
		}
	}
	if len(s) == 0 {
		return 0
	}
	return max(0, math.Log2(float64(len(s)))-sum/float64(len(s)))
}

// timesLog is n log2 n.
func timesLog(n int) float64 {
	if n < len(timesLogs) {
		return timesLogs[n]
	}
	return float64(float64(n) * math.Log2(float64(n))) // not fused with what it is added to
}

var timesLogs = func() (t [1024]float64) {
	for n := 1; n < len(t); n++ {
		t[n] = float64(n) * math.Log2(float64(n))
	}
	return t
}()
