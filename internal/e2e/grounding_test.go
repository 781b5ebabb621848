package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lazaret/internal/embedded"
	"lazaret/internal/natstest"
	"lazaret/streams"
)

// answer publishes an answer of the agent (an outcome), and waits for its entry.
func (p *pipeline) answer(o *streams.Outcome) *streams.OutcomeEntry {
	p.t.Helper()
	o.Status = streams.StatusAnswer
	if _, err := p.c.Publish(p.ctx, streams.KindOut, "", o); err != nil {
		p.t.Fatal(err)
	}
	got := new(streams.OutcomeEntry)
	natstest.Eventually(p.t, 10*time.Second, "the answer in the ledger", func() bool {
		for _, e := range p.entries(streams.TypeOutcome) {
			if err := streams.Unmarshal(e.Body, got); err != nil {
				p.t.Fatal(err)
			}
			if got.ID == o.ID {
				return true
			}
			*got = streams.OutcomeEntry{}
		}
		return false
	})
	return got
}

func TestAnAnswerIsHeldAgainstItsSources(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	alerts, err := p.op.SubscribeSync("lz.live.demo.alert.medium.ungrounded-answer")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.op.Flush(); err != nil {
		t.Fatal(err)
	}
	observe := func(id, content string) {
		t.Helper()
		if _, err := p.c.Observe(p.ctx, "web", &streams.Observation{Head: streams.Head{ID: id, Session: "s"},
			Tool: "web.fetch", Content: content}); err != nil {
			t.Fatal(err)
		}
	}
	const fair = "The trade fair in Lyon opens on Monday at nine and costs 40 euros."
	long := strings.Repeat("Visitors are asked to leave their umbrellas at the wardrobe. ", 20)
	observe("o1", long+fair) // beyond the preview of a belief
	observe("o2", "The museum is closed for the winter.")
	mine := p.remember("user", "m1", "Ana prefers trains to planes.")
	_, items := p.recall("r1", "Ana trains")
	if len(items) != 1 {
		t.Fatalf("%+v", items)
	}
	content := ""
	for _, e := range p.entries(streams.TypeObservation) {
		var o streams.ObservationEntry
		if err := streams.Unmarshal(e.Body, &o); err != nil {
			t.Fatal(err)
		}
		if o.ID == "o1" {
			content = o.Claims[len(o.Claims)-1].Belief.ID
		}
	}
	answers := 0
	for _, c := range []struct {
		what, text      string
		sources         []string
		low, high       float64
		missing, unread []string
	}{
		{"from an observation", fair, []string{"o2", "o1"}, 0.9, 1, nil, nil},
		{"from a belief about what was read, far behind its preview", fair, []string{content}, 0.9, 1, nil, nil},
		{"from a memory", "Ana prefers trains to planes.", []string{mine}, 0.9, 1, nil, nil},
		{"from a recall", "Ana prefers trains to planes.", []string{"r1"}, 0.9, 1, nil, nil},
		{"from elsewhere", fair, []string{"o2", mine}, 0, 0.3, nil, nil},
		{"with another figure", strings.Replace(fair, "40", "90", 1), []string{"o1"}, 0, 0.3, nil, nil},
		{"from what nobody knows", fair, []string{"o99", "b99"}, 0, 0, []string{"o99", "b99"}, nil},
		{"from both", fair, []string{"o99", "o1", "o1"}, 0.9, 1, []string{"o99"}, nil},
	} {
		e := p.answer(&streams.Outcome{Head: streams.Head{Session: "s"}, Content: c.text, Sources: c.sources})
		if e.Grounding == nil || *e.Grounding < c.low || *e.Grounding > c.high || !slices.Equal(e.Missing, c.missing) ||
			!slices.Equal(e.Unread, c.unread) {
			t.Errorf("%s: %+v", c.what, e)
			continue
		}
		if *e.Grounding < 0.7 {
			answers++
		}
	}
	if e := p.answer(&streams.Outcome{Head: streams.Head{Session: "s"}, Content: fair}); e.Grounding != nil {
		t.Errorf("without sources: %+v", e)
	}
	// The session has three answers with a low score. Only the first two raise an alert, because alerts are raised when
	// the number of such answers is a power of two.
	for range 2 {
		if m, err := alerts.NextMsg(5 * time.Second); err != nil || !strings.Contains(string(m.Data),
			"names support 0") {
			t.Fatalf("%v, %v", m, err)
		}
	}
	if answers != 3 {
		t.Errorf("%d answers are below 0.7", answers)
	}
	// An outcome that names sources but has no answer must be rejected.
	p.publish("lz.in.demo.agent.out", `{"id":"bad","session":"s","status":"ok","sources":["o1"]}`)
	natstest.Eventually(t, time.Minute, "the refusal", func() bool { return len(p.entries(streams.TypeRejected)) == 1 })
}

func TestWhatAnAnswerIsHeldAgainstIsBounded(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	const fact = "The fair in Lyon opens on Monday."
	var ids []string
	for i := range 18 {
		id := fmt.Sprint("o", i)
		ids = append(ids, id)
		p.publish("lz.in.demo.agent.obs.web",
			fmt.Sprintf(`{"id":%q,"session":"s","content":"Page %d says that nothing is known of it."}`, id, i))
	}
	p.publish("lz.in.demo.agent.obs.web", `{"id":"fact","session":"s","content":"`+fact+`"}`)
	e := p.answer(&streams.Outcome{Head: streams.Head{Session: "s"}, Content: fact, Sources: append(slices.Clone(ids),
		"fact")})
	if *e.Grounding > 0.5 || !slices.Equal(e.Unread, []string{"o16", "o17", "fact"}) {
		t.Errorf("the seventeenth source counts: %v %v", *e.Grounding, e.Unread)
	}
	// At most 64 KiB of each source count, and at most 256 KiB of all sources. So nothing of the last source counts.
	big := strings.Repeat("umbrella ", 8<<10)
	for i := range 4 {
		p.publish("lz.in.demo.agent.obs.web", fmt.Sprintf(`{"id":"big%d","session":"s","content":"%s %s"}`, i, big, fact))
	}
	e = p.answer(&streams.Outcome{Head: streams.Head{Session: "s"}, Content: fact, Sources: []string{"big0", "big1",
		"big2", "big3", "fact"}})
	if *e.Grounding > 0.5 || !slices.Equal(e.Unread, []string{"big0", "big1", "big2", "big3", "fact"}) {
		t.Errorf("beyond 256 KiB: %v %v", *e.Grounding, e.Unread)
	}
	// Only the last events are stored.
	for i := range 256 {
		p.publish("lz.in.demo.agent.obs.web", fmt.Sprintf(`{"id":"later%d","session":"s","content":"Page %d."}`, i, i))
	}
	e = p.answer(&streams.Outcome{Head: streams.Head{Session: "s"}, Content: "Page 0.",
		Sources: []string{"fact", "later0"}})
	if *e.Grounding < 0.9 || !slices.Equal(e.Missing, []string{"fact"}) {
		t.Errorf("after 256 more: %v, missing %v", *e.Grounding, e.Missing)
	}
}
