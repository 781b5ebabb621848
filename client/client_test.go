package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/client"
	"lazaret/internal/natstest"
	"lazaret/pkg/approval"
	"lazaret/streams"
)

// answering simulates a front that sends the given answers in order. It returns a function that
// lists the requests received.
func answering(t *testing.T, nc *nats.Conn, answers ...string) func() []string {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	sub, err := nc.Subscribe("lz.svc.decide.demo.agent", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		answer := answers[min(len(asked), len(answers)-1)]
		asked = append(asked, string(m.Data))
		if answer != "" {
			m.Respond(about(t, m.Data, answer))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sub.Unsubscribe() })
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
}

// about replaces ID and DIGEST in an answer by the id and the digest of the action in asked.
func about(t *testing.T, asked []byte, answer string) []byte {
	a := new(streams.Action)
	if err := streams.Unmarshal(asked, a); err != nil {
		t.Error(err)
	}
	digest, err := approval.ActionDigest("demo", "agent", a.Session, a.ID, a.Tool, a.Args)
	if err != nil {
		t.Error(err)
	}
	return []byte(strings.NewReplacer("ID", a.ID, "DIGEST", digest).Replace(answer))
}

// An answer to a different proposal (by type, id, agent or digest) is not accepted.
func TestPromiseA2AnAnswerToAnotherProposalIsAHold(t *testing.T) {
	s := natstest.Start(t)
	for name, answer := range map[string]string{
		"another digest": strings.Replace(allowed, "DIGEST", "sha256:00", 1),
		"no digest":      strings.Replace(allowed, "DIGEST", "", 1),
		"another type":   strings.Replace(allowed, `"action"`, `"memory"`, 1),
		"another id":     strings.Replace(allowed, "ID", "other", 1),
		"another agent":  strings.Replace(allowed, `"agent":"agent"`, `"agent":"other"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			asked := answering(t, s.Connect(), answer)
			cl, err := client.New(s.Connect(), "demo", "agent")
			if err != nil {
				t.Fatal(err)
			}
			rep, err := cl.Decide(t.Context(), &streams.Action{Tool: "read_file"})
			var e *client.Error
			if !errors.As(err, &e) || e.Code != "LZ208" || e.Temporary() || client.VerdictOf(rep, err) != streams.Hold {
				t.Errorf("%+v, %v", rep, err)
			}
			if n := len(asked()); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

const allowed = `{"verdict":"allow","ledger_seq":7,"intake_seq":3,"entry":{"proposal":6,"type":"action","id":"ID","agent":"agent","verdict":"allow","digest":"DIGEST","policy":"p","rules":"r","time":"2026-11-21T00:00:00Z"}}`

func failing(code streams.Code) string {
	return `{"verdict":"hold","error":{"code":"` + string(code) + `","message":"no"}}`
}

func TestWhatIsSentAgainHasTheSameIDAndBytes(t *testing.T) {
	s := natstest.Start(t)
	quick := client.WithRetry(client.Retry{Tries: 4, First: time.Millisecond, Most: 2 * time.Millisecond,
		Each: 300 * time.Millisecond})
	for name, c := range map[string]struct {
		answers []string
		tries   int
		code    streams.Code
	}{
		"shed, full, silent, then answered": {[]string{failing(streams.CodeShedding), failing(streams.CodeIntakeFull), "",
			allowed}, 4, ""},
		"what is wrong with it stays wrong": {[]string{failing(streams.CodeInvalid), allowed}, 1, streams.CodeInvalid},
		"the front has waited long enough":  {[]string{failing(streams.CodeTimeout), allowed}, 1, streams.CodeTimeout},
		"pending is no try": {[]string{failing(streams.CodePending), failing(streams.CodePending),
			failing(streams.CodePending), failing(streams.CodePending), failing(streams.CodePending),
			failing(streams.CodeInvalid)}, 6, streams.CodeInvalid},
		"never more than it is allowed":      {[]string{failing(streams.CodeUnavailable)}, 4, streams.CodeUnavailable},
		"what cannot be read is no verdict":  {[]string{`{"verdict":`}, 4, streams.CodeUnavailable},
		"an empty answer is not one either":  {[]string{`{}`}, 4, streams.CodeUnavailable},
		"nor is one that names no verdict":   {[]string{`{"entry":{"verdict":"allow"}}`}, 4, streams.CodeUnavailable},
		"and neither is one without a entry": {[]string{`{"verdict":"allow"}`}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			nc := s.Connect()
			asked := answering(t, nc, c.answers...)
			cl, err := client.New(s.Connect(), "demo", "agent", quick)
			if err != nil {
				t.Fatal(err)
			}
			rep, err := cl.Decide(context.Background(), &streams.Action{Tool: "read_file"})
			got := asked()
			if len(got) != c.tries {
				t.Fatalf("asked %d times: %v", len(got), got)
			}
			for _, body := range got {
				if body != got[0] {
					t.Errorf("sent %s and then %s", got[0], body)
				}
			}
			var e *client.Error
			want := streams.Hold
			if c.code == "" && c.tries == 4 {
				want = streams.Allow
			}
			if c.code == "" && err != nil || c.code != "" && (!errors.As(err, &e) || e.Code != c.code ||
				!errors.Is(err, client.ErrHold)) {
				t.Errorf("%v, %v", rep, err)
			}
			if v := client.VerdictOf(rep, err); v != want {
				t.Errorf("the verdict is %v", v)
			}
		})
	}
}

func TestSilenceAndALostConnectionAreHolds(t *testing.T) {
	s := natstest.Start(t)
	nc := s.Connect()
	cl, err := client.New(nc, "demo", "agent", client.WithRetry(client.Retry{Tries: 2, First: time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	rep, err := cl.Decide(ctx, &streams.Action{Tool: "read_file"})
	var e *client.Error
	if !errors.As(err, &e) || e.Code != streams.CodeUnavailable || client.VerdictOf(rep, err) != streams.Hold {
		t.Errorf("nobody there: %v, %v", rep, err)
	}
	nc.Close()
	rep, err = cl.Decide(ctx, &streams.Action{Tool: "read_file"})
	if !errors.Is(err, client.ErrHold) || client.VerdictOf(rep, err) != streams.Hold {
		t.Errorf("closed: %v, %v", rep, err)
	}
	if _, err := cl.Observe(ctx, "web", &streams.Observation{Content: "x"}); !errors.Is(err, client.ErrHold) {
		t.Errorf("closed: %v", err)
	}
}

func TestProposalsCarryWhatWasAcknowledged(t *testing.T) {
	s := natstest.Start(t)
	asked := answering(t, s.Connect(), allowed)
	cl, err := client.New(s.Connect(), "demo", "agent")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var seq uint64
	for range 3 {
		if seq, err = cl.Observe(ctx, "web", &streams.Observation{Content: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	a := &streams.Action{Tool: "read_file"}
	if _, err := cl.Decide(ctx, a); err != nil || seq == 0 || a.After != seq || cl.LastAcknowledged() != seq {
		t.Errorf("after %d, acknowledged %d, %v: %v", a.After, seq, asked(), err)
	}
	// If the caller set the proposal's id, or After, Decide leaves After as it is, so that a repeat has the same bytes.
	for _, b := range []*streams.Action{{Tool: "read_file", After: 1}, {Head: streams.Head{ID: "mine"},
		Tool: "read_file"}} {
		was := b.After
		if _, err := cl.Decide(ctx, b); err != nil || b.After != was {
			t.Errorf("after %d was replaced by %d, %v", was, b.After, err)
		}
	}
}
