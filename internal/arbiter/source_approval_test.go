package arbiter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"lazaret/internal/activation"
	"lazaret/internal/proptest"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// show lets a session read a list that the user named, and returns the digest of the list.
func (b *bench) show(session, text string) string {
	o := &streams.ObservationEntry{EntryHead: streams.EntryHead{ID: fmt.Sprint("o", len(b.entries)), Agent: "agent",
		Session: session}, UserNamed: true, Blocks: []streams.BlockEntry{{Type: "text", Text: text}}}
	b.ingest(streams.TypeObservation, o)
	return o.ContentDigest()
}

// follow proposes an action that carries out a step of a source.
func (b *bench) follow(session string, g intent.Grounds, change ...func(*streams.ActionEntry)) *streams.VerdictEntry {
	b.t.Helper()
	g.Observations, g.Values = []string{"o0"}, []string{"to"}
	a := &streams.ActionEntry{EntryHead: streams.EntryHead{ID: fmt.Sprint("a", len(b.entries)), Agent: "agent",
		Session: session}, Action: beliefs.Action{Tool: "send_email", Contract: beliefs.Contract{Level: beliefs.L4}},
		Args: jsontext.Value(`{"to":"lena@bakery.example"}`), Shown: &streams.Shown{Foreign: 1, Order: 90},
		Sources: []intent.Grounds{g}}
	for _, c := range change {
		c(a)
	}
	out := b.ingest(streams.TypeAction, a)
	v := new(streams.VerdictEntry)
	if out == nil || streams.Unmarshal(out.Body, v) != nil {
		b.t.Fatalf("no verdict: %v", out)
	}
	return v
}

func (b *bench) sourceStatement(v *streams.VerdictEntry, digest string) *approval.Statement {
	s := b.statement(v)
	s.Source = &approval.Source{Digest: digest, Session: v.Session, Actions: 3, Expires: b.at.Add(time.Hour).
		Truncate(time.Second)}
	return s
}

// approvedBench returns a bench in which alice approved a source in session s. v is the verdict on the action with
// which she approved it, and digest is the digest of the source.
func approvedBench(t testing.TB, who *people) (b *bench, v *streams.VerdictEntry, digest string) {
	t.Helper()
	b = newBench(t, who.trust)
	digest = b.show("s", "mail lena")
	v = b.follow("s", intent.Grounds{Digest: digest})
	if v.Hold == nil || len(v.Sources) != 1 {
		t.Fatalf("%+v", v)
	}
	if b.resolve(v.Hold.ID, b.sign(b.sourceStatement(v, digest), who.alice)); b.state(v.Hold.ID) != streams.HoldApproved {
		t.Fatal("the approval is not obeyed")
	}
	return b, v, digest
}

func TestTheApprovalOfASourceCoversSoManyActionsAndNoMore(t *testing.T) {
	b, v, digest := approvedBench(t, newPeople(t))
	for i := range 3 {
		if got := b.follow("s", intent.Grounds{Digest: digest}); got.Verdict != streams.Allow || got.Covered == nil ||
			got.Covered.Number != i+1 || got.Covered.Hold != v.Hold.ID {
			t.Fatalf("action %d: %+v", i, got)
		}
	}
	if got := b.follow("s", intent.Grounds{Digest: digest}); got.Verdict != streams.Hold || got.Covered != nil {
		t.Errorf("the action after the approved number: %+v", got)
	}
	b.replayed()
}

func TestNothingButTheApprovedContentInItsSessionIsCovered(t *testing.T) {
	who := newPeople(t)
	for name, c := range map[string]func(b *bench, v *streams.VerdictEntry, digest string) *streams.VerdictEntry{
		"another version": func(b *bench, _ *streams.VerdictEntry, _ string) *streams.VerdictEntry {
			return b.follow("s", intent.Grounds{Digest: b.show("s", "mail lena and eve")})
		},
		"another session": func(b *bench, _ *streams.VerdictEntry, _ string) *streams.VerdictEntry {
			return b.follow("s2", intent.Grounds{Digest: b.show("s2", "mail lena")})
		},
		"after the session's start": func(b *bench, _ *streams.VerdictEntry, _ string) *streams.VerdictEntry {
			b.ingest(streams.TypeSession, &streams.SessionEntry{EntryHead: streams.EntryHead{ID: "x", Agent: "agent",
				Session: "s"}, Phase: "start"})
			return b.follow("s", intent.Grounds{Digest: b.show("s", "mail lena")})
		},
		"after its expiry": func(b *bench, _ *streams.VerdictEntry, digest string) *streams.VerdictEntry {
			b.at = b.at.Add(time.Hour)
			return b.follow("s", intent.Grounds{Digest: digest})
		},
		"after its withdrawal": func(b *bench, v *streams.VerdictEntry, digest string) *streams.VerdictEntry {
			s := b.statement(v)
			s.Decision, s.Source = approval.Withdraw, &approval.Source{Digest: digest, Session: "s"}
			if out := b.resolve(v.Hold.ID, b.sign(s, who.alice)); out == nil || !strings.Contains(string(out.Body), WithdrawnRule) {
				b.t.Fatalf("%+v", out)
			}
			return b.follow("s", intent.Grounds{Digest: digest})
		},
		"after the key was unpinned": func(b *bench, _ *streams.VerdictEntry, digest string) *streams.VerdictEntry {
			if err := activation.Put(b.st, streams.DoActivateTrust, newPeople(b.t).trust); err != nil {
				b.t.Fatal(err)
			}
			return b.follow("s", intent.Grounds{Digest: digest})
		},
		"under a policy without the section": func(b *bench, _ *streams.VerdictEntry, digest string) *streams.VerdictEntry {
			text := strings.Replace(strings.Replace(string(policy.Default), "groups: [core]", "groups: []", 1),
				policy.ShippedSources(), "", 1)
			if err := activation.Put(b.st, streams.DoActivatePolicy, []byte(text)); err != nil {
				b.t.Fatal(err)
			}
			return b.follow("s", intent.Grounds{Digest: digest})
		},
		"an argument that the list does not have": func(b *bench, _ *streams.VerdictEntry, d string) *streams.VerdictEntry {
			return b.follow("s", intent.Grounds{Digest: d, Strange: "to"})
		},
		"a limit": func(b *bench, _ *streams.VerdictEntry, d string) *streams.VerdictEntry {
			return b.follow("s", intent.Grounds{Digest: d, Limit: "money"})
		},
		"a payment": func(b *bench, _ *streams.VerdictEntry, d string) *streams.VerdictEntry {
			return b.follow("s", intent.Grounds{Digest: d}, func(a *streams.ActionEntry) { a.Tool = "pay_bill" })
		},
		"a deletion": func(b *bench, _ *streams.VerdictEntry, d string) *streams.VerdictEntry {
			return b.follow("s", intent.Grounds{Digest: d}, func(a *streams.ActionEntry) { a.Tool = "delete_file" })
		},
		"data above internal": func(b *bench, _ *streams.VerdictEntry, d string) *streams.VerdictEntry {
			return b.follow("s", intent.Grounds{Digest: d}, func(a *streams.ActionEntry) { a.Sensitivity = beliefs.Confidential })
		},
		"words of a marked memory": func(b *bench, _ *streams.VerdictEntry, d string) *streams.VerdictEntry {
			return b.follow("s", intent.Grounds{Digest: d}, func(a *streams.ActionEntry) { a.Shown.Marked = true })
		},
		"the host asks for a hold": func(b *bench, _ *streams.VerdictEntry, d string) *streams.VerdictEntry {
			return b.follow("s", intent.Grounds{Digest: d}, func(a *streams.ActionEntry) { a.Host = new(streams.Hold) })
		},
		"the host asks for a deny": func(b *bench, _ *streams.VerdictEntry, d string) *streams.VerdictEntry {
			return b.follow("s", intent.Grounds{Digest: d}, func(a *streams.ActionEntry) { a.Host = new(streams.Deny) })
		},
		"the session holds something unseen": func(b *bench, _ *streams.VerdictEntry, d string) *streams.VerdictEntry {
			return b.follow("s", intent.Grounds{Digest: d}, func(a *streams.ActionEntry) { a.Unseen = true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, v, digest := approvedBench(t, who)
			if got := b.follow("s", intent.Grounds{Digest: digest}); got.Verdict != streams.Allow {
				t.Fatalf("before: %+v", got)
			}
			if got := c(b, v, digest); got.Verdict == streams.Allow || got.Covered != nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestNoCombinationOfFaultsIsCovered takes an action that the approval of a source covers, and adds any set of faults.
// The action must be allowed if the set is empty, and not otherwise.
func TestNoCombinationOfFaultsIsCovered(t *testing.T) {
	who := newPeople(t)
	trust, err := keys.ParseTrust("trust", who.trust)
	if err != nil {
		t.Fatal(err)
	}
	var alice string
	for _, p := range trust.Pins() {
		if strings.HasPrefix(p.Key, "alice+") {
			alice = p.Key
		}
	}
	pol, err := policy.Compile("policy", policy.Default)
	if err != nil {
		t.Fatal(err)
	}
	without, err := policy.Compile("policy", []byte(strings.Replace(string(policy.Default), policy.ShippedSources(), "", 1)))
	if err != nil {
		t.Fatal(err)
	}
	type situation struct {
		p   *proposal
		v   *streams.VerdictEntry
		a   *grant
		pol *policy.Policy
	}
	path := func(id string) []string { return []string{"action:a", "observation:" + id, "source:list"} }
	more := func(s *situation, r streams.Reason) {
		s.v.Reasons = append(s.v.Reasons, r)
		s.v.Verdict = s.v.Verdict.Join(r.Verdict)
	}
	code := func(c streams.Code, v streams.Verdict) func(s *situation) {
		return func(s *situation) { more(s, streams.Reason{Code: c, Verdict: v}) }
	}
	tool := func(name string) func(s *situation) { return func(s *situation) { s.p.Tool = name } }
	faults := map[string]func(s *situation){
		"a deny of a listed rule": func(s *situation) {
			more(s, streams.Reason{Code: streams.CodeRule, Verdict: streams.Deny, Group: "core", Rule: "unrelated-change"})
		},
		"a deny of the floor": code(streams.CodeFloor, streams.Deny),
		"the host":            code(streams.CodeHost, streams.Hold),
		"unseen":              code(streams.CodeUnseen, streams.Hold),
		"silence":             code(streams.CodeSilent, streams.Hold),
		"a belief":            code(streams.CodeBelief, streams.Hold),
		"an older finding":    code(streams.CodeRests, streams.Hold),
		"a destination":       code(streams.CodeEgress, streams.Hold),
		"a resource":          code(streams.CodeProtected, streams.Hold),
		"confidence":          code(streams.CodeOver, streams.Hold),
		"another rule": func(s *situation) {
			more(s, streams.Reason{Code: streams.CodeRule, Verdict: streams.Hold, Group: "core", Rule: "secret-then-egress"})
		},
		"the rule of another group": func(s *situation) {
			more(s, streams.Reason{Code: streams.CodeRule, Verdict: streams.Hold, Group: "judge", Rule: "unrelated-change"})
		},
		"a finding on another source": func(s *situation) {
			more(s, streams.Reason{Code: streams.CodeRule, Verdict: streams.Hold, Group: "core", Rule: "action-from-instruction",
				Path: path("o2")})
		},
		"a finding on another agent's observation of the same id": func(s *situation) {
			more(s, streams.Reason{Code: streams.CodeRule, Verdict: streams.Hold, Group: "core", Rule: "action-from-instruction",
				Path: path("other/o1")})
		},
		"another source asks as well": func(s *situation) {
			s.p.Answers[0].Rests = append(s.p.Answers[0].Rests, streams.Rest{Observation: "o2", By: "instruction"})
		},
		"another agent's source asks": func(s *situation) {
			s.p.Answers[0].Rests = append(s.p.Answers[0].Rests, streams.Rest{Agent: "other", Observation: "o1", By: "instruction"})
		},
		"more dependencies than are kept": func(s *situation) {
			s.p.Answers[0].Rests = make([]streams.Rest, maxRests)
		},
		"more reasons than are kept": func(s *situation) { s.p.Answers[0].Reasons = make([]streams.Reason, maxReasons) },
		"a rule that failed":         func(s *situation) { s.p.Answers[0].Failed = true },
		"an ungrounded argument":     func(s *situation) { s.p.Sources[0].Strange = "to" },
		"a limit":                    func(s *situation) { s.p.Sources[0].Limit = "money" },
		"another digest":             func(s *situation) { s.p.Sources[0].Digest = "sha256:other" },
		"another session":            func(s *situation) { s.p.Session = "s2" },
		"another agent":              func(s *situation) { s.p.Agent = "other" },
		"another project":            func(s *situation) { s.p.Project = "acme" },
		"expired":                    func(s *situation) { s.a.Expires = epoch },
		"used up":                    func(s *situation) { s.a.Used = s.a.Actions },
		"a key that is not pinned":   func(s *situation) { s.a.Key = "alice+00000000+AAAA" },
		"the agent's own key": func(s *situation) {
			s.a.Key = trust.Pins()[slices.IndexFunc(trust.Pins(), func(p keys.Pin) bool { return p.Agent != "" })].Key
		},
		"a key without the role": func(s *situation) {
			s.a.Key = trust.Pins()[slices.IndexFunc(trust.Pins(), func(p keys.Pin) bool {
				return slices.Contains(p.Roles, keys.RoleOperator)
			})].Key
		},
		"a payment":       tool("pay_bill"),
		"a deletion":      tool("delete_file"),
		"rights":          tool("grant_access"),
		"a command":       tool("run_command"),
		"harm":            tool("leak_file"),
		"a list of tools": tool(streams.ApproveTools),
		"withdrawn":       func(s *situation) { s.p.Withdrawn = true },
		"a memory":        func(s *situation) { s.p.Type = streams.TypeMemory },
		"no section":      func(s *situation) { s.pol = without },
	}
	names := make([]string, 0, len(faults))
	for n := range faults {
		names = append(names, n)
	}
	slices.Sort(names)
	allowed := 0
	b := newBench(t, who.trust)
	proptest.CheckLess(t, func(rt *rapid.T) {
		s := &situation{pol: pol, a: &grant{ApprovedSource: streams.ApprovedSource{Digest: "sha256:list", Session: "s",
			Actions: rapid.IntRange(1, 5).Draw(rt, "actions"), Expires: epoch.Add(time.Hour)}, Hold: "h1", By: "alice", Key: alice},
			p: &proposal{Type: streams.TypeAction, Project: project, Agent: "agent", Session: "s", Tool: "send_email",
				Body: `{"to":"lena@bakery.example"}`, Answers: []answer{{Group: "core", Judged: true}},
				Sources: []intent.Grounds{{Digest: "sha256:list", Observations: []string{"o0", "o1"}}}},
			v: &streams.VerdictEntry{Verdict: streams.Hold, Reasons: []streams.Reason{{Code: streams.CodeFloor,
				Verdict: streams.Hold}}}}
		if rapid.Bool().Draw(rt, "rule") {
			more(s, streams.Reason{Code: streams.CodeRule, Verdict: streams.Hold, Group: "core", Rule: "action-from-instruction",
				Path: path("o1")})
			s.p.Answers[0].Rests = []streams.Rest{{Agent: "agent", Observation: "o1", By: "instruction"}}
		} else {
			more(s, streams.Reason{Code: streams.CodeRule, Verdict: streams.Hold, Group: "core", Rule: "unrelated-change",
				Path: path("o0")[:1]})
		}
		picked := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 4, rapid.ID).Draw(rt, "faults")
		for _, n := range picked {
			faults[n](s)
		}
		was := s.v.Verdict
		if err := b.st.Put(grantKey(project, "agent", "s", "sha256:list", "h1"), s.a); err != nil {
			rt.Fatal(err)
		}
		if err := b.fold.cover(b.st, s.p, s.pol, s.v, epoch.Add(time.Minute)); err != nil {
			rt.Fatal(err)
		}
		switch {
		case len(picked) > 0 && (s.v.Verdict != was || s.v.Covered != nil):
			rt.Fatalf("%v: %+v", picked, s.v)
		case len(picked) == 0 && s.v.Verdict != streams.Allow:
			rt.Fatalf("without a fault: %+v", s.v)
		case len(picked) == 0:
			allowed++
		}
	})
	if allowed == 0 {
		t.Error("no case was without a fault")
	}
}

// TestBadApprovalsOfASourceAreNotObeyed sends invalid approvals and withdrawals of a source. None
// releases the hold or changes what is covered.
func TestBadApprovalsOfASourceAreNotObeyed(t *testing.T) {
	who := newPeople(t)
	b := newBench(t, who.trust)
	r := rand.New(rand.NewPCG(7, 8))
	digest := b.show("s", "mail lena")
	victim := b.follow("s", intent.Grounds{Digest: digest})
	elsewhere := b.show("s2", "mail eve")
	good := b.sign(b.sourceStatement(victim, digest), who.alice)
	with := func(change func(s *approval.Statement)) func() string {
		return func() string {
			s := b.sourceStatement(victim, digest)
			change(s)
			return b.sign(s, who.alice)
		}
	}
	kinds := map[string]func() string{
		"altered": func() string {
			x := []byte(good)
			for string(x) == good {
				x[r.IntN(len(x))] = byte(' ' + r.IntN(95))
			}
			return string(x)
		},
		"unpinned":         func() string { return b.sign(b.sourceStatement(victim, digest), who.mallory) },
		"the agent's own":  func() string { return b.sign(b.sourceStatement(victim, digest), who.agent) },
		"wrong role":       func() string { return b.sign(b.sourceStatement(victim, digest), who.operator) },
		"another content":  with(func(s *approval.Statement) { s.Source.Digest = elsewhere }),
		"made-up content":  with(func(s *approval.Statement) { s.Source.Digest = fmt.Sprintf("sha256:%064x", r.Uint64()) }),
		"another session":  with(func(s *approval.Statement) { s.Source.Session = "s2" }),
		"another project":  with(func(s *approval.Statement) { s.Project = "acme" }),
		"too long":         with(func(s *approval.Statement) { s.Source.Expires = s.Source.Expires.Add(8 * time.Hour) }),
		"over":             with(func(s *approval.Statement) { s.Source.Expires = b.at.Add(-time.Hour).Truncate(time.Second) }),
		"too many actions": with(func(s *approval.Statement) { s.Source.Actions = 51 + r.IntN(1000) }),
		"outdated":         with(func(s *approval.Statement) { s.Revision = fmt.Sprintf("%016x", r.Uint64()) }),
		"another action":   with(func(s *approval.Statement) { s.Action = fmt.Sprintf("sha256:%064x", r.Uint64()) }),
		"a withdrawal of what was not approved": with(func(s *approval.Statement) {
			s.Decision, s.Source = approval.Withdraw, &approval.Source{Digest: digest, Session: "s"}
		}),
	}
	each := 100
	if testing.Short() {
		each = 10
	}
	for name, kind := range kinds {
		for range each {
			if out := b.resolve(victim.Hold.ID, kind()); out == nil || out.Type != streams.TypeAlerts {
				t.Fatalf("%s: %+v", name, out)
			}
		}
		if s := b.state(victim.Hold.ID); s != streams.HoldOpen {
			t.Fatalf("%s: the hold is %s", name, s)
		}
		if got := b.follow("s", intent.Grounds{Digest: digest}); got.Verdict == streams.Allow {
			t.Fatalf("%s: %+v", name, got)
		}
	}
	if b.resolve(victim.Hold.ID, good); b.state(victim.Hold.ID) != streams.HoldApproved {
		t.Fatal("the genuine one is not obeyed")
	}
	if got := b.follow("s", intent.Grounds{Digest: digest}); got.Verdict != streams.Allow {
		t.Fatalf("%+v", got)
	}
	// A replay of the approval, and withdrawals by others, change nothing.
	b.resolve(victim.Hold.ID, good)
	s := b.statement(victim)
	s.Decision, s.Source = approval.Withdraw, &approval.Source{Digest: digest, Session: "s"}
	b.resolve(victim.Hold.ID, b.sign(s, who.operator))
	if got := b.follow("s", intent.Grounds{Digest: digest}); got.Covered == nil || got.Covered.Number != 2 {
		t.Errorf("%+v", got)
	}
	b.replayed()
}
