package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/arbiter"
	"lazaret/internal/embedded"
	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// belief returns a belief in the form in which operators see it.
func (p *approving) belief(id string) *ingest.Belief {
	p.t.Helper()
	var page ingest.BeliefsAnswer
	if err := query.Ask(p.ctx, p.op, ingest.AskBeliefs, streams.PartitionOf("demo"),
		ingest.BeliefsRequest{Project: "demo", ID: id}, &page); err != nil {
		p.t.Fatal(err)
	}
	if len(page.Beliefs) != 1 {
		p.t.Fatalf("%d beliefs of id %s", len(page.Beliefs), id)
	}
	return &page.Beliefs[0]
}

// findings returns the keys of the findings on a belief that make recalls leave it out.
func (p *approving) findings(id string) (out []string) {
	p.t.Helper()
	b := p.belief(id)
	var all []arbiter.Finding
	if err := query.Ask(p.ctx, p.op, arbiter.AskFindings, streams.PartitionOf("demo"), arbiter.FindingsRequest{
		Project: "demo", Agent: b.Agent, Belief: b.BeliefRef}, &all); err != nil {
		p.t.Fatal(err)
	}
	for _, x := range all {
		out = append(out, x.Key)
	}
	slices.Sort(out)
	return out
}

// say sends a signed attestation of a belief: the decision d, for the belief's current revision. If d is a
// confirmation, findings are the keys of the findings that it clears.
func (p *approving) say(id string, d approval.Decision, by note.Signer, findings ...string) *streams.ResolveReply {
	p.t.Helper()
	b := p.belief(id)
	s := &approval.BeliefStatement{Version: approval.BeliefVersion, Project: "demo", Belief: id, Content: b.Digest,
		Revision: b.Revision, Decision: d,
		Expires: time.Now().UTC().Add(10 * time.Minute).Truncate(time.Second), Nonce: approval.NewNonce(),
		Reason: "I asked them", Findings: findings}
	msg, err := s.Sign(by)
	if err != nil {
		p.t.Fatal(err)
	}
	subject, err := streams.ResolveSubject("demo", id)
	if err != nil {
		p.t.Fatal(err)
	}
	body, err := streams.Marshal(streams.ResolveRequest{Note: string(msg), Belief: true})
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

func TestAPersonConfirmsAStagedBeliefAndItIsServed(t *testing.T) {
	t.Parallel()
	p := newApproving(t, embedded.Config{})
	alice, auditor := p.key("alice", "", keys.RoleApprover), p.key("auditor", "", keys.RoleAuditor)
	p.activateTrust()
	heard := p.listen("lz.live.demo.alert.>")
	id := p.remember("web", "m1", "The museum opens at ten on Sundays.")
	if b := p.belief(id); !b.Staged || b.Axes.Truth != beliefs.Unverified || b.Axes.Retrieval != beliefs.Restricted {
		t.Fatalf("%+v", b)
	}
	if rep := p.say(id, approval.Confirm, auditor); rep.Error == nil || rep.Error.Code != streams.CodeConfirmation ||
		rep.Check != string(approval.CheckRole) || rep.State != "" {
		t.Errorf("a key without the role: %+v", rep)
	}
	if m, err := heard.NextMsg(5 * time.Second); err != nil || !strings.HasSuffix(m.Subject,
		".alert.high.belief-word-role") {
		t.Errorf("%v, %v", m, err)
	}
	if rep := p.say(id, approval.Confirm, alice); rep.Error != nil || rep.State != string(approval.Confirm) ||
		rep.Entry == 0 {
		t.Fatalf("%+v", rep)
	}
	if m, err := heard.NextMsg(5 * time.Second); err != nil || !strings.HasSuffix(m.Subject, ".alert.info.belief-word") {
		t.Errorf("%v, %v", m, err)
	}
	b := p.belief(id)
	if b.Axes != (beliefs.Axes{Truth: beliefs.Supported, Retrieval: beliefs.Normal}) || b.Signed != "alice" ||
		b.Staged || b.Origin != beliefs.OriginWeb {
		t.Errorf("%+v", b)
	}
	rep, items := p.recall("r1", "museum Sundays")
	if rep.Verdict != streams.Allow || len(items) != 1 || items[id].ID != id || items[id].Axes.Truth != beliefs.Supported {
		t.Errorf("%+v", rep)
	}
	if n := len(p.entries(streams.TypeConfirmation)); n != 2 {
		t.Errorf("%d words are in the ledger", n)
	}
	// After the rejection, the belief is not served. Writing the same text again must be denied.
	if rep := p.say(id, approval.RejectBelief, alice); rep.Error != nil {
		t.Fatalf("%+v", rep)
	}
	if _, items := p.recall("r2", "museum Sundays"); len(items) != 0 {
		t.Errorf("a rejected belief is served: %+v", items)
	}
	again, err := p.c.Remember(p.ctx, beliefs.OriginWeb, &streams.Memory{Head: streams.Head{ID: "m2", Session: "other"},
		Key: "hours", Content: "the MUSEUM opens at  ten on sundays."})
	if err != nil || again.Verdict != streams.Deny {
		t.Fatalf("said again: %+v, %v", again, err)
	}
	if r := again.Entry.Reasons[0]; r.Code != streams.CodeTombstone || !strings.Contains(r.Text, "m1") {
		t.Errorf("%+v", r)
	}
}

// Two open holds depend on a belief, and a person quarantines the belief. Each hold must then get a new revision, with
// the quarantine as a reason. The agent must be told, holds ls must show it, and an approval of the earlier revision
// must release nothing.
func TestPromiseA6AFallIsSeenOnOpenHoldsAtOnce(t *testing.T) {
	long(t)
	t.Parallel()
	p := newApproving(t, embedded.Config{})
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	id := p.remember("user", "m1", "The museum opens at ten on Sundays.")
	var holds []*streams.VerdictEntry
	for _, action := range []string{"a1", "a2"} {
		v := p.decide(&streams.Action{Head: streams.Head{ID: action, Session: "s"}, Tool: "send_email",
			Args: jsontext.Value(`{"to":"x@example.org"}`), Beliefs: []string{id}})
		if v.Hold == nil {
			t.Fatalf("%+v", v)
		}
		holds = append(holds, v)
	}
	old := signed(t, statementOn(holds[0]), alice)
	heard := p.listen("lz.live.demo.hold.agent.*.open")
	if rep := p.say(id, approval.Quarantine, alice); rep.Error != nil {
		t.Fatalf("%+v", rep)
	}
	// The agent's feed may first deliver the holds in the state in which they were opened.
	for revised := make(map[string]bool); len(revised) < len(holds); {
		m, err := heard.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatalf("of %d holds %d are revised: %v", len(holds), len(revised), err)
		}
		v := new(streams.VerdictEntry)
		if err := streams.Unmarshal(m.Data, v); err != nil || v.Hold == nil {
			t.Fatalf("%s, %v", m.Data, err)
		}
		if has(v, streams.CodeBelief) {
			revised[v.Hold.ID] = true
		}
	}
	var page []arbiter.Hold
	if err := query.Ask(p.ctx, p.op, arbiter.AskHolds, streams.PartitionOf("demo"), arbiter.HoldsRequest{Project: "demo",
		State: streams.HoldOpen}, &page); err != nil {
		t.Fatal(err)
	}
	for _, v := range holds {
		i := slices.IndexFunc(page, func(h arbiter.Hold) bool { return h.ID == v.Hold.ID })
		if i < 0 || page[i].Revision == v.Hold.Revision || !has(&page[i].Verdict, streams.CodeBelief) {
			t.Errorf("%s: the list says %+v", v.ID, page)
		}
	}
	if rep := p.resolve(holds[0].Hold.ID, old); rep.Check != string(approval.CheckRevision) {
		t.Errorf("%+v", rep)
	}
	if h := p.hold(holds[0].Hold.ID); h.State != streams.HoldOpen {
		t.Errorf("%+v", h)
	}
}
