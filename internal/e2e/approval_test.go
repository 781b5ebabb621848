package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"lazaret/client"
	"lazaret/internal/arbiter"
	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/internal/query"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// approving is a pipeline, with keys of people who may resolve holds in it.
type approving struct {
	*pipeline
	person *nats.Conn // connection of an approver
	trust  *keys.Trust
}

func newApproving(t *testing.T, cfg embedded.Config) *approving {
	t.Helper()
	p := newPipeline(t, cfg)
	trust, err := keys.LoadTrust(datafolder.TrustFile(p.data))
	if err != nil {
		t.Fatal(err)
	}
	return &approving{pipeline: p, person: connect(t, p.data, string(natsserver.RoleApprover)), trust: trust}
}

// key makes a key. If roles are given, it pins the key with these roles.
func (p *approving) key(name, agent string, roles ...keys.Role) note.Signer {
	p.t.Helper()
	private, public, err := keys.Generate(name)
	if err != nil {
		p.t.Fatal(err)
	}
	if len(roles) > 0 {
		if err := p.trust.Add(keys.Pin{Key: public, Roles: roles, Agent: agent}); err != nil {
			p.t.Fatal(err)
		}
	}
	s, err := note.NewSigner(private)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// activateTrust activates the pinned keys.
func (p *approving) activateTrust() {
	p.t.Helper()
	b, err := p.trust.Marshal()
	if err != nil {
		p.t.Fatal(err)
	}
	p.activate(streams.DoActivateTrust, b)
	if err := embedded.AwaitTrust(p.ctx, p.op, streams.Digest(b)); err != nil {
		p.t.Fatal(err)
	}
}

// held proposes an action that is held.
func (p *approving) held(id string) *streams.VerdictEntry {
	p.t.Helper()
	v := p.decide(&streams.Action{Head: streams.Head{ID: id, Session: "s"}, Tool: "send_email",
		Args: jsontext.Value(`{"to":"x@example.org","n":1.0}`)})
	if v.Verdict != streams.Hold || v.Hold == nil {
		p.t.Fatalf("%+v", v)
	}
	return v
}

func statementOn(v *streams.VerdictEntry) *approval.Statement {
	return &approval.Statement{Version: approval.Version, Project: "demo", Hold: v.Hold.ID, Revision: v.Hold.Revision,
		Action:   v.Digest,
		Decision: approval.Approve, Expires: time.Now().UTC().Add(10 * time.Minute).Truncate(time.Second),
		Nonce: approval.NewNonce()}
}

func signed(t *testing.T, s *approval.Statement, k note.Signer) string {
	t.Helper()
	b, err := s.Sign(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// signature splits a signed note. head is the note up to the signature. raw is the decoded signature: the key hash,
// then the bytes of the signature.
func signature(t *testing.T, msg string) (head string, raw []byte) {
	t.Helper()
	i := strings.LastIndexByte(msg, ' ') + 1
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(msg[i:]))
	if err != nil {
		t.Fatal(err)
	}
	return msg[:i], raw
}

// resolve sends a signed resolution of a hold, and returns the answer.
func (p *approving) resolve(hold, msg string) *streams.ResolveReply {
	p.t.Helper()
	subject, err := streams.ResolveSubject("demo", hold)
	if err != nil {
		p.t.Fatal(err)
	}
	body, err := streams.Marshal(streams.ResolveRequest{Note: msg})
	if err != nil {
		p.t.Fatal(err)
	}
	m, err := p.person.Request(subject, body, 20*time.Second)
	if err != nil {
		p.t.Fatal(err)
	}
	rep := new(streams.ResolveReply)
	if err := streams.Unmarshal(m.Data, rep); err != nil {
		p.t.Fatal(err)
	}
	return rep
}

func (p *approving) hold(id string) *arbiter.Hold {
	p.t.Helper()
	var page []arbiter.Hold
	if err := query.Ask(p.ctx, p.op, arbiter.AskHolds, streams.PartitionOf("demo"), arbiter.HoldsRequest{Project: "demo",
		ID: id}, &page); err != nil {
		p.t.Fatal(err)
	}
	if len(page) != 1 {
		p.t.Fatalf("%d holds of id %s", len(page), id)
	}
	return &page[0]
}

// now asks for the proposal with an id again, and returns its current verdict.
func (p *approving) now(id string) *streams.VerdictEntry {
	p.t.Helper()
	return p.decide(&streams.Action{Head: streams.Head{ID: id, Session: "s"}, Tool: "send_email",
		Args: jsontext.Value(`{"to":"x@example.org","n":1.0}`)})
}

func (p *approving) listen(subject string) *nats.Subscription {
	p.t.Helper()
	nc := p.agent
	if strings.Contains(subject, ".alert.") {
		nc = p.op
	}
	s, err := nc.SubscribeSync(subject)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		p.t.Fatal(err)
	}
	return s
}

func TestAnApprovalReleasesTheHoldOnceAndTheAgentHearsIt(t *testing.T) {
	t.Parallel()
	p := newApproving(t, embedded.Config{})
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	heard := p.listen("lz.live.demo.hold.agent.>")
	v := p.held("a1")
	if m, err := heard.NextMsg(5 * time.Second); err != nil || !strings.HasSuffix(m.Subject, v.Hold.ID+".open") {
		t.Fatalf("%v, %v", m, err)
	}
	s := statementOn(v)
	s.Reason = "I know the recipient"
	rep := p.resolve(v.Hold.ID, signed(t, s, alice))
	if rep.Error != nil || rep.State != streams.HoldApproved {
		t.Fatalf("%+v", rep)
	}
	m, err := heard.NextMsg(5 * time.Second)
	if err != nil || !strings.HasSuffix(m.Subject, v.Hold.ID+".approved") {
		t.Fatalf("%v, %v", m, err)
	}
	var h streams.HoldStateEntry
	if err := streams.Unmarshal(m.Data, &h); err != nil || h.ID != "a1" || h.Reason.Code != streams.CodeApproved ||
		h.Resolved == nil || h.Resolved.By != "alice" {
		t.Errorf("%+v, %v", h, err)
	}
	if v := p.now("a1"); v.Verdict != streams.Allow || !v.Again || v.Resolved == nil ||
		v.Resolved.Reason != "I know the recipient" || v.Answers != "" {
		t.Errorf("%+v", v)
	}
	// The approval counts for the approved action. Another action with the same id must be held.
	if v := p.decide(&streams.Action{Head: streams.Head{ID: "a1", Session: "s"}, Tool: "send_email",
		Args: jsontext.Value(`{"to":"eve@evil.example"}`)}); v.Verdict == streams.Allow || v.Resolved != nil {
		t.Errorf("another action under an approved id: %+v", v)
	}
	if v := p.held("a2"); v.Verdict != streams.Hold {
		t.Errorf("the same action again: %+v", v)
	}
	if h := p.hold(v.Hold.ID); h.State != streams.HoldApproved || h.Body != "" {
		t.Errorf("%+v", h)
	}
	n := 0
	for _, e := range p.entries(streams.TypeVerdict) {
		if strings.Contains(string(e.Body), `"LZ320"`) && !strings.Contains(string(e.Body), `"again":true`) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("released %d times", n)
	}
}

func TestARejectionIsADenyWithThePersonsReason(t *testing.T) {
	t.Parallel()
	p := newApproving(t, embedded.Config{})
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	heard := p.listen("lz.live.demo.hold.agent.*.rejected")
	v := p.held("a1")
	s := statementOn(v)
	s.Decision, s.Reason = approval.Reject, "we do not know them"
	if rep := p.resolve(v.Hold.ID, signed(t, s, alice)); rep.State != streams.HoldRejected {
		t.Fatalf("%+v", rep)
	}
	if m, err := heard.NextMsg(5 * time.Second); err != nil || !strings.Contains(string(m.Data), "we do not know them") {
		t.Errorf("%v, %v", m, err)
	}
	if v := p.now("a1"); v.Verdict != streams.Deny || !has(v, streams.CodeRejected) {
		t.Errorf("%+v", v)
	}
	// A rejected hold cannot be approved later.
	s = statementOn(v)
	if rep := p.resolve(v.Hold.ID, signed(t, s, alice)); rep.Check != string(approval.CheckSettled) {
		t.Errorf("%+v", rep)
	}
}

func TestEachBadApprovalLeavesTheHoldAndAnAlert(t *testing.T) {
	long(t)
	t.Parallel()
	// For a payment, the key must have the role approver:finance. For a mail, approver is enough.
	text := roomyPolicy(t, "tools:\n",
		"tools:\n  - name: payments\n    tools: [pay_invoice]\n    level: L4\n    approval: {role: approver:finance}\n")
	p := newApproving(t, embedded.Config{Policy: text})
	alice := p.key("alice", "", keys.RoleApprover)
	operator := p.key("olga", "", keys.RoleOperator)
	agent := p.key("agent", "demo/agent", keys.RoleApprover)
	unpinned := p.key("alice", "")
	p.activateTrust()
	used := p.held("used")
	once := signed(t, statementOn(used), alice)
	if rep := p.resolve(used.Hold.ID, once); rep.State != streams.HoldApproved {
		t.Fatalf("%+v", rep)
	}
	other := p.held("other")
	pay := p.decide(&streams.Action{Head: streams.Head{ID: "pay", Session: "s"}, Tool: "pay_invoice"})
	if pay.Hold == nil {
		t.Fatalf("%+v", pay)
	}
	for i, c := range []struct {
		what string
		on   *streams.VerdictEntry // nil: a new hold
		make func(v *streams.VerdictEntry) string
		want approval.Check
	}{
		{"forged", nil, func(v *streams.VerdictEntry) string {
			// Mallory's signature, with the name and the key hash of Alice.
			head, raw := signature(t, signed(t, statementOn(v), unpinned))
			_, hers := signature(t, signed(t, statementOn(v), alice))
			copy(raw, hers[:4])
			return head + base64.StdEncoding.EncodeToString(raw) + "\n"
		}, approval.CheckSignature},
		{"altered", nil, func(v *streams.VerdictEntry) string {
			s := statementOn(v)
			s.Decision = approval.Reject
			return strings.Replace(signed(t, s, alice), "reject", "approve", 1)
		}, approval.CheckSignature},
		{"written otherwise", nil, func(v *streams.VerdictEntry) string {
			m := signed(t, statementOn(v), alice)
			return m + m[strings.LastIndex(m, "— "):]
		}, approval.CheckForm},
		{"no note", nil, func(v *streams.VerdictEntry) string { return "approve " + v.Hold.ID }, approval.CheckForm},
		{"unpinned", nil, func(v *streams.VerdictEntry) string { return signed(t, statementOn(v), unpinned) },
			approval.CheckUnpinned},
		{"without the role", nil, func(v *streams.VerdictEntry) string { return signed(t, statementOn(v), operator) },
			approval.CheckRole},
		{"without the role that the policy asks for", pay, func(v *streams.VerdictEntry) string {
			return signed(t, statementOn(v), alice)
		}, approval.CheckRole},
		{"by the agent that asked", nil, func(v *streams.VerdictEntry) string { return signed(t, statementOn(v), agent) },
			approval.CheckSelf},
		{"replayed", used, func(*streams.VerdictEntry) string { return once }, approval.CheckReplayed},
		{"replayed on another hold", nil, func(*streams.VerdictEntry) string { return once }, approval.CheckHold},
		{"for another hold", nil, func(*streams.VerdictEntry) string { return signed(t, statementOn(other), alice) },
			approval.CheckHold},
		{"for another project's", nil, func(v *streams.VerdictEntry) string {
			s := statementOn(v)
			s.Project = "acme"
			return signed(t, s, alice)
		}, approval.CheckHold},
		{"for another action", nil, func(v *streams.VerdictEntry) string {
			s := statementOn(v)
			s.Action = "sha256:" + strings.Repeat("00", 32)
			return signed(t, s, alice)
		}, approval.CheckAction},
		{"expired", nil, func(v *streams.VerdictEntry) string {
			s := statementOn(v)
			s.Expires = time.Now().UTC().Add(-time.Second).Truncate(time.Second)
			return signed(t, s, alice)
		}, approval.CheckExpired},
		{"good for too long", nil, func(v *streams.VerdictEntry) string {
			s := statementOn(v)
			s.Expires = s.Expires.Add(48 * time.Hour)
			return signed(t, s, alice)
		}, approval.CheckExpired},
		{"of an older revision", nil, func(v *streams.VerdictEntry) string {
			s := statementOn(v)
			s.Revision = "0000000000000000"
			return signed(t, s, alice)
		}, approval.CheckRevision},
	} {
		t.Run(c.what, func(t *testing.T) {
			v := c.on
			if v == nil {
				v = p.held(fmt.Sprint("bad", i))
			}
			was := p.hold(v.Hold.ID)
			alerts := p.listen("lz.live.demo.alert.high.approval-" + string(c.want))
			before := len(p.entries(streams.TypeAlerts))
			rep := p.resolve(v.Hold.ID, c.make(v))
			if rep.State != "" || rep.Check != string(c.want) || rep.Error == nil || rep.Error.Code != streams.CodeApproval {
				t.Errorf("the answer is %+v", rep)
			}
			if is := p.hold(v.Hold.ID); is.State != was.State || is.Revision != was.Revision {
				t.Errorf("the hold was %s and is %s", was.State, is.State)
			}
			es := p.entries(streams.TypeAlerts)
			if len(es) != before+1 {
				t.Fatalf("%d alerts in the ledger", len(es)-before)
			}
			var a streams.AlertsEntry
			if err := streams.Unmarshal(es[len(es)-1].Body, &a); err != nil {
				t.Fatal(err)
			}
			if x := a.Alerts[0]; x.Severity != "high" || x.Subject.Kind != "approval" || x.Subject.ID != v.Hold.ID ||
				x.Rule != "approval-"+string(c.want) {
				t.Errorf("%+v", x)
			}
			if c.on == nil {
				if m, err := alerts.NextMsg(5 * time.Second); err != nil || !strings.Contains(string(m.Data), v.Hold.ID) {
					t.Errorf("live: %v, %v", m, err)
				}
			}
		})
	}
	if rep := p.resolve("h0000000000000000", once); rep.Check != string(approval.CheckHold) {
		t.Errorf("a hold that there is not: %+v", rep)
	}
	// After a new trust file without Alice's key is active, an approval by Alice must be refused.
	v := p.held("last")
	p.trust = new(keys.Trust)
	bob := p.key("bob", "", keys.RoleApprover, "approver:finance")
	p.activateTrust()
	if rep := p.resolve(v.Hold.ID, signed(t, statementOn(v), alice)); rep.Check != string(approval.CheckUnpinned) {
		t.Errorf("by a key that was unpinned: %+v", rep)
	}
	for _, v := range []*streams.VerdictEntry{v, pay} {
		if v.Tool == "pay_invoice" {
			if rep := p.resolve(v.Hold.ID, signed(t, statementOn(v), bob)); rep.State != streams.HoldApproved {
				t.Errorf("by finance: %+v", rep)
			}
		} else if rep := p.resolve(v.Hold.ID, signed(t, statementOn(v), bob)); rep.State != streams.HoldApproved {
			t.Errorf("by the one who is pinned: %+v", rep)
		}
	}
}

func TestATightenedHoldVoidsAnOlderApproval(t *testing.T) {
	long(t)
	t.Parallel()
	text := roomyPolicy(t, "groups: [core]", `groups: [core, {name: judge, digest: "external:judge-v1", deadline: 100ms}]`)
	p := newApproving(t, embedded.Config{Policy: text})
	j := newJudge(t, p.pipeline, "judge")
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	v := p.held("a1")
	old := signed(t, statementOn(v), alice)
	// The group that was silent when the hold was opened answers now, with a finding of its own.
	j.publish("judge", "assessment", v.Proposal, assess(`,"verdict":"hold","alerts":[`+alert("hold", "it smells")+`]`))
	natstest.Eventually(t, time.Minute, "another revision", func() bool {
		return p.hold(v.Hold.ID).Revision != v.Hold.Revision
	})
	if rep := p.resolve(v.Hold.ID, old); rep.Check != string(approval.CheckRevision) {
		t.Errorf("the older approval: %+v", rep)
	}
	h := p.hold(v.Hold.ID)
	if h.State != streams.HoldOpen || !has(&h.Verdict, streams.CodeRule) {
		t.Errorf("%+v", h)
	}
	if rep := p.resolve(v.Hold.ID, signed(t, statementOn(&h.Verdict), alice)); rep.State != streams.HoldApproved {
		t.Errorf("of the hold as it is: %+v", rep)
	}
	// The group's late answer is a deny. A deny is final, so an approval must be refused.
	v = p.held("a2")
	j.publish("judge", "assessment", v.Proposal, assess(`,"verdict":"deny"`))
	natstest.Eventually(t, time.Minute, "a deny", func() bool { return p.hold(v.Hold.ID).State == streams.HoldDenied })
	if rep := p.resolve(v.Hold.ID, signed(t, statementOn(v), alice)); rep.Check != string(approval.CheckSettled) {
		t.Errorf("of a deny: %+v", rep)
	}
	if v := p.now("a2"); v.Verdict != streams.Deny {
		t.Errorf("%+v", v)
	}
}

func TestAReleaseIsJudgedByThePolicyInForceThen(t *testing.T) {
	long(t)
	t.Parallel()
	p := newApproving(t, embedded.Config{})
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	v := p.held("a1")
	// A policy that differs only in a comment does not invalidate the hold's revision: an approval still counts.
	p.activate(streams.DoActivatePolicy, []byte(string(policy.Default)+"\n# the same\n"))
	if rep := p.resolve(v.Hold.ID, signed(t, statementOn(v), alice)); rep.State != streams.HoldApproved {
		t.Errorf("after a reload: %+v", rep)
	}
	v = p.held("a2")
	p.activate(streams.DoActivatePolicy,
		roomyPolicy(t, "tools:\n", "tools:\n  - name: no-mail\n    tools: [send_email]\n    level: L5\n"))
	if rep := p.resolve(v.Hold.ID, signed(t, statementOn(v), alice)); rep.State != streams.HoldDenied {
		t.Errorf("when the policy denies it by now: %+v", rep)
	}
	if v := p.now("a2"); v.Verdict != streams.Deny {
		t.Errorf("%+v", v)
	}
}

func TestTheAgentWithdrawsOrEditsItsOwnHold(t *testing.T) {
	t.Parallel()
	p := newApproving(t, embedded.Config{})
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	heard := p.listen("lz.live.demo.hold.agent.*.cancelled")
	cancelled := func(v *streams.VerdictEntry) {
		t.Helper()
		if m, err := heard.NextMsg(5 * time.Second); err != nil || !strings.Contains(m.Subject, v.Hold.ID) {
			t.Fatalf("%v, %v", m, err)
		}
		if rep := p.resolve(v.Hold.ID, signed(t, statementOn(v), alice)); rep.Check != string(approval.CheckSettled) {
			t.Errorf("%+v", rep)
		}
	}
	v := p.held("a1")
	p.publish("lz.in.demo.agent.out", `{"id":"o1","session":"s","action":"a1","status":"cancelled"}`)
	cancelled(v)
	if v := p.now("a1"); v.Verdict != streams.Hold || v.Hold != nil || !has(v, streams.CodeCancelled) {
		t.Errorf("%+v", v)
	}
	v = p.held("a2")
	edit := p.decide(&streams.Action{Head: streams.Head{ID: "a3", Session: "s"}, Tool: "send_email",
		Args: jsontext.Value(`{"to":"y@example.org"}`), Replaces: "a2"})
	if edit.Hold == nil || edit.Hold.ID == v.Hold.ID {
		t.Fatalf("%+v", edit)
	}
	cancelled(v)
	if rep := p.resolve(edit.Hold.ID, signed(t, statementOn(edit), alice)); rep.State != streams.HoldApproved {
		t.Errorf("the edit: %+v", rep)
	}
}

func TestAHeldMemoryIsBelievedByItsEvidenceOnceApproved(t *testing.T) {
	t.Parallel()
	p := newApproving(t, embedded.Config{})
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	// After a rejected observation, memory writes of the session must be held.
	p.publish("lz.in.demo.agent.obs.tool", `{"id":"bad","session":"s","content":7}`)
	rep, err := p.c.Remember(p.ctx, beliefs.OriginUser, &streams.Memory{Head: streams.Head{ID: "m1", Session: "s"},
		Key: "shoe", Content: "My shoe size is 43"})
	if err != nil || rep.Entry.Hold == nil || rep.Entry.Belief.Axes.Security != beliefs.Suspicious {
		t.Fatalf("%+v, %v", rep, err)
	}
	if r := p.resolve(rep.Entry.Hold.ID, signed(t, statementOn(rep.Entry), alice)); r.State != streams.HoldApproved {
		t.Fatalf("%+v", r)
	}
	got, err := p.c.Recall(p.ctx, &streams.Recall{Head: streams.Head{Session: "s2"}, Key: "shoe"})
	if err != nil || got.Recall == nil || len(got.Recall.Admitted) != 1 ||
		got.Recall.Admitted[0].Axes.Security != beliefs.Clean {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestHoldsAndResolutionsSurviveAndReplay restarts the pipeline twice: with the state of the arbiter, and after this
// state was deleted. Both times, the holds must be the same as before the restart.
func TestHoldsAndResolutionsSurviveAndReplay(t *testing.T) {
	t.Parallel()
	data, addr := t.TempDir(), freePort(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cfg := embedded.Config{Data: data, Listen: addr}
	boot := func() (*embedded.Pipeline, *approving) {
		t.Helper()
		up, err := embedded.Start(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		p := &approving{pipeline: &pipeline{t: t, data: data, ctx: ctx, agent: connect(t, data, "agent"),
			op: connect(t, data, "operator")}, person: connect(t, data, "approver")}
		if p.trust, err = keys.LoadTrust(datafolder.TrustFile(data)); err != nil {
			t.Fatal(err)
		}
		if p.c, err = client.New(p.agent, "demo", "agent"); err != nil {
			t.Fatal(err)
		}
		return up, p
	}
	snapshot := func(p *approving) string {
		t.Helper()
		var page []arbiter.Hold
		if err := query.Ask(ctx, p.op, arbiter.AskHolds, streams.PartitionOf("demo"), arbiter.HoldsRequest{Project: "demo"},
			&page); err != nil {
			t.Fatal(err)
		}
		b, err := streams.Marshal(page)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	up, p := boot()
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	done, open := p.held("done"), p.held("open")
	once := signed(t, statementOn(done), alice)
	if rep := p.resolve(done.Hold.ID, once); rep.State != streams.HoldApproved {
		t.Fatalf("%+v", rep)
	}
	p.resolve(open.Hold.ID, once)
	was := snapshot(p)
	for _, wipe := range []bool{false, true} {
		if err := up.Close(); err != nil {
			t.Fatal(err)
		}
		if wipe {
			if err := os.RemoveAll(datafolder.StateDir(data, string(natsserver.RoleArbiter))); err != nil {
				t.Fatal(err)
			}
		}
		up, p = boot()
		if is := snapshot(p); is != was {
			t.Errorf("wiped %t: the holds were\n%s\nand are\n%s", wipe, was, is)
		}
		// An approval that was used must not count a second time, even after the arbiter's state was built anew.
		if rep := p.resolve(done.Hold.ID, once); rep.Check != string(approval.CheckReplayed) {
			t.Errorf("wiped %t: %+v", wipe, rep)
		}
	}
	if rep := p.resolve(open.Hold.ID, signed(t, statementOn(open), alice)); rep.State != streams.HoldApproved {
		t.Errorf("after the restarts: %+v", rep)
	}
	if err := up.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTooManyOpenHoldsAreDenied(t *testing.T) {
	long(t)
	t.Parallel()
	p := newApproving(t, embedded.Config{Policy: []byte(strings.Replace(string(policy.Default), "max_open_holds: 20",
		"max_open_holds: 2", 1))})
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	first := p.held("a1")
	p.held("a2")
	if v := p.now("a3"); v.Verdict != streams.Deny || !has(v, streams.CodeHoldBudget) {
		t.Fatalf("%+v", v)
	}
	if rep := p.resolve(first.Hold.ID, signed(t, statementOn(first), alice)); rep.State != streams.HoldApproved {
		t.Fatalf("%+v", rep)
	}
	p.held("a4") // with one hold resolved, the number of open holds is below the limit again
}

// TestHoldsFromTheCommandLine resolves holds as a person does, with the commands and real processes.
func TestHoldsFromTheCommandLine(t *testing.T) {
	long(t)
	t.Parallel()
	data, addr := t.TempDir(), freePort(t)
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr)
	key := filepath.Join(t.TempDir(), "alice.key")
	must(t, data, "key", "gen", "alice", key, "--pin", "approver")
	id := func(out string) string {
		t.Helper()
		_, rest, ok := strings.Cut(out, "hold h")
		if !ok {
			t.Fatalf("no hold: %s", out)
		}
		return "h" + rest[:16]
	}
	ask := func(id string) (string, int) {
		return command(t, data, "decide", "send_email", "--id", id, "--args", `{"to":"bob@example.org"}`)
	}
	out, code := ask("m1")
	if code != 10 {
		t.Fatalf("exit %d: %s", code, out)
	}
	hold := id(out)
	// The key is in the trust file, but this file is not active yet. So the approval must be refused.
	if out, code := command(t, data, "holds", "approve", hold, "--key", key); code != 2 ||
		!strings.Contains(out, "LZ404") || !strings.Contains(out, "not pinned") {
		t.Errorf("exit %d: %s", code, out)
	}
	must(t, data, "key", "activate")
	if out := must(t, data, "holds", "show", hold); !strings.Contains(out, `"to": "bob@example.org"`) ||
		!strings.Contains(out, "the signature of an approval covers") {
		t.Errorf("%s", out)
	}
	if out := must(t, data, "holds", "approve", hold, "--key", key, "--reason", "it is Bob"); !strings.Contains(out,
		"APPROVED") {
		t.Errorf("%s", out)
	}
	if out, code := ask("m1"); code != 0 || !strings.Contains(out, "it is Bob") {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, code := command(t, data, "holds", "approve", hold, "--key", key); code != 2 ||
		!strings.Contains(out, "is approved") {
		t.Errorf("exit %d: %s", code, out)
	}
	if out := must(t, data, "alerts", "ls"); !strings.Contains(out, "approval-unpinned") {
		t.Errorf("%s", out)
	}
	out, _ = ask("m2")
	if out, code := command(t, data, "holds", "reject", id(out), "--key", key, "--reason", "not him"); code != 0 ||
		!strings.Contains(out, "REJECTED") {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, code := ask("m2"); code != 11 || !strings.Contains(out, "not him") {
		t.Errorf("exit %d: %s", code, out)
	}
	// holds ls must list three similar holds on one line, also after a restart.
	for _, id := range []string{"m3", "m4", "m5"} {
		ask(id)
	}
	up.interrupt()
	up = start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr)
	out = must(t, data, "holds", "ls")
	if lines := strings.Count(strings.TrimSpace(out), "\n"); lines != 2 || !strings.Contains(out, "3 ") ||
		!strings.Contains(out, "similar holds") {
		t.Errorf("%s", out)
	}
	// One command approves all similar holds, with one signature for each. It must be refused if their number is not
	// the one that the person gave.
	one := ""
	for _, f := range strings.Fields(out) {
		if len(f) == 17 && f[0] == 'h' {
			one = f
			break
		}
	}
	if out, code := command(t, data, "holds", "approve", one, "--alike", "2", "--key", key); code != 2 ||
		!strings.Contains(out, "3 open holds are similar to") {
		t.Errorf("exit %d: %s", code, out)
	}
	ask("m6")
	if out := must(t, data, "holds", "approve", one, "--alike", "4", "--key", key); strings.Count(out,
		"APPROVED  hold") != 4 || strings.Count(out, "the signature of an approval covers") != 4 {
		t.Errorf("%s", out)
	}
	for _, id := range []string{"m3", "m4", "m5", "m6"} {
		if out, code := ask(id); code != 0 {
			t.Errorf("%s: exit %d: %s", id, code, out)
		}
	}
	// An edited action must get a hold of its own. The hold of the original action is cancelled.
	out, _ = command(t, data, "decide", "send_email", "--id", "m7", "--args", `{"to":"bob@example.org","body":"x"}`)
	was := id(out)
	out, code = command(t, data, "holds", "edit", was, "--args", `{"to":"carol@example.org","body":"x"}`, "--id", "m8")
	if code != 10 || !strings.Contains(out, "+ {\"to\":\"carol@example.org\"") || id(out) == was {
		t.Fatalf("exit %d: %s", code, out)
	}
	if out := must(t, data, "holds", "show", was); !strings.Contains(out, "cancelled") {
		t.Errorf("%s", out)
	}
	if out, code := command(t, data, "holds", "edit", was, "--args", `{}`); code != 2 ||
		!strings.Contains(out, "is cancelled") {
		t.Errorf("exit %d: %s", code, out)
	}
	must(t, data, "holds", "approve", id(out), "--key", key, "-q")
	if out := must(t, data, "holds", "show", id(out)); !strings.Contains(out, ", approved, ") ||
		!strings.Contains(out, "carol") {
		t.Errorf("%s", out)
	}
	ask("m9")
	must(t, data, "holds", "cancel", "m9")
	natstest.Eventually(t, time.Minute, "a withdrawn hold", func() bool {
		return strings.Contains(must(t, data, "holds", "ls", "--state", "cancelled"), "send_email")
	})
	if out := must(t, data, "audit", "verify"); !strings.HasPrefix(out, "VERIFIED") {
		t.Errorf("%s", out)
	}
	up.interrupt()
}
