package embedded_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/client"
	"lazaret/internal/embedded"
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
		rep, err := c.Decide(t.Context(), &streams.Action{Head: streams.Head{Session: session}, Tool: "read_file", Args: []byte(`{"path":"notes.txt"}`)})
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}

	rep, err := submit(&streams.Observation{Head: streams.Head{ID: "o1", Session: "s"}, Content: "a harmless page"})
	if err != nil || rep.ID != "o1" || rep.Seq == 0 || rep.IntakeSeq == 0 || rep.Repeat {
		t.Fatalf("the answer is %+v, %v", rep, err)
	}
	if rep, err = submit(&streams.Observation{Head: streams.Head{ID: "o1", Session: "s"}, Content: "a harmless page"}); err != nil || !rep.Repeat {
		t.Errorf("the answer to the repeat is %+v, %v", rep, err)
	}
	if rep, err = submit(&streams.Observation{Head: streams.Head{ID: "o1", Session: "s"}, Content: "another page"}); err != nil || rep.Reuses != "o1" || rep.ID == "o1" {
		t.Errorf("the answer to another one under its id is %+v, %v", rep, err)
	}
	if v := decide("s"); v.Verdict != streams.Allow {
		t.Fatalf("before any rejection: %s %+v", v.Verdict, v.Entry.Reasons)
	}

	// Rejected for a field, for its size, and for its session, each with its reason.
	for _, bad := range []struct {
		session string
		o       streams.Observation
		code    streams.Code
		reason  string
	}{
		{"s", streams.Observation{Head: streams.Head{ID: "o2", Session: "s"}, Content: "x", Tool: strings.Repeat("t", streams.MaxNameLen+1)}, streams.CodeInvalid, "tool"},
		{"s", streams.Observation{Head: streams.Head{ID: "o3", Session: "s"}, Content: strings.Repeat("x", streams.DefaultMaxEvent)}, streams.CodeTooLarge, "bytes"},
		{"another", streams.Observation{Head: streams.Head{ID: "o4", Session: "my session"}, Content: "x"}, streams.CodeInvalid, "my session"},
	} {
		rep, err := submit(&bad.o)
		var e *client.Error
		if !errors.As(err, &e) || e.Code != bad.code || !strings.Contains(e.Message, bad.reason) || rep == nil || !rep.Unseen || rep.ID != bad.o.ID || rep.Seq == 0 {
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
		if why.Code != streams.CodeUnseen || !strings.Contains(why.Text, bad.o.ID) || !strings.Contains(why.Text, bad.reason) {
			t.Errorf("after %s: %s %s", bad.o.ID, why.Code, why.Text)
		}
		// In valid form, under its id, it is judged, and the session goes on.
		good := streams.Observation{Head: streams.Head{ID: bad.o.ID, Session: bad.session}, Content: "what fits of it"}
		if _, err := submit(&good); err != nil {
			t.Fatal(err)
		}
		if v := decide(bad.session); v.Verdict != streams.Allow {
			t.Errorf("after %s was submitted again: %s %+v", bad.o.ID, v.Verdict, v.Entry.Reasons)
		}
	}

	// Another origin is another observation; a new session starts clean.
	if _, err := submit(&streams.Observation{Head: streams.Head{ID: "o5", Session: "s"}, Content: "x", Blocks: []streams.Block{{Text: "y"}}}); err == nil {
		t.Fatal("content and blocks are admitted")
	}
	if _, err := c.Submit(t.Context(), beliefs.OriginUser, &streams.Observation{Head: streams.Head{ID: "o5", Session: "s"}, Content: "x"}); err != nil {
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

// Another agent's rejections are not for it.
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
	nc, err := nats.Connect(p.Server.URL(), nats.UserCredentials(natsserver.CredsFile(data, "agent")), nats.CustomInboxPrefix("_INBOX.demo.agent"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err.Error() }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	for _, subject := range []string{"lz.live.demo.rejected", "lz.live.demo.rejected.*", "lz.live.demo.rejected.other", "lz.live.demo.alert.>"} {
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
