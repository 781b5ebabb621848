package embedded_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/embedded/embeddedtest"
	"lazaret/internal/hook"
	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func TestPromiseA10ASenderHearsItsOwnRejections(t *testing.T) {
	data := t.TempDir()
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	c := agent(t, p, data, "demo")
	heard := make(chan client.Rejected, 16)
	stop, err := c.Rejections(func(r client.Rejected) { heard <- r })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	submit := func(o *streams.Observation) (*streams.ObserveReply, error) {
		return c.Submit(t.Context(), beliefs.OriginWeb, o)
	}
	decide := func(session string) *streams.Reply {
		t.Helper()
		rep, err := c.Decide(t.Context(), &streams.Action{Head: streams.Head{Session: session}, Tool: "read_file",
			Args: []byte(`{"path":"notes.txt"}`)})
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}

	rep, err := submit(&streams.Observation{Head: streams.Head{ID: "o1", Session: "s"}, Content: "a harmless page"})
	if err != nil || rep.ID != "o1" || rep.Seq == 0 || rep.IntakeSeq == 0 || rep.Repeat {
		t.Fatalf("the answer is %+v, %v", rep, err)
	}
	if rep, err = submit(&streams.Observation{Head: streams.Head{ID: "o1", Session: "s"},
		Content: "a harmless page"}); err != nil || !rep.Repeat {
		t.Errorf("the answer to the repeat is %+v, %v", rep, err)
	}
	if rep, err = submit(&streams.Observation{Head: streams.Head{ID: "o1", Session: "s"},
		Content: "another page"}); err != nil || rep.Reuses != "o1" || rep.ID == "o1" {
		t.Errorf("the answer to another one under its id is %+v, %v", rep, err)
	}
	if v := decide("s"); v.Verdict != streams.Allow {
		t.Fatalf("before any rejection: %s %+v", v.Verdict, v.Entry.Reasons)
	}

	// Each observation is rejected for another reason: a field, its size or its session. The rejection must give that
	// reason.
	for _, bad := range []struct {
		session string
		o       streams.Observation
		code    streams.Code
		reason  string
	}{
		{"s", streams.Observation{Head: streams.Head{ID: "o2", Session: "s"}, Content: "x",
			Tool: strings.Repeat("t", streams.MaxNameLen+1)}, streams.CodeInvalid, "tool"},
		{"s", streams.Observation{Head: streams.Head{ID: "o3", Session: "s"},
			Content: strings.Repeat("x", streams.DefaultMaxEvent)}, streams.CodeTooLarge, "bytes"},
		{"another", streams.Observation{Head: streams.Head{ID: "o4", Session: "my session"}, Content: "x"},
			streams.CodeInvalid, "my session"},
	} {
		rep, err := submit(&bad.o)
		var e *client.Error
		if !errors.As(err, &e) || e.Code != bad.code || !strings.Contains(e.Message, bad.reason) || rep == nil ||
			!rep.Unseen || rep.ID != bad.o.ID || rep.Seq == 0 {
			t.Fatalf("%s: the answer is %+v, %v", bad.o.ID, rep, err)
		}
		select {
		case r := <-heard:
			if r.ID != bad.o.ID || r.Code != bad.code || r.Intake != rep.IntakeSeq || !r.Unseen {
				t.Errorf("heard %+v of %s", r, bad.o.ID)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing is heard of the rejection of %s", bad.o.ID)
		}
		v := decide(bad.session)
		if v.Verdict != streams.Hold || len(v.Entry.Reasons) == 0 {
			t.Fatalf("after %s: %s", bad.o.ID, v.Verdict)
		}
		why := v.Entry.Reasons[0]
		if why.Code != streams.CodeUnseen || !strings.Contains(why.Text, bad.o.ID) || !strings.Contains(why.Text,
			bad.reason) {
			t.Errorf("after %s: %s %s", bad.o.ID, why.Code, why.Text)
		}
		// The observation is published again with the same id, now in a valid form. It must be accepted, and the
		// session must no longer be held.
		good := streams.Observation{Head: streams.Head{ID: bad.o.ID, Session: bad.session}, Content: "what fits of it"}
		if _, err := submit(&good); err != nil {
			t.Fatal(err)
		}
		if v := decide(bad.session); v.Verdict != streams.Allow {
			t.Errorf("after %s was submitted again: %s %+v", bad.o.ID, v.Verdict, v.Entry.Reasons)
		}
	}

	// An observation with the same id but another origin is a different one, so the session must stay held. A new
	// session must not be held.
	if _, err := submit(&streams.Observation{Head: streams.Head{ID: "o5", Session: "s"}, Content: "x",
		Blocks: []streams.Block{{Text: "y"}}}); err == nil {
		t.Fatal("content and blocks are admitted")
	}
	if _, err := c.Submit(t.Context(), beliefs.OriginUser,
		&streams.Observation{Head: streams.Head{ID: "o5", Session: "s"}, Content: "x"}); err != nil {
		t.Fatal(err)
	}
	if v := decide("s"); v.Verdict != streams.Hold {
		t.Errorf("an observation of another origin clears the session: %s", v.Verdict)
	}
	if _, err := c.StartSession(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if v := decide("s"); v.Verdict != streams.Allow {
		t.Errorf("after the session was started again: %s %+v", v.Verdict, v.Entry.Reasons)
	}
}

// An agent must not get the messages about rejected events of another agent.
func TestAnAgentHearsNoRejectionsOfOthers(t *testing.T) {
	data := t.TempDir()
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	denied := make(chan string, 16)
	nc, err := nats.Connect(p.Server.URL(), nats.UserCredentials(natsserver.CredsFile(data, "agent")),
		nats.CustomInboxPrefix("_INBOX.demo.agent"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err.Error() }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	for _, subject := range []string{"lz.live.demo.rejected", "lz.live.demo.rejected.*", "lz.live.demo.rejected.other",
		"lz.live.demo.alert.>"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, 10*time.Second, "the server's refusal of "+subject, func() bool {
			select {
			case e := <-denied:
				return strings.Contains(e, subject)
			default:
				return false
			}
		})
	}
}

// Another agent directs the answer to a request to the subject of an agent's rejections. The answer names an event, as a
// rejection does.
func TestAnAnswerToAnotherAgentIsNoRejection(t *testing.T) {
	p, data := started(t, 0)
	heard := make(chan client.Rejected, 16)
	stop, err := agent(t, p, data, "demo").Rejections(func(r client.Rejected) { heard <- r })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	_, nc := embeddedtest.Agent(t, p, "demo", "other")
	for _, reply := range []string{"lz.live.demo.rejected.agent", "_INBOX.demo.other.x"} {
		sub, err := nc.SubscribeSync("_INBOX.demo.other.x")
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.PublishRequest("lz.svc.observe.demo.other.web", reply,
			[]byte(`{"id":"o1","session":"s","content":"x"}`)); err != nil {
			t.Fatal(err)
		}
		if reply == "_INBOX.demo.other.x" {
			if m, err := sub.NextMsg(10 * time.Second); err != nil || !strings.Contains(string(m.Data), "o1") {
				t.Fatalf("the answer is %v, %v", m, err)
			}
		}
	}
	// The client hears of this rejection after the answers.
	if _, err := agent(t, p, data, "demo").Submit(t.Context(), beliefs.OriginWeb,
		&streams.Observation{Head: streams.Head{ID: "o2", Session: "s"}, Content: "x",
			Tool: strings.Repeat("t", streams.MaxNameLen+1)}); err == nil {
		t.Fatal("the observation was admitted")
	}
	select {
	case r := <-heard:
		if r.ID != "o2" {
			t.Errorf("heard %+v", r)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the rejection was not heard")
	}
}

// started returns a pipeline in which ingest accepts only smaller events than the front.
func started(t *testing.T, maxEvent int) (*embedded.Pipeline, string) {
	t.Helper()
	data := t.TempDir()
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true,
		MaxEvent: maxEvent, FrontEvent: streams.DefaultMaxEvent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, data
}

// The front must use the configured size limit, as ingest does. It must refuse a larger event itself. An event that is
// smaller than this limit must be decided, even if it is larger than the default limit.
func TestTheFrontTakesEventsOfTheSizeThatIsConfigured(t *testing.T) {
	for _, c := range []struct {
		most, size int
		fits       bool
	}{{64 << 10, 100 << 10, false}, {64 << 10, 10 << 10, true}, {3 << 19, 5 << 18, true}} {
		data := t.TempDir()
		p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true,
			MaxEvent: c.most})
		if err != nil {
			t.Fatal(err)
		}
		_, err = agent(t, p, data, "demo").Decide(t.Context(), &streams.Action{Head: streams.Head{Session: "s"},
			Tool: "read_file",
			Args: fmt.Appendf(nil, `{"path":%q}`, strings.Repeat("x", c.size))})
		var e *client.Error
		if c.fits != (err == nil) || err != nil && (!errors.As(err, &e) || e.Code != streams.CodeTooLarge) {
			t.Errorf("an event of %d bytes where %d are taken: %v", c.size, c.most, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Ingest rejects a proposal that the front has accepted. The caller must get the code and the reason at once, without
// waiting for the timeout.
func TestPromiseC20ARejectedProposalIsAnsweredAtOnce(t *testing.T) {
	p, data := started(t, 64<<10)
	c := agent(t, p, data, "demo")
	long := strings.Repeat("x", 100<<10)
	for how, ask := range map[string]func() (*streams.Reply, error){
		"decide": func() (*streams.Reply, error) {
			return c.Decide(t.Context(), &streams.Action{Head: streams.Head{Session: "s"}, Tool: "read_file",
				Args: fmt.Appendf(nil, `{"path":%q}`, long)})
		},
		"remember": func() (*streams.Reply, error) {
			return c.Remember(t.Context(), beliefs.OriginUser, &streams.Memory{Head: streams.Head{Session: "s"}, Content: long})
		},
		"gate": func() (*streams.Reply, error) {
			r := &streams.Recall{Head: streams.Head{Session: "s"}}
			for range 4 {
				r.Candidates = append(r.Candidates, streams.GateCandidate{Content: long[:20<<10]})
			}
			return c.Gate(t.Context(), r)
		},
	} {
		rep, err := ask()
		var e *client.Error
		if !errors.As(err, &e) || e.Code != streams.CodeTooLarge || rep == nil || rep.Verdict != streams.Hold ||
			rep.Seq == 0 || rep.IntakeSeq == 0 {
			t.Errorf("%s: the answer is %+v, %v", how, rep, err)
		}
	}
	// A rejected proposal is not an observation. So the session must not be held, and a repeat must be answered.
	for range 2 {
		rep, err := c.Decide(t.Context(), &streams.Action{Head: streams.Head{ID: "twice", Session: "s"}, Tool: "read_file",
			Args: []byte(`{"path":"notes.txt"}`)})
		if err != nil || rep.Verdict != streams.Allow {
			t.Errorf("after the rejection: %+v, %v", rep, err)
		}
	}
}

// Ingest rejects the result of a tool. The hook must report that in the same call, and must say how the session can go
// on.
func TestPromiseA10AHookSaysThatAResultWasRejected(t *testing.T) {
	p, data := started(t, 64<<10)
	c := agent(t, p, data, "demo")
	cfg := hook.Config{Project: "demo", Agent: "agent", State: t.TempDir()}
	call := "call1"
	event := func(name, response string) (*hook.Answer, error) {
		e := &hook.Event{Session: "s1", Name: name, Tool: "Read", Call: call, Input: []byte(`{"file_path":"notes.txt"}`),
			Prompt: "Read my notes."}
		if response != "" {
			e.Response = fmt.Appendf(nil, "%q", response)
		}
		return hook.Ask(t.Context(), cfg, c, hook.ClaudeCode, e)
	}
	if _, err := event(hook.PostToolUse, "a short note"); err != nil {
		t.Fatal(err)
	}
	_, err := event(hook.PostToolUse, strings.Repeat("x", 100<<10))
	if err == nil || !strings.Contains(err.Error(), string(streams.CodeTooLarge)) || !strings.Contains(err.Error(),
		"lazaret session start") {
		t.Fatalf("of the rejected result the hook says: %v", err)
	}
	a, err := event(hook.PreToolUse, "")
	if err != nil || a == nil || !strings.Contains(a.Specific.Reason, string(streams.CodeUnseen)) {
		t.Errorf("a call of the session: %+v, %v", a, err)
	}
	if _, err := event(hook.SessionStart, ""); err != nil {
		t.Fatal(err)
	}
	cfg.State, call = t.TempDir(), "call2" // the held call stays held
	if a, err := event(hook.PreToolUse, ""); err != nil || a != nil && a.Specific.Decision == "deny" {
		t.Errorf("after the session started: %+v, %v", a, err)
	}
}

// An observation without an id and without a session is rejected. Then all sessions of the agent are held. The reason
// must say that another session name does not help, and what helps.
func TestPromiseA10TheReasonOfAnUnseenSessionSaysWhatHelps(t *testing.T) {
	p, data := started(t, 0)
	c := agent(t, p, data, "demo")
	subject, err := streams.IntakeSubject("demo", "agent", streams.KindObs, beliefs.OriginWeb)
	if err != nil {
		t.Fatal(err)
	}
	decide := func(session string) *streams.Reply {
		t.Helper()
		rep, err := c.Decide(t.Context(), &streams.Action{Head: streams.Head{Session: session}, Tool: "read_file",
			Args: []byte(`{"path":"notes.txt"}`)})
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	if _, err := c.PublishRaw(t.Context(), subject, []byte("no JSON")); err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"s", "another"} {
		v := decide(session)
		if v.Verdict != streams.Hold || !strings.Contains(v.Entry.Reasons[0].Text,
			"another session name alone does not help") ||
			!strings.Contains(v.Entry.Reasons[0].Text, "lazaret session start") {
			t.Errorf("session %s: %s, and the reasons do not say what helps: %+v",
				session, v.Verdict, v.Entry.Reasons)
		}
	}
	if _, err := c.StartSession(t.Context(), "third"); err != nil {
		t.Fatal(err)
	}
	for _, session := range []string{"s", "another", "third"} {
		if v := decide(session); v.Verdict != streams.Allow {
			t.Errorf("%s after a session started: %+v", session, v.Entry.Reasons)
		}
	}
	// A rejected observation with a session must hold only this session, and the reason must name the session.
	if _, err := c.PublishRaw(t.Context(), subject,
		[]byte(`{"id":"o1","session":"s","content":"x","blocks":[{"text":"y"}]}`)); err != nil {
		t.Fatal(err)
	}
	v := decide("s")
	if why := v.Entry.Reasons[0].Text; v.Verdict != streams.Hold ||
		!strings.Contains(why, "under the id o1 and origin web") || !strings.Contains(why, "lazaret session start s") {
		t.Errorf("the session of the rejected observation: %s, %s", v.Verdict, why)
	}
	if v := decide("another"); v.Verdict != streams.Allow {
		t.Errorf("another session is held: %+v", v.Entry.Reasons)
	}
}
