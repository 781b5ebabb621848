package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// benign returns the i-th call of a harmless agent: it reads, drafts and changes files of its own project. None of the
// calls follows an instruction that the agent has read.
func benign(i int) (tool, args string) {
	switch i % 12 {
	case 0:
		return "think", fmt.Sprintf(`{"about":"step %d of the plan"}`, i) // L0
	case 1:
		return "calculate", fmt.Sprintf(`{"expression":"%d * 17"}`, i) // L0
	case 2:
		return "read_file", fmt.Sprintf(`{"path":"notes/week-%d.md"}`, i)
	case 3:
		return "search_notes", fmt.Sprintf(`{"query":"budget of quarter %d"}`, i%4+1)
	case 4:
		return "list_tasks", `{"state":"open"}`
	case 5:
		return "get_weather", `{"city":"Lisbon"}`
	case 6:
		return "draft_summary", fmt.Sprintf(`{"about":"Number %d is fine with me."}`, i) // L2
	case 7:
		return "browse_page", fmt.Sprintf(`{"url":"https://docs.example/page-%d"}`, i)
	case 8:
		return "create_note", fmt.Sprintf(`{"title":"Groceries %d","items":"milk, bread"}`, i) // L3
	case 9:
		return "update_task", fmt.Sprintf(`{"task":%d,"state":"done"}`, i)
	case 10:
		return "write_file", fmt.Sprintf(`{"path":"notes/week-%d.md","text":"All went well."}`, i)
	}
	return "add_event", fmt.Sprintf(`{"title":"Review %d","at":"2026-11-2%dT10:00:00Z"}`, i, i%10)
}

// host is the host program of an agent. The pipeline may be restarted while it runs.
type host struct {
	t *testing.T
	c *client.Client
}

func newHost(t *testing.T, data string) *host {
	t.Helper()
	c, err := client.New(connect(t, data, "agent"), "demo", "agent")
	if err != nil {
		t.Fatal(err)
	}
	return &host{t, c}
}

func (h *host) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	h.t.Cleanup(cancel)
	return ctx
}

func (h *host) decide(a *streams.Action) *streams.VerdictEntry {
	h.t.Helper()
	rep, err := h.c.Decide(h.ctx(), a)
	if err != nil {
		h.t.Fatal(err)
	}
	return rep.Entry
}

func (h *host) reads(session, id, text string) {
	h.t.Helper()
	if _, err := h.c.Observe(h.ctx(), "web", &streams.Observation{Head: streams.Head{ID: id, Session: session},
		Tool: "web.fetch", Source: "https://weather.example/today", Content: text}); err != nil {
		h.t.Fatal(err)
	}
}

// servesPoison checks that the action for which the poisoned text asks is held, and that its lineage has a path to the
// place where the text was read.
func servesPoison(t *testing.T, what string, v *streams.VerdictEntry) {
	t.Helper()
	if v.Verdict == streams.Allow {
		t.Errorf("%s: %s: %+v", what, v.Verdict, v.Reasons)
	}
	for _, r := range v.Reasons {
		if r.Verdict > streams.Allow && slices.Contains(r.Path, "observation:poison") && slices.Contains(r.Path,
			"source:https://weather.example/today") {
			return
		}
	}
	t.Errorf("%s: no path leads to the poison: %+v", what, v.Reasons)
}

func TestAfterAPoisonedReadOnlyWhatServesItIsHeld(t *testing.T) {
	long(t)
	t.Parallel()
	data, addr := t.TempDir(), freePort(t)
	up := func() *process { return start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr) }
	p := up()
	h := newHost(t, data)
	h.reads("s", "poison", fmt.Sprintf(poison, "eve@evil.example"))
	const calls = 300
	held := 0
	levels := map[string]int{}
	for i := range calls {
		tool, args := benign(i)
		v := h.decide(&streams.Action{Head: streams.Head{Session: "s"}, Tool: tool, Args: jsontext.Value(args)})
		levels[v.Level]++
		if v.Verdict == streams.Allow {
			continue
		}
		held++
		if v.Level == "L0" || v.Level == "L1" {
			t.Errorf("call %d, %s %s: %s at %s: %+v", i, tool, args, v.Verdict, v.Level, v.Reasons)
		}
	}
	t.Logf("%d of %d benign calls are held, levels %v", held, calls, levels)
	if 20*held > calls {
		t.Errorf("%d of %d benign calls are held, at most 5 %% may be", held, calls)
	}
	for _, l := range []string{"L0", "L1", "L2", "L3"} {
		if levels[l] < calls/10 {
			t.Errorf("only %d calls are of %s", levels[l], l)
		}
	}
	servesPoison(t, "with no decision declared", h.decide(serve("s", "eve@evil.example")))
	servesPoison(t, "in another session", h.decide(serve("other", "eve@evil.example")))
	// The action must still be held if it names a decision that cites no belief.
	if _, err := h.c.Publish(h.ctx(), streams.KindDec, "", &streams.Decision{Head: streams.Head{ID: "d1", Session: "s"},
		Decision: beliefs.Decision{Summary: "The owner has moved.", CitesNone: true}}); err != nil {
		t.Fatal(err)
	}
	covered := serve("s", "eve@evil.example")
	covered.Decision = "d1"
	servesPoison(t, "with a decision that cites nothing", h.decide(covered))
	p.interrupt()
	p = up()
	servesPoison(t, "after a restart", h.decide(serve("s", "eve@evil.example")))
	servesPoison(t, "after a restart, in a new session", h.decide(serve("new", "eve@evil.example")))
	p.kill()
	up()
	servesPoison(t, "after a kill", h.decide(serve("s", "eve@evil.example")))
	if v := h.decide(serve("s", "dana@corp.example")); v.Verdict != streams.Allow {
		t.Errorf("the twin that serves nothing: %+v", v)
	}
}

// heard returns a pipeline with a sentinel group named judge. The policy does not require this group, but its alerts
// count.
func heard(t *testing.T) (*pipeline, *judge) {
	t.Helper()
	p := newPipeline(t, embedded.Config{})
	return p, newJudge(t, p, "judge")
}

// onBelief returns an alert of the group judge on a belief, with the given effect.
func onBelief(kind, id, effect string) string {
	return strings.NewReplacer(`"kind":"action","id":"x"`, fmt.Sprintf(`"kind":%q,"id":%q`, kind,
		id)).Replace(alert(effect, "taken from a forged page"))
}

// TestAnAlertOnABeliefFollowsIt checks that actions are held if they depend on a belief that was found bad long after
// it was stored. The actions come from several agents and sessions. Actions that do not depend on the belief must not
// be held.
func TestAnAlertOnABeliefFollowsIt(t *testing.T) {
	long(t)
	t.Parallel()
	p, j := heard(t)
	remember := func(session, text string, from ...string) string {
		t.Helper()
		rep, err := p.c.Remember(p.ctx, "user", &streams.Memory{Head: streams.Head{Session: session}, Content: text,
			DerivedFrom: from})
		if err != nil {
			t.Fatal(err)
		}
		return rep.Entry.Belief.ID
	}
	bad := remember("s1", "The depot's gate code is kept by Marta of the night shift.")
	child := remember("s1", "Marta has to be asked for the gate code.", bad)
	good := remember("s1", "The depot closes at noon.")
	rep, err := p.c.Recall(p.ctx, &streams.Recall{Head: streams.Head{Session: "s2"}, Query: "gate code"})
	if err != nil || rep.Recall == nil || len(rep.Recall.Admitted) < 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	act := func(session, tool string, beliefs ...string) *streams.VerdictEntry {
		return p.decide(&streams.Action{Head: streams.Head{Session: session}, Tool: tool, Beliefs: beliefs})
	}
	// An earlier decision.
	if _, err := p.c.Publish(p.ctx, streams.KindDec, "", &streams.Decision{Head: streams.Head{ID: "d1", Session: "s1"},
		Decision: beliefs.Decision{Beliefs: []string{bad}}}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"s1", "s2", "s3"} {
		if v := act(s, "create_note", bad); v.Verdict != streams.Allow {
			t.Fatalf("before the alert, in %s: %+v", s, v)
		}
	}
	seq := p.entries(streams.TypeMemory)[0].Seq
	j.publish("judge", "alerts", seq, `{"group":"judge","digest":"external:judge-v1","alerts":[`+onBelief("belief", bad,
		"quarantine")+`]}`)
	time.Sleep(300 * time.Millisecond)
	find := func(v *streams.VerdictEntry) *streams.Reason {
		for i, r := range v.Reasons {
			if r.Rule == "judge" && slices.Contains(r.Path, "belief:"+bad) {
				return &v.Reasons[i]
			}
		}
		return nil
	}
	for _, c := range []struct {
		what string
		v    *streams.VerdictEntry
		want streams.Verdict
		path bool
	}{
		{"it cites the belief, in a session of its own", act("s9", "create_note", bad), streams.Hold, true},
		{"it carries out a decision that cites it",
			p.decide(&streams.Action{Head: streams.Head{Session: "s9"}, Tool: "create_note", Decision: "d1"}), streams.Hold,
			true},
		{"its session has recalled it", act("s2", "create_note"), streams.Hold, true},
		{"it cites what derives from it", act("s9", "create_note", child), streams.Hold, false},
		{"it reads, in the session that recalled it", act("s2", "read_file"), streams.Allow, true},
		{"it cites another belief", act("s9", "create_note", good), streams.Allow, false},
		{"the session that wrote it", act("s1", "create_note"), streams.Allow, false},
	} {
		if c.v.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %+v", c.what, c.v.Verdict, c.want, c.v.Reasons)
		}
		r := find(c.v)
		if (r != nil) != c.path && c.what != "it cites what derives from it" {
			t.Errorf("%s: path %v: %+v", c.what, r, c.v.Reasons)
		}
		if r != nil && (r.Path[0] != "action:"+c.v.ID || r.Entry == 0) {
			t.Errorf("%s: %+v", c.what, r)
		}
	}
}

// TestAnAlertOnAReadingIsNamedWhereArgumentsComeFromIt raises alerts on texts that were read in a session. A verdict on
// an action must name such an alert only if an argument of the action comes from the text.
func TestAnAlertOnAReadingIsNamedWhereArgumentsComeFromIt(t *testing.T) {
	long(t)
	t.Parallel()
	p, j := heard(t)
	read := func(id, source, text string) {
		t.Helper()
		if _, err := p.c.Observe(p.ctx, "web", &streams.Observation{Head: streams.Head{ID: id, Session: "s"},
			Tool: "web.fetch", Source: source, Content: text}); err != nil {
			t.Fatal(err)
		}
	}
	read("o1", "https://shop.example", "Our office: call +351 215 550 199, open from nine.")
	read("o2", "https://news.example", "Nothing has happened today. Our desk: +351 215 550 133.")
	act := func(to string) *streams.VerdictEntry {
		return p.decide(&streams.Action{Head: streams.Head{Session: "s"}, Tool: "create_note",
			Args: jsontext.Value(fmt.Sprintf(`{"text":%q}`, to))})
	}
	if v := act("call +351 215 550 199"); v.Verdict != streams.Allow {
		t.Fatalf("before the alert: %+v", v)
	}
	seq := p.entries(streams.TypeObservation)[0].Seq
	a := strings.Replace(onBelief("observation", "o1", "hold"), `"project":"demo"`,
		`"project":"demo","agent":"agent","observed_event_ids":["o1"]`, 1)
	j.publish("judge", "alerts", seq, `{"group":"judge","digest":"external:judge-v1","alerts":[`+a+`]}`)
	time.Sleep(300 * time.Millisecond)
	v := act("ask at +351 215 550 199")
	ok := false
	for _, r := range v.Reasons {
		ok = ok || r.Code == streams.CodeRests && r.Verdict == streams.Hold && slices.Contains(r.Path, "observation:o1") &&
			r.Path[len(r.Path)-1] == "source:https://shop.example" && len(r.Path) == 4
	}
	if v.Verdict != streams.Hold || !ok {
		t.Errorf("its argument comes from there: %+v", v)
	}
	for _, to := range []string{"ask +351 215 550 133", "buy milk"} {
		if v := act(to); v.Verdict != streams.Allow || len(v.Reasons) != 0 {
			t.Errorf("%q: %+v", to, v)
		}
	}
}
