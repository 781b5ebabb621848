package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/natstest"
	"lazaret/internal/query"
	"lazaret/internal/wire"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// pipeline is a complete pipeline in this process, with a client for the agent.
type pipeline struct {
	t     *testing.T
	data  string
	agent *nats.Conn
	c     *client.Client
	js    jetstream.JetStream // of the operator
	op    *nats.Conn
	ctx   context.Context
}

func newPipeline(t *testing.T, cfg embedded.Config) *pipeline {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	cfg.Data, cfg.Listen = t.TempDir(), "127.0.0.1:0"
	p, err := embedded.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	pl := &pipeline{t: t, data: cfg.Data, agent: connect(t, cfg.Data, "agent"), op: connect(t, cfg.Data, "operator"),
		ctx: ctx}
	if pl.c, err = client.New(pl.agent, "demo", "agent"); err != nil {
		t.Fatal(err)
	}
	if pl.js, err = jetstream.New(pl.op); err != nil {
		t.Fatal(err)
	}
	return pl
}

func (p *pipeline) decide(a *streams.Action) *streams.VerdictEntry {
	p.t.Helper()
	rep, err := p.c.Decide(p.ctx, a)
	if err != nil {
		p.t.Fatal(err)
	}
	return rep.Entry
}

func read(session string) *streams.Action {
	return &streams.Action{Head: streams.Head{Session: session}, Tool: "read_file"}
}

// publish publishes bytes to the intake with the agent's credential. It returns their intake sequence.
func (p *pipeline) publish(subject, body string) uint64 {
	p.t.Helper()
	js, err := jetstream.New(p.agent)
	if err != nil {
		p.t.Fatal(err)
	}
	ack, err := js.Publish(p.ctx, subject, []byte(body))
	if err != nil {
		p.t.Fatal(err)
	}
	return ack.Sequence
}

// entries returns the entries of a type that are in the ledger now.
func (p *pipeline) entries(typ streams.Type) []streams.Entry {
	p.t.Helper()
	st, err := p.js.Stream(p.ctx, streams.LedgerStream)
	if err != nil {
		p.t.Fatal(err)
	}
	var out []streams.Entry
	for seq := uint64(1); seq <= st.CachedInfo().State.LastSeq; seq++ {
		m, err := st.GetMsg(p.ctx, seq)
		if err != nil {
			p.t.Fatal(err)
		}
		entries, err := wire.RawEntries(m)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, e := range entries {
			if e.Type == typ {
				out = append(out, e)
			}
		}
	}
	return out
}

func has(v *streams.VerdictEntry, code streams.Code) bool {
	for _, r := range v.Reasons {
		if r.Code == code {
			return true
		}
	}
	return false
}

func TestARejectedObservationMakesItsSessionUnseen(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	live, err := p.op.SubscribeSync("lz.live.demo.rejected")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.op.Flush(); err != nil {
		t.Fatal(err)
	}
	bad := `{"id":"o1","session":"s1","content":7}`
	p.publish("lz.in.demo.agent.obs.tool", bad)
	if v := p.decide(read("s1")); v.Verdict != streams.Hold || !has(v, streams.CodeUnseen) {
		t.Errorf("in the session with unseen input: %+v", v)
	}
	if v := p.decide(read("s2")); v.Verdict != streams.Allow {
		t.Errorf("in another session: %+v", v)
	}
	es := p.entries(streams.TypeRejected)
	if len(es) != 1 {
		t.Fatalf("%d rejected entries", len(es))
	}
	var r streams.RejectedEntry
	if err := streams.Unmarshal(es[0].Body, &r); err != nil {
		t.Fatal(err)
	}
	if string(r.Raw) != bad || r.Code != streams.CodeMalformed || !r.Unseen || r.Session != "s1" {
		t.Errorf("the entry is %+v", r)
	}
	m, err := live.NextMsg(5 * time.Second)
	if err != nil || !strings.Contains(string(m.Data), string(streams.CodeMalformed)) || strings.Contains(string(m.Data),
		base64.StdEncoding.EncodeToString([]byte(bad))) {
		t.Errorf("the live copy is %v, %v", m, err)
	}
	// The observation was rejected, and its bytes name no session. So every session of the agent may have seen the
	// content.
	p.publish("lz.in.demo.agent.obs.tool", "\xff\xfe not JSON")
	if v := p.decide(read("s2")); !has(v, streams.CodeUnseen) {
		t.Errorf("after bytes without a session: %+v", v)
	}
	if _, err := p.c.Publish(p.ctx, streams.KindSession, "", &streams.Session{Head: streams.Head{Session: "s3"},
		Phase: "start"}); err != nil {
		t.Fatal(err)
	}
	if v := p.decide(read("s3")); v.Verdict != streams.Allow {
		t.Errorf("in a new session: %+v", v)
	}
	// An event that is larger than the limit but not too large for the stream must be rejected. The partition must go
	// on. (The agent's credential does not permit unknown kinds and origins, so these are not tested here.)
	p.publish("lz.in.demo.agent.obs.tool", `{"id":"big","session":"s4","content":"`+strings.Repeat("x",
		streams.DefaultMaxEvent)+`"}`)
	if v := p.decide(read("s4")); !has(v, streams.CodeUnseen) {
		t.Errorf("after an oversized observation: %+v", v)
	}
	if v := p.decide(read("s5")); v.Verdict != streams.Allow {
		t.Errorf("the partition does not go on: %+v", v)
	}
}

func TestAServiceRefusesWithACodeAndJournalsNothing(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	before := len(p.entries(streams.TypeRejected))
	var le *client.Error
	if _, err := p.c.Decide(p.ctx, &streams.Action{}); !errors.As(err, &le) || le.Code != streams.CodeInvalid {
		t.Errorf("an action without a tool: %v", err)
	}
	m, err := p.agent.Request("lz.svc.decide.demo.agent", []byte("{"), 5*time.Second)
	if err != nil || m.Header.Get("Nats-Service-Error-Code") != string(streams.CodeMalformed) ||
		!strings.Contains(string(m.Data), `"verdict":"hold"`) {
		t.Errorf("no JSON: %+v, %v", m, err)
	}
	if n := len(p.entries(streams.TypeRejected)); n != before {
		t.Errorf("%d entries for what was refused to its caller", n-before)
	}
}

func TestTheSameRequestTwiceIsOneProposal(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	a := func() *streams.Action {
		return &streams.Action{Head: streams.Head{ID: "a1", Session: "s"}, Tool: "send_email",
			Args: jsontext.Value(`{"to":"x@example.org"}`)}
	}
	first, second := p.decide(a()), p.decide(a())
	if second.Verdict != first.Verdict || !second.Again || second.Hold == nil || *second.Hold != *first.Hold ||
		second.Proposal != first.Proposal {
		t.Errorf("first %+v, second %+v", first, second)
	}
	if n := len(p.entries(streams.TypeAction)); n != 1 {
		t.Errorf("%d proposals", n)
	}
	// An action is sent with the id of another action. It must not get that action's verdict. It must be judged by
	// itself, under another id.
	other := p.decide(&streams.Action{Head: streams.Head{ID: "b1", Session: "s"}, Tool: "read_file"})
	if other.Verdict != streams.Allow {
		t.Fatalf("%+v", other)
	}
	b2 := &streams.Action{Head: streams.Head{ID: "b1", Session: "s"}, Tool: "delete_everything"}
	swapped, err := p.c.Decide(p.ctx, b2)
	if err != nil || swapped.Verdict == streams.Allow || swapped.Entry.Tool != b2.Tool || swapped.Entry.Reuses != "b1" ||
		swapped.Entry.ID == "b1" || swapped.Entry.Level == "" || has(swapped.Entry, streams.CodeTaken) {
		t.Errorf("another action under an allowed id: %+v, %v", swapped, err)
	}
}

func TestAProposalFromAnotherIntakesFutureIsHeld(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	for _, after := range []uint64{1 << 40, 1<<44 + 1, 1 << 53} {
		a := read("s")
		a.After = after
		if v := p.decide(a); v.Verdict != streams.Hold || !has(v, streams.CodeRestored) {
			t.Errorf("after %d: %+v", after, v)
		}
	}
	b := read("s")
	b.After = p.publish("lz.in.demo.agent.obs.tool", `{"id":"o1","session":"s","content":"fine"}`)
	if v := p.decide(b); v.Verdict != streams.Allow {
		t.Errorf("with what was acknowledged: %+v", v)
	}
}

func TestAMemoryIsWorthWhatItDerivesFrom(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	if _, err := p.c.Observe(p.ctx, "web", &streams.Observation{Head: streams.Head{ID: "page", Session: "s"},
		Tool: "web.fetch", Content: "The fair opens on Monday."}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		origin  beliefs.Origin
		parents []string
		want    beliefs.Origin
		truth   beliefs.Truth
	}{
		{"user", nil, "user", beliefs.Supported},
		{"agent", nil, "agent", beliefs.Unverified},
		{"user", []string{"page"}, "web", beliefs.Unverified},
		{"agent", []string{"page"}, "web", beliefs.Unverified},
		{"user", []string{"nobody-knows"}, "web", beliefs.Unverified},
		{"document", nil, "document", beliefs.Unverified},
	} {
		rep, err := p.c.Remember(p.ctx, c.origin, &streams.Memory{Head: streams.Head{Session: "s"},
			Content: "It opens on Monday, they say. " + string(c.origin), DerivedFrom: c.parents})
		if err != nil {
			t.Fatal(err)
		}
		if b := rep.Entry.Belief; rep.Verdict != streams.Allow || b == nil || b.Origin != c.want || b.Axes.Truth != c.truth {
			t.Errorf("by %s from %v: %s %+v", c.origin, c.parents, rep.Verdict, b)
		}
	}
	rep, err := p.c.Recall(p.ctx, &streams.Recall{Head: streams.Head{Session: "tomorrow"}, Query: "monday"})
	if err != nil || rep.Recall == nil {
		t.Fatalf("%+v, %v", rep, err)
	}
	if len(rep.Recall.Admitted) != 1 || rep.Recall.Admitted[0].Origin != "user" {
		t.Errorf("admitted: %+v", rep.Recall.Admitted)
	}
	for _, x := range rep.Recall.ContextOnly {
		if x.Scope != beliefs.ContextOnly {
			t.Errorf("%s is served with scope %v", x.ID, x.Scope)
		}
	}
	// A context_only belief cannot steer an action.
	v := p.decide(&streams.Action{Head: streams.Head{Session: "tomorrow"}, Tool: "update_calendar",
		Beliefs: []string{rep.Recall.ContextOnly[0].ID}})
	if v.Verdict == streams.Allow {
		t.Errorf("an action on a context_only belief: %+v", v)
	}
	if v := p.decide(&streams.Action{Head: streams.Head{Session: "tomorrow"}, Tool: "update_calendar",
		Beliefs: []string{rep.Recall.Admitted[0].ID}}); v.Verdict != streams.Allow {
		t.Errorf("an action on the user's word: %+v", v)
	}
	if v := p.decide(&streams.Action{Head: streams.Head{Session: "tomorrow"}, Tool: "update_calendar",
		Beliefs: []string{"b-made-up"}}); v.Verdict == streams.Allow || !has(v, streams.CodeBelief) {
		t.Errorf("an action on a belief that nobody knows: %+v", v)
	}
}

func TestUnsignedCommandsChangeNothing(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, embedded.Config{})
	var was ingest.ActiveAnswer
	if err := query.Ask(p.ctx, p.op, ingest.AskActive, 0, struct{}{}, &was); err != nil {
		t.Fatal(err)
	}
	sk, _, err := note.GenerateKey(nil, "lazaret-operator") // the right name, another key
	if err != nil {
		t.Fatal(err)
	}
	mallory, err := note.NewSigner(sk)
	if err != nil {
		t.Fatal(err)
	}
	permissive := strings.Replace(string(policy.Default), "mode: enforce", "mode: learn", 1)
	if err := embedded.Activate(p.ctx, p.op, mallory, streams.DoActivatePolicy, []byte(permissive)); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, time.Minute, "sixteen refusals", func() bool {
		return len(p.entries(streams.TypeRejected)) == streams.Partitions
	})
	for _, e := range p.entries(streams.TypeRejected) {
		var r streams.RejectedEntry
		if err := streams.Unmarshal(e.Body, &r); err != nil || r.Code != streams.CodeSignature {
			t.Errorf("the refusal is %+v, %v", r, err)
		}
	}
	var is ingest.ActiveAnswer
	if err := query.Ask(p.ctx, p.op, ingest.AskActive, 0, struct{}{}, &is); err != nil || is != was {
		t.Errorf("in force were %+v and are %+v, %v", was, is, err)
	}
}

func TestLearnModeRecordsAndSaysSo(t *testing.T) {
	t.Parallel()
	learn := strings.Replace(string(policy.Default), "mode: enforce", "mode: learn", 1)
	p := newPipeline(t, embedded.Config{Policy: []byte(learn)})
	v := p.decide(&streams.Action{Head: streams.Head{Session: "s"}, Tool: "send_email"})
	if v.Verdict != streams.Allow || !v.Learn || v.Would == nil || *v.Would != streams.Hold || !has(v, streams.CodeLearn) {
		t.Errorf("%+v", v)
	}
}

func TestAHoldExpiresAndIsNotDenied(t *testing.T) {
	t.Parallel()
	text := strings.Replace(string(policy.Default), "hold_expiry: 24h", "hold_expiry: 1s", 1)
	p := newPipeline(t, embedded.Config{Policy: []byte(text)})
	expired, err := p.agent.SubscribeSync("lz.live.demo.hold.agent.*.expired")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.agent.Flush(); err != nil {
		t.Fatal(err)
	}
	v := p.decide(&streams.Action{Head: streams.Head{Session: "s"}, Tool: "send_email"})
	if v.Hold == nil {
		t.Fatalf("%+v", v)
	}
	m, err := expired.NextMsg(30 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var h streams.HoldStateEntry
	if err := streams.Unmarshal(m.Data, &h); err != nil || h.Hold != v.Hold.ID || h.State != "expired" ||
		h.Reason.Verdict == streams.Deny {
		t.Errorf("%+v, %v", h, err)
	}
	// No other event comes in this partition. So only the due entry can have caused the change.
	if n := len(p.entries(streams.TypeDue)); n != 1 {
		t.Errorf("%d due entries", n)
	}
}
