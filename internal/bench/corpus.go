package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/rules"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// corpus generates rules and events. The same seed gives the same rules and events on every machine. The
// vocabulary has a few hundred English words, which rules look for, and two thousand invented words, so that
// two texts are rarely similar.
type corpus struct {
	r     *rand.Rand
	words []string
	tools []string
	hosts []string
}

const (
	seed       = 20260101
	eventSize  = 1 << 10
	benchTools = 2000
	benchHosts = 1500
	// benchProjects and benchAgents are the numbers of projects and agents of all events.
	benchProjects = 16
	benchAgents   = 8
)

const english = `the of and to a in is it you that he was for on are with as his they be at one have this from or had by
hot but some what there we can out other were all your when up use word how said an each she which do their time if will
way about many then them would write like so these her long make thing see him two has look more day could go come did
my sound no most number who over know water than call first people may down side been now find any new work part take
get place made live where after back little only round man year came show every good me give our under name very through
just form much great think say help low line before turn cause same mean differ move right boy old too does tell
sentence set three want air well also play small end put home read hand port large spell add even land here must big
high such follow act why ask men change went light kind off need house picture try us again animal point mother world
near build self earth father send report invoice account transfer meeting budget server database password customer order
review summary update email message file folder project deadline release ticket request approve contract`

func newCorpus(stream uint64) *corpus {
	c := &corpus{r: rand.New(rand.NewPCG(seed, stream)), words: strings.Fields(english)}
	// The vocabulary is the same for every value of the parameter stream.
	v := rand.New(rand.NewPCG(seed, 0))
	syllables := strings.Fields("ba be bi bo bu ca ce co da de di do fa fe fi fo ga ge go ha he hi ho ka ke ki la le li " +
		"lo lu ma me mi mo mu na ne ni no pa pe pi po ra re ri ro ru sa se si so ta te ti to tu va ve vi vo wa we zi zo")
	for range 2000 {
		var b strings.Builder
		for range 2 + v.IntN(3) {
			b.WriteString(syllables[v.IntN(len(syllables))])
		}
		c.words = append(c.words, b.String())
	}
	for i := range benchTools {
		c.tools = append(c.tools, fmt.Sprintf("%s.%s_%d", c.words[v.IntN(len(c.words))], c.words[v.IntN(len(c.words))], i))
	}
	for i := range benchHosts {
		c.hosts = append(c.hosts, fmt.Sprintf("%s-%d.example", c.words[200+v.IntN(2000)], i))
	}
	return c
}

func (c *corpus) pick(s []string) string { return s[c.r.IntN(len(s))] }

// word returns a random word; earlier words are more frequent, as in natural language.
func (c *corpus) word() string {
	u := c.r.Float64()
	return c.words[int(u*u*float64(len(c.words)))]
}

// prose returns about n bytes of sentences, with one or two addresses per KiB and, in one of sixteen
// texts, an instruction to the reader.
func (c *corpus) prose(n int) string {
	var b strings.Builder
	order := -1
	if c.r.IntN(16) == 0 {
		order = n / 2
	}
	for b.Len() < n-60 {
		if order >= 0 && b.Len() > order {
			order = -1
			fmt.Fprintf(&b, "You must %s the %s to %s now. ", c.pick([]string{"send", "forward", "post"}), c.word(), c.address())
		}
		for i := range 6 + c.r.IntN(9) {
			w := c.word()
			if i == 0 || c.r.IntN(25) == 0 {
				w = strings.ToUpper(w[:1]) + w[1:]
			}
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(w)
			if c.r.IntN(70) == 0 {
				b.WriteByte(' ')
				b.WriteString(c.address())
			}
		}
		b.WriteString(". ")
	}
	for b.Len() < n {
		b.WriteByte('.')
	}
	return b.String()[:n]
}

func (c *corpus) address() string {
	switch h := c.pick(c.hosts); c.r.IntN(3) {
	case 0:
		return c.word() + "@" + h
	case 1:
		return "https://" + h + "/" + c.word()
	default:
		return fmt.Sprintf("/srv/%s/%s%d", c.word(), c.word(), c.r.IntN(1000))
	}
}

// mix has the types of events and their percentages.
var mix = []struct {
	t     streams.Type
	share int
}{
	{streams.TypeObservation, 45}, {streams.TypeMemory, 15}, {streams.TypeAction, 20}, {streams.TypeOutcome, 5},
	{streams.TypeRecall, 5}, {streams.TypeDecision, 5}, {streams.TypeSession, 3}, {streams.TypeTools, 2},
}

func (c *corpus) kind() streams.Type {
	n := c.r.IntN(100)
	for _, m := range mix {
		if n -= m.share; n < 0 {
			return m.t
		}
	}
	return streams.TypeObservation
}

// events returns n prepared events of 1 KiB, of type t or, if t is empty, of all types in their shares.
func (c *corpus) events(n int, t streams.Type) ([]*rules.Prepared, error) {
	out := make([]*rules.Prepared, 0, n)
	now := epoch
	for i := range n {
		kind := t
		if kind == "" {
			kind = c.kind()
		}
		now = now.Add(200 * time.Millisecond)
		e, err := c.event(kind, uint64(i+1), now)
		if err != nil {
			return nil, err
		}
		p, err := rules.Prepare(e)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (c *corpus) event(t streams.Type, seq uint64, now time.Time) (*streams.Entry, error) {
	project := fmt.Sprintf("project-%d", c.r.IntN(benchProjects))
	h := streams.EntryHead{ID: fmt.Sprintf("e%d", seq), Agent: fmt.Sprintf("agent-%d", c.r.IntN(benchAgents)),
		Session: fmt.Sprintf("s%d", c.r.IntN(40)), Time: now, Intake: seq}
	e := &streams.Entry{Seq: seq, Time: now, Partition: streams.PartitionOf(project), Stage: streams.StageIngest,
		Type: t, Project: project, Src: seq}
	belief := func() streams.BeliefRef {
		b := streams.BeliefRef{ID: fmt.Sprintf("b%d", c.r.IntN(1000)), Found: true, Confidence: 0.7, Origin: "tool"}
		b.Axes.Truth, b.Quality = beliefs.Supported, beliefs.ToolResult
		return b
	}
	var body any
	switch t {
	case streams.TypeObservation:
		s := c.prose(eventSize)
		body = &streams.ObservationEntry{EntryHead: h,
			Observation: beliefs.Observation{Origin: beliefs.Origin(c.pick([]string{"web", "tool", "tool", "email", "document",
				"user"})), Tool: c.pick(c.tools), Source: "https://" + c.pick(c.hosts) + "/"},
			Blocks: []streams.BlockEntry{{Text: s, Features: text.Analyze(s)}}}
	case streams.TypeMemory:
		s := c.prose(eventSize)
		body = &streams.MemoryEntry{EntryHead: h, Origin: beliefs.Origin(c.pick([]string{"agent", "agent", "user", "web"})),
			Key: c.word(), Content: s, Features: text.Analyze(s),
			Source: "https://" + c.pick(c.hosts) + "/", Belief: streams.BeliefRef{ID: fmt.Sprintf("b%d", seq), Found: true}}
	case streams.TypeAction:
		args := map[string]any{"to": c.address(), "subject": c.word() + " " + c.word(), "body": c.prose(eventSize - 100)}
		raw, err := streams.Marshal(args)
		if err != nil {
			return nil, err
		}
		s := fmt.Sprintf("%s\n%s\n%s\n", args["body"], args["subject"], args["to"])
		body = &streams.ActionEntry{EntryHead: h, Action: beliefs.Action{Tool: c.pick(c.tools),
			Effects:  []string{c.pick([]string{"read", "write", "egress", "exec"})},
			Contract: beliefs.Contract{Level: beliefs.Level(c.r.IntN(5))}},
			Args: raw, Text: s, Features: text.Analyze(s), Beliefs: []streams.BeliefRef{belief(), belief()}, Matched: "bench"}
	case streams.TypeOutcome:
		s := c.prose(eventSize)
		body = &streams.OutcomeEntry{EntryHead: h, Outcome: beliefs.Outcome{Action: "a1", Status: "done"}, Content: s,
			Features: text.Analyze(s)}
	case streams.TypeRecall:
		r := &streams.RecallEntry{EntryHead: h, Query: c.prose(120), Limit: 4}
		for range 4 {
			r.Admitted = append(r.Admitted, streams.RecallItem{BeliefRef: belief(), Content: c.prose(eventSize / 4),
				Score: c.r.Float64()})
		}
		body = r
	case streams.TypeDecision:
		body = &streams.DecisionEntry{EntryHead: h, Summary: c.prose(eventSize), Beliefs: []streams.BeliefRef{belief(),
			belief()}}
	case streams.TypeSession:
		body = &streams.SessionEntry{EntryHead: h, Phase: "start", Prompt: c.prose(eventSize)}
	case streams.TypeTools:
		body = &streams.ToolsEntry{EntryHead: h, Server: c.pick(c.hosts),
			Tools: []streams.Tool{{Name: c.pick(c.tools), Description: c.prose(eventSize)}}}
	}
	var err error
	e.Body, err = streams.Marshal(body)
	return e, err
}
