package signals

import (
	"slices"
	"strings"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/pkg/signals/index"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// NewInput returns an input without an event.
func NewInput() *Input {
	in := new(Input)
	in.Memory.Age, in.Memory.Belief, in.Action.Confidence, in.Outcome.Grounding = -1, new(Belief), -1, -1
	return in
}

// Read converts an entry to the inputs of rules. An observation gives one input for each content block. An entry on
// which rules are not evaluated gives none. Any other entry gives one.
func Read(e *streams.Entry) ([]*Input, error) {
	read := readers[e.Type]
	if read == nil {
		return nil, nil
	}
	ins, err := read(e)
	for _, in := range ins {
		in.Large = !in.bounded()
	}
	return ins, err
}

// readers has, for each entry type, the function that converts an entry of this type to inputs.
var readers = make(map[streams.Type]func(*streams.Entry) ([]*Input, error))

// reads registers the function that converts entries of type t, whose body is a B.
func reads[B any](t streams.Type, read func(*streams.Entry, *B) []*Input) {
	readers[t] = func(e *streams.Entry) ([]*Input, error) {
		b, err := streams.Read[B](e)
		if err != nil {
			return nil, err
		}
		return read(e, b), nil
	}
}

func init() {
	reads(streams.TypeObservation, readObservation)
	reads(streams.TypeMemory, readMemory)
	reads(streams.TypeDecision, readDecision)
	reads(streams.TypeAction, readAction)
	reads(streams.TypeRecall, readRecall)
	reads(streams.TypeOutcome, readOutcome)
	reads(streams.TypeBelief, readBeliefs)
	reads(streams.TypeSession, readSession)
	reads(streams.TypeTools, readTools)
}

func readObservation(e *streams.Entry, o *streams.ObservationEntry) []*Input {
	var out []*Input
	for i := range o.Blocks {
		in := head(e, &o.EntryHead)
		in.origin(o.Origin)
		in.Event.Tool, in.Event.Source, in.userNamed, in.handed = o.Tool, o.Source, o.UserNamed, o.Handed
		in.block(&o.Blocks[i])
		for j := range o.Claims {
			if c := &o.Claims[j]; c.Block == i {
				in.belief = c.Belief.ID
			}
		}
		out = append(out, in)
	}
	return out
}

func readMemory(e *streams.Entry, m *streams.MemoryEntry) []*Input {
	in := head(e, &m.EntryHead)
	in.origin(m.Origin)
	in.Event.Source, in.belief = m.Source, m.Belief.ID
	in.content(m.Content, m.Features)
	in.graded = m.Belief.Grade == beliefs.Own || m.Belief.Grade == beliefs.Derived
	age := -1.0
	if !m.FirstSeen.IsZero() {
		age = m.Time.Sub(m.FirstSeen).Seconds()
	}
	in.Memory = Memory{
		Key:       m.Key,
		Category:  m.Category,
		Channel:   m.Channel,
		Origin:    string(m.Origin),
		Inherited: string(m.Inherited),
		External: m.Origin.External() ||
			m.Inherited.External() && m.Inherited != "",
		KeyHolder: string(m.KeyHolder),
		Parents:   m.DerivedFrom,
		Repeats:   int64(m.Repeats),
		Age:       age,
		Asked:     m.Asked,
		Belief:    belief(&m.Belief),
	}
	return []*Input{in}
}

func readAction(e *streams.Entry, a *streams.ActionEntry) []*Input {
	in := head(e, &a.EntryHead)
	in.Event.Tool = a.Tool
	in.content(a.Text, a.Features)
	if a.Intent != nil {
		in.intent = *a.Intent
	}
	in.Action = Action{
		ID:            a.ID,
		Tool:          a.Tool,
		Level:         int64(a.Level),
		Matched:       a.Matched,
		Effects:       a.Effects,
		Text:          a.Text,
		Confidence:    -1,
		Decision:      a.Decision,
		Beliefs:       cited(a.Beliefs),
		Unseen:        a.Unseen,
		BlastRadius:   a.Blast.String(),
		Reversibility: a.Reversibility.String(),
	}
	in.Action.Acts, in.Action.Asked = intent.ActsOf(a.Tool, a.Effects), in.intent.Asked
	in.Action.Strange, in.Action.Other, in.Action.Deed = in.intent.Strange, in.intent.Other, in.intent.Deed
	in.Action.Ordinary = in.intent.Ordinary
	in.Action.Repeated = a.Repeats != ""
	args := ""
	if len(in.Content.Views) > 0 {
		args = in.Content.Views[0]
	}
	in.call, in.values = intent.ReadCall(a.Tool, args), values(a.Text)
	if a.Confidence != nil {
		in.Action.Confidence = *a.Confidence
	}
	if len(a.Args) > 0 {
		// The agent chooses the arguments, so they may not be an object. Rules then see them only as text.
		if streams.Unmarshal(a.Args, &in.Action.Args) != nil {
			in.Action.Args = nil
		}
	}
	in.call.Values = intent.ReadValues(in.Action.Args)
	in.Action.SecretFile = in.call.SentSecret(a.Tool, in.intent.Values)
	sent := readSent(in.Action.Args)
	in.Action.SendsByLine, in.Action.Grant, in.Action.Password = sent.lines, sent.grant, sent.password
	return []*Input{in}
}

func readRecall(e *streams.Entry, r *streams.RecallEntry) []*Input {
	in := head(e, &r.EntryHead)
	in.Recall = Recall{Query: r.Query, Key: r.Key, Purpose: r.Purpose, Admitted: int64(len(r.Admitted))}
	wanted := askedFor(r.Query)
	for _, items := range [][]streams.RecallItem{r.Admitted, r.ContextOnly, r.Contradictions} {
		for i := range items {
			in.Recall.Items = append(in.Recall.Items, recalled(wanted, &items[i]))
		}
	}
	return []*Input{in}
}

func readOutcome(e *streams.Entry, o *streams.OutcomeEntry) []*Input {
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
	return []*Input{in}
}

func readDecision(e *streams.Entry, d *streams.DecisionEntry) []*Input {
	in := head(e, &d.EntryHead)
	in.Decision = Decision{Summary: d.Summary, Beliefs: cited(d.Beliefs)}
	return []*Input{in}
}

func readBeliefs(e *streams.Entry, b *streams.BeliefsEntry) []*Input {
	var out []*Input
	for i := range b.Beliefs {
		out = append(out, audited(e, b, &b.Beliefs[i]))
	}
	return out
}

func readSession(e *streams.Entry, s *streams.SessionEntry) []*Input {
	return []*Input{head(e, &s.EntryHead)}
}

func readTools(e *streams.Entry, t *streams.ToolsEntry) []*Input {
	in := head(e, &t.EntryHead)
	in.Tools.Server, in.Tools.digest = t.Server, streams.CatalogueDigest(t.Server, t.Instructions, t.Tools)
	for i := range t.Tools {
		in.Tools.Items = append(in.Tools.Items, toolInfo(&t.Tools[i]))
	}
	return []*Input{in}
}

// audited returns the input for a belief that is judged again in a re-audit. The input lacks data that was known only
// when the belief was written.
func audited(e *streams.Entry, b *streams.BeliefsEntry, a *streams.AuditedBelief) *Input {
	in := head(e, &streams.EntryHead{ID: a.Observation, Agent: a.Agent, Session: a.Session, Time: b.Time})
	writer := a.Writer
	if writer == "" {
		writer = a.Origin
	}
	in.origin(writer)
	in.Event.Tool, in.Event.Source = a.Tool, a.Source
	in.content(a.Content, a.Features)
	in.Memory = Memory{
		Key:       a.Key,
		Category:  a.Category,
		Channel:   a.Channel,
		Origin:    string(writer),
		Inherited: string(a.Inherited),
		External: writer.External() ||
			a.Inherited.External() && a.Inherited != "",
		Age:    -1,
		Belief: belief(&a.BeliefRef),
	}
	return in
}

func head(e *streams.Entry, h *streams.EntryHead) *Input {
	in := NewInput()
	in.Event = Event{
		Kind:      string(e.Type),
		ID:        h.ID,
		Project:   e.Project,
		Agent:     h.Agent,
		Session:   h.Session,
		Time:      h.Time,
		Synthetic: streams.IsSynthetic(e.Project),
	}
	return in
}

func (in *Input) origin(o beliefs.Origin) {
	in.Event.Origin, in.Event.External = string(o), o.External()
}

func (in *Input) content(s string, f text.Features) { in.contentViews(s, f, nil, nil) }

// kept is stored in the Derived field of an observation's block. Instructs stores it with only the directives and
// MarkedIn. The first sentinel that reads the block adds the rest.
type kept struct {
	complete bool
	external bool
	content  Content
	reading
}

// block sets the input's content to a block of an observation. Blocks with the same Derived share the reading of their
// text.
func (in *Input) block(b *streams.BlockEntry) {
	if b.Derived == nil {
		in.contentViews(b.Text, b.Features, b.Views, nil)
		return
	}
	k, _ := b.Derived.Load().(*kept)
	if k != nil && k.complete && k.external == in.Event.External {
		in.Event.Size, in.Content, in.reading = int64(len(b.Text)), k.content, k.reading
		return
	}
	in.contentViews(b.Text, b.Features, b.Views, k)
	b.Derived.Store(&kept{true, in.Event.External, in.Content, in.reading})
}

// contentViews is like content, but uses views and known if they are not nil. views are the views of the content. known
// has what Instructs found in it.
func (in *Input) contentViews(s string, f text.Features, views []text.View, known *kept) {
	in.features = f
	in.Event.Size = int64(len(s))
	in.Content.Text = s
	if s == "" {
		return
	}
	if views == nil {
		views = f.Views(s)
	}
	for _, v := range views {
		in.Content.Views = append(in.Content.Views, v.Text)
		in.ViewNames = append(in.ViewNames, v.Name)
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
	if known == nil || known.complete {
		in.MarkedIn = in.directives.read(views, keep)
	} else if in.directives, in.MarkedIn = known.directives, known.MarkedIn; !keep {
		in.directives.sentences, in.directives.said = nil, nil
	}
	in.Content.Markers = in.directives.names(in.Content.HasHidden)
	in.sample = sampled(f.Phrases)
	if len(views) > 1 && views[1].Lines == "" {
		// Names and unusual words may be in strings that are encoded in s, so decode these strings too.
		s = decoded(s) + "\n" + s
	}
	in.carried = append(slices.Clip(in.Content.Carriers), properNames(s)...)
	in.carriedBy = index.Hashes(in.carried)
	for _, c := range in.Content.Carriers {
		in.carriers = append(in.carriers, hash32(c))
	}
	switch {
	case in.Event.Kind == string(streams.TypeMemory):
		in.names, in.pieces, in.pushes = identifiers(s), pieces(s), in.findTargets()
		if len(views) > 0 {
			in.words = memoryWords(views[0].Text, in.carriers)
		}
		source := in.sourceOf() + "\x00"
		for _, target := range in.pushes {
			in.targetsBy = append(in.targetsBy, index.Hash(source+target))
		}
	case in.Event.Kind == string(streams.TypeObservation) && in.Event.External:
		in.names, in.pieces = identifiers(s), pieces(s)
	}
	in.piecesBy = index.Hashes(in.pieces)
}

// decoded returns the text of all segments of a content, decoded.
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
	return &Belief{
		ID:          b.ID,
		Found:       b.Found,
		Kind:        b.Kind.String(),
		Key:         b.Key,
		Truth:       b.Axes.Truth.String(),
		Retrieval:   b.Axes.Retrieval.String(),
		Security:    b.Axes.Security.String(),
		Freshness:   b.Axes.Freshness.String(),
		Sensitivity: b.Sensitivity.String(),
		Scope:       b.Scope.String(),
		Quality:     b.Quality.String(),
		Origin:      string(b.Origin),
		Confidence:  b.Confidence,
		Source:      b.Source,
		Observation: b.Observation,

		agent: b.Agent,
	}
}

func recalled(wanted asked, r *streams.RecallItem) *Recalled {
	f := text.Analyze(r.Content)
	out := &Recalled{
		ID:         r.ID,
		Key:        r.Key,
		Similarity: r.Score,
		Overlap:    wanted.overlap(r.Content),
		Origin:     string(r.Origin),
		External:   r.Origin.External(),
		Quality:    r.Quality.String(),
		Source:     r.Source,
		Hidden:     f.HasHidden(),
		Score:      int64(f.Command.Points),
		Commands:   f.Command.Words,
	}
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
	out := &ToolInfo{
		Name:        t.Name,
		Description: t.Description,
		Hidden:      f.HasHidden(),
		print:       streams.Digest([]byte(words)),
	}
	out.Markers = markers(f.Views(words), out.Hidden)
	return out
}
