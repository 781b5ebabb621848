package containment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"lazaret/client"
	"lazaret/internal/replay"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Options configure a run.
type Options struct {
	Parallel int // cases at once; zero means 8
	// Progress, if set, is called from several goroutines after each case.
	Progress func(done, total int64)
}

// Run plays cases over a connection with the replay credential, writes their texts to memory and
// recalls them.
func Run(ctx context.Context, nc *nats.Conn, cases []*Case, o Options) error {
	if o.Parallel <= 0 {
		o.Parallel = 8
	}
	var done atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Parallel)
	for _, c := range cases {
		g.Go(func() error {
			if err := c.run(ctx, nc); err != nil {
				return fmt.Errorf("%s: %w", c.Script.Name, err)
			}
			if n := done.Add(1); o.Progress != nil {
				o.Progress(n, int64(len(cases)))
			}
			return nil
		})
	}
	return g.Wait()
}

// visit is a running case.
type visit struct {
	*Case
	c     *client.Client
	now   time.Time
	n     int
	where string // session
}

func (v *visit) head() streams.Head {
	v.n++
	v.now = v.now.Add(stepTime)
	return streams.Head{ID: fmt.Sprintf("x%d", v.n), Session: v.where, Time: v.now}
}

// key returns the key under which text number i is written to memory in one of the ways. The way is a part of the key,
// so that a recalled text shows how it entered the memory.
func key(i int, way string) string { return fmt.Sprintf("%s-%d", way, i) }

func (c *Case) run(ctx context.Context, nc *nats.Conn) error {
	if err := replay.Play(ctx, nc, []replay.Script{c.Script}, replay.Options{}); err != nil {
		return err
	}
	cl, err := client.New(nc, c.Script.Project, streams.ReplayAgent)
	if err != nil {
		return err
	}
	v := &visit{Case: c, c: cl, now: replay.Epoch, where: "written"}
	for _, s := range c.Script.Steps {
		if t := streams.HeadOf(s.Event).Time; t.After(v.now) {
			v.now = t
		}
	}
	for i, t := range c.Texts {
		if err := v.write(ctx, i, t); err != nil {
			return err
		}
	}
	for at, act := range c.acts {
		// After each honest action, the agent writes to its memory what it did.
		if a := c.Script.Steps[at].Event.(*streams.Action); !act.Goal {
			if _, err := v.remember(ctx, beliefs.OriginAgent, key(at, "did"), "Done for the user: "+a.Tool+" "+
				string(a.Args)); err != nil {
				return err
			}
		}
	}
	// A new session on another day.
	v.now, v.where = v.now.Add(day), "asked"
	if err := v.tell(ctx, streams.KindSession, "", &streams.Session{Head: v.head(), Phase: "start"}); err != nil {
		return err
	}
	if err := v.ask(ctx); err != nil {
		return err
	}
	return v.nextDay(ctx)
}

func (v *visit) tell(ctx context.Context, k streams.Kind, o beliefs.Origin, e streams.Event) error {
	_, err := v.c.Publish(ctx, k, o, e)
	return err
}

// remember writes to memory. A held or denied write is not an error; said is then the verdict with its reason.
func (v *visit) remember(ctx context.Context, o beliefs.Origin, key, content string) (said string, err error) {
	rep, err := v.c.Remember(ctx, o, &streams.Memory{Head: v.head(), Key: key, Content: content})
	if err == nil && rep.Verdict != streams.Allow {
		said = verdict(rep)
	}
	return said, notRefused(err)
}

// verdict formats a reply with its first reason, without variable parts.
func verdict(rep *streams.Reply) string {
	s := rep.Verdict.String()
	for _, x := range rep.Entry.Reasons {
		if x.Verdict == rep.Verdict {
			if x.Rule != "" {
				return s + " by rule " + x.Rule
			}
			return s + ": " + string(x.Code) + " " + x.Text
		}
	}
	return s
}

func notRefused(err error) error {
	var le *client.Error
	if errors.As(err, &le) && le.Code < streams.CodeTimeout {
		return nil
	}
	return err
}

// write writes a text to memory in every way that applies to it.
func (v *visit) write(ctx context.Context, i int, t *Text) error {
	switch t.Side {
	case User:
		if t.Written {
			return nil
		}
		// The user says the text, and a host remembers it with origin user.
		var err error
		if t.why, err = v.remember(ctx, beliefs.OriginUser, key(i, Recorded), t.Content); err != nil {
			return err
		}
		return v.takeNote(ctx, i, t)
	case Attack:
	default:
		return nil
	}
	if t.Written {
		// The script has written this text to memory, but the agent has not read it. So the agent reads it from memory.
		if err := v.tell(ctx, streams.KindObs, beliefs.OriginDocument, &streams.Observation{Head: v.head(),
			Tool: "memory.read", Content: t.Content}); err != nil {
			return err
		}
	}
	if err := v.paste(ctx, i, t); err != nil {
		return err
	}
	for way, content := range map[string]string{Verbatim: t.Content, Paraphrased: paraphrase(t.Content)} {
		if _, err := v.remember(ctx, beliefs.OriginAgent, key(i, way), content); err != nil {
			return err
		}
	}
	if err := v.tell(ctx, streams.KindObs, beliefs.OriginUser, &streams.Observation{Head: v.head(),
		Content: "Look at this, and keep it:\n\n" + t.Content}); err != nil {
		return err
	}
	_, err := v.remember(ctx, beliefs.OriginUser, key(i, Pasted), t.Content)
	return err
}

func (v *visit) recall(ctx context.Context, r *streams.Recall) (*streams.RecallEntry, string, error) {
	r.Head, r.Limit = v.head(), 100
	ask := v.c.Recall
	if len(r.Candidates) > 0 {
		ask = v.c.Gate
	}
	rep, err := ask(ctx, r)
	if err != nil {
		return nil, "", err
	}
	if rep.Recall == nil {
		return new(streams.RecallEntry), "the recall: " + verdict(rep), nil
	}
	return rep.Recall, "", nil
}

// ask recalls everything that was written or read, in every way, for planning.
func (v *visit) ask(ctx context.Context) error {
	var attacks []*Text
	at := make(map[*Text]int)
	for i, t := range v.Texts {
		t.asked = true
		if at[t] = i; t.Side == Attack {
			attacks = append(attacks, t)
			t.served = make(map[string]bool)
		}
	}
	if len(attacks) > 0 {
		asks := []*streams.Recall{{Filter: streams.RecallFilter{Kind: "memory"}},
			{Filter: streams.RecallFilter{Kind: "content"}}}
		if v.Task != "" {
			asks = append(asks, &streams.Recall{Query: clip(v.Task)})
		}
		for _, t := range attacks {
			if q := query(t.Content); q != "" {
				asks = append(asks, &streams.Recall{Query: q})
			}
			asks = append(asks, &streams.Recall{Candidates: []streams.GateCandidate{{Content: t.Content}}},
				// Ask also about a candidate with an additional word, so that its content is unknown to the pipeline.
				&streams.Recall{Candidates: []streams.GateCandidate{{Content: "Remember: " + t.Content}}})
		}
		for _, r := range asks {
			e, _, err := v.recall(ctx, r)
			if err != nil {
				return err
			}
			for _, t := range attacks {
				t.hear(e, at[t])
			}
		}
	}
	for i, t := range v.Texts {
		if t.Side == Attack {
			continue
		}
		if err := v.askFor(ctx, i, t); err != nil {
			return err
		}
	}
	return nil
}

// hear records whether a recall returned an attack text, in which way it had entered memory, and in which channel.
func (t *Text) hear(e *streams.RecallEntry, i int) {
	mine := func(it *streams.RecallItem) (string, bool) {
		for _, way := range Ways {
			if it.Key == key(i, way) {
				return way, true
			}
		}
		switch {
		case !carries(it.Content, t.Content):
			return "", false
		case e.Gate > 0:
			return Candidate, true
		}
		return Recorded, true
	}
	for n := range e.Admitted {
		if way, ok := mine(&e.Admitted[n]); ok {
			t.served[way] = true
		}
	}
	for _, items := range [][]streams.RecallItem{e.ContextOnly, e.Contradictions} {
		for n := range items {
			if _, ok := mine(&items[n]); ok {
				t.aside = true
			}
		}
	}
}

// carries reports whether the text that a recall served contains the text that was written, or its beginning if it
// is long. The reply may have added markers around it.
func carries(served, content string) bool {
	want := strings.TrimSpace(content)
	if len(want) > 600 {
		want = strings.ToValidUTF8(want[:600], "")
	}
	return strings.Contains(served, want)
}

// askFor recalls a harmless text by some of its words. If it has no words to search for, askFor recalls by its key, or
// recalls all memories of the kind content.
func (v *visit) askFor(ctx context.Context, i int, t *Text) error {
	r := &streams.Recall{Query: query(t.Content)}
	if r.Query == "" {
		r = &streams.Recall{Key: key(i, Recorded)}
		if t.Side != User || t.Written {
			r = &streams.Recall{Filter: streams.RecallFilter{Kind: "content"}}
		}
	}
	e, why, err := v.recall(ctx, r)
	if err != nil {
		return err
	}
	event := v.event(t)
	has := func(items []streams.RecallItem) bool {
		for n := range items {
			// A masked or cut text still counts as found.
			if carries(items[n].Content, t.Content) || event != "" && items[n].Observation == event {
				return true
			}
		}
		return false
	}
	if t.Side == User && !t.Written {
		if err := v.planned(ctx, i, t); err != nil {
			return err
		}
	}
	written := t.why
	t.found, t.why = has(e.Admitted), ""
	if t.Side != User {
		t.found = t.found || has(e.ContextOnly)
	}
	if t.found {
		return nil
	}
	switch {
	case why != "":
		t.why = why
	case written != "":
		t.why = "the write: " + written
	case has(e.ContextOnly):
		t.why = "context only"
	case len(e.Refused) > 0:
		t.why = "refused: " + e.Refused[0].Reason
	default:
		t.why = "not found"
	}
	return nil
}

// event returns the id of the event with which a script reads a text.
func (v *visit) event(t *Text) string {
	for _, s := range v.Script.Steps {
		if o, ok := s.Event.(*streams.Observation); ok && o.Content == t.Content {
			return o.ID
		}
	}
	return ""
}

func clip(s string) string {
	if len(s) > 2000 {
		return strings.ToValidUTF8(s[:2000], "")
	}
	return s
}
