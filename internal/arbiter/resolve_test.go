package arbiter

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/activation"
	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

const project = "demo"

// bench runs the arbiter's fold without a server. It stores the entries and the outputs.
type bench struct {
	t       testing.TB
	fold    *Fold
	st      *stage.State
	trust   []byte
	at      time.Time
	entries []*streams.Entry
	out     []*stage.Output // by entry; nil if there was none
}

func newBench(t testing.TB, trust []byte, more ...string) *bench {
	t.Helper()
	off, err := stage.OpenOffline()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { off.Close() })
	b := &bench{t: t, st: off.State(streams.PartitionOf(project)), trust: trust, at: time.Date(2026, 11, 21, 10, 0, 0, 0,
		time.UTC),
		fold: NewFold(new(keys.Trust).Verifiers(keys.RoleOperator), slog.New(slog.DiscardHandler))}
	text := strings.Replace(string(policy.Default), "groups: [core]", "groups: []", 1) + strings.Join(more, "")
	for do, bundle := range map[string][]byte{streams.DoActivatePolicy: []byte(text), streams.DoActivateTrust: trust} {
		if err := activation.Put(b.st, do, bundle); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// step folds an entry and the entries that the arbiter adds because of it.
func (b *bench) step(e *streams.Entry) *stage.Output {
	b.t.Helper()
	e.Seq, e.Time, e.Partition = uint64(len(b.entries)+1), b.at, streams.PartitionOf(project)
	out, err := b.fold.Step(b.st, e)
	if err != nil {
		b.t.Fatalf("entry %d: %v", e.Seq, err)
	}
	b.entries, b.out = append(b.entries, e), append(b.out, out)
	b.at = b.at.Add(time.Millisecond)
	return out
}

func (b *bench) ingest(typ streams.Type, body any) *stage.Output {
	b.t.Helper()
	raw, err := streams.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.step(&streams.Entry{Stage: streams.StageIngest, Type: typ, Project: project, Body: raw})
}

func (b *bench) hold(id string) *streams.VerdictEntry {
	b.t.Helper()
	out := b.ingest(streams.TypeAction, &streams.ActionEntry{EntryHead: streams.EntryHead{ID: id, Agent: "agent",
		Session: "s"}, Action: beliefs.Action{Tool: "send_email", Contract: beliefs.Contract{Level: beliefs.L4}},
		Args: jsontext.Value(`{"to":"x@example.org"}`)})
	v := new(streams.VerdictEntry)
	if out == nil || streams.Unmarshal(out.Body, v) != nil || v.Hold == nil {
		b.t.Fatalf("%s is not held: %v", id, out)
	}
	return v
}

func (b *bench) resolve(hold, msg string) *stage.Output {
	b.t.Helper()
	return b.ingest(streams.TypeResolution, &streams.ResolutionEntry{EntryHead: streams.EntryHead{ID: "r"}, Hold: hold,
		Note: strings.ToValidUTF8(msg, "?")})
}

func (b *bench) state(id string) string {
	b.t.Helper()
	h := new(hold)
	if ok, err := b.st.Load(stage.Key(keyHold, project, id), h); err != nil || !ok {
		b.t.Fatalf("hold %s: %t, %v", id, ok, err)
	}
	return h.State
}

// due folds the due entry of the earliest timer, at its time.
func (b *bench) due() *stage.Output {
	b.t.Helper()
	at, out, ok, err := b.fold.Timer(b.st)
	if err != nil || !ok {
		b.t.Fatalf("no timer: %v", err)
	}
	b.at = at
	return b.step(&streams.Entry{Stage: streams.StageArbiter, Type: out.Type, Project: out.Project, Body: out.Body})
}

// replayed folds the same ledger again with a new fold.
func (b *bench) replayed() {
	b.t.Helper()
	c := newBench(b.t, b.trust)
	for i, e := range b.entries {
		out, err := c.fold.Step(c.st, e)
		if err != nil {
			b.t.Fatal(err)
		}
		was := b.out[i]
		if (out == nil) != (was == nil) || out != nil && (out.Type != was.Type || string(out.Body) != string(was.Body) ||
			fmt.Sprint(out.Live) != fmt.Sprint(was.Live)) {
			b.t.Fatalf("entry %d (%s) gave\n%+v\nand gives\n%+v", e.Seq, e.Type, was, out)
		}
	}
}

type people struct {
	trust                               []byte
	alice, operator, agent, mallory, ex note.Signer
}

func newPeople(t testing.TB) *people {
	t.Helper()
	trust, p := new(keys.Trust), new(people)
	for _, k := range []struct {
		name, agent string
		role        keys.Role
		to          *note.Signer
	}{{"alice", "", keys.RoleApprover, &p.alice}, {"operator", "", keys.RoleOperator, &p.operator},
		{"agent", "demo/agent", keys.RoleApprover, &p.agent}, {"alice", "", "", &p.mallory}, {"legal", "", "approver:legal",
			&p.ex}} {
		private, public, err := keys.Generate(k.name)
		if err != nil {
			t.Fatal(err)
		}
		if k.role != "" {
			if err := trust.Add(keys.Pin{Key: public, Roles: []keys.Role{k.role}, Agent: k.agent}); err != nil {
				t.Fatal(err)
			}
		}
		if *k.to, err = note.NewSigner(private); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if p.trust, err = trust.Marshal(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (b *bench) statement(v *streams.VerdictEntry) *approval.Statement {
	return &approval.Statement{Version: approval.Version, Project: project, Hold: v.Hold.ID, Revision: v.Hold.Revision,
		Action:   v.Digest,
		Decision: approval.Approve, Expires: b.at.Add(10 * time.Minute).Truncate(time.Second), Nonce: approval.NewNonce()}
}

func (b *bench) sign(s *approval.Statement, k note.Signer) string {
	b.t.Helper()
	msg, err := s.Sign(k)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(msg)
}

// TestTenThousandBadResolutionsInTheFold sends invalid resolutions to the arbiter. None changes a
// hold, each gives an alert, and a replay gives the same alerts.
func TestTenThousandBadResolutionsInTheFold(t *testing.T) {
	who := newPeople(t)
	b := newBench(t, who.trust)
	r := rand.New(rand.NewPCG(3, 4))
	victim, other, used := b.hold("victim"), b.hold("other"), b.hold("used")
	once := b.sign(b.statement(used), who.alice)
	if b.resolve(used.Hold.ID, once); b.state(used.Hold.ID) != streams.HoldApproved {
		t.Fatal("the genuine one is not obeyed")
	}
	good := b.sign(b.statement(victim), who.alice) // never sent unchanged
	with := func(change func(s *approval.Statement), k note.Signer) string {
		s := b.statement(victim)
		change(s)
		return b.sign(s, k)
	}
	none := func(*approval.Statement) {}
	kinds := map[string]func() string{
		"forged": func() string {
			sig := make([]byte, 64)
			for i := range sig {
				sig[i] = byte(r.Uint32())
			}
			text, line, _ := strings.Cut(good, "\n\n")
			raw, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]))
			return text + "\n\n— alice " + base64.StdEncoding.EncodeToString(append(raw[:4:4], sig...)) + "\n"
		},
		"altered": func() string {
			x := []byte(good)
			for string(x) == good {
				x[r.IntN(len(x))] = byte(' ' + r.IntN(95))
			}
			return string(x)
		},
		"replayed": func() string { return once },
		"expired": func() string {
			return with(func(s *approval.Statement) { s.Expires = b.at.Add(-time.Hour).Truncate(time.Second) }, who.alice)
		},
		"unpinned":        func() string { return with(none, who.mallory) },
		"wrong role":      func() string { return with(none, who.operator) },
		"narrower role":   func() string { return with(none, who.ex) },
		"the agent's own": func() string { return with(none, who.agent) },
		"wrong hold":      func() string { return b.sign(b.statement(other), who.alice) },
		"made-up hold": func() string {
			return with(func(s *approval.Statement) { s.Hold = fmt.Sprintf("h%016x", r.Uint64()) }, who.alice)
		},
		"outdated": func() string {
			return with(func(s *approval.Statement) { s.Revision = fmt.Sprintf("%016x", r.Uint64()) }, who.alice)
		},
		"another action": func() string {
			return with(func(s *approval.Statement) { s.Action = fmt.Sprintf("sha256:%064x", r.Uint64()) }, who.alice)
		},
		"for another's": func() string { return with(func(s *approval.Statement) { s.Project = "acme" }, who.alice) },
		"for next year": func() string {
			return with(func(s *approval.Statement) { s.Expires = s.Expires.AddDate(1, 0, 0) }, who.alice)
		},
		"no note whatever": func() string { return strings.Repeat("— approve\n", r.IntN(900)) },
	}
	tried, each := 0, 700
	if testing.Short() {
		each = 70 // the race detector makes signatures slow
	}
	names := make([]string, 0, len(kinds))
	for n := range kinds {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, name := range names {
		for range each {
			tried++
			out := b.resolve(victim.Hold.ID, kinds[name]())
			if out == nil || out.Type != streams.TypeAlerts {
				t.Fatalf("%s: %+v", name, out)
			}
		}
		if s := b.state(victim.Hold.ID); s != streams.HoldOpen {
			t.Fatalf("%s: the hold is %s", name, s)
		}
	}
	if s := b.state(other.Hold.ID); s != streams.HoldOpen {
		t.Errorf("the other hold is %s", s)
	}
	b.replayed()
	if b.resolve(victim.Hold.ID, good); b.state(victim.Hold.ID) != streams.HoldApproved {
		t.Error("after all of them the genuine one is not obeyed")
	}
	t.Logf("%d bad resolutions of %d kinds: 0 released, each with an alert", tried, len(kinds))
}

// TestWhateverHappensToHoldsReplays runs random operations on holds and folds the ledger again. At
// the end each hold has exactly one final state.
func TestWhateverHappensToHoldsReplays(t *testing.T) {
	who := newPeople(t)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		b := newBench(t, who.trust)
		var open []*streams.VerdictEntry
		fates := make(map[string]string)
		for i := range 120 {
			switch n := r.IntN(10); {
			case len(open) == 0 || n < 4 && len(open) < 15:
				open = append(open, b.hold(fmt.Sprint("a", i)))
				continue
			case n < 6:
				v := open[r.IntN(len(open))]
				s := b.statement(v)
				if r.IntN(3) == 0 {
					s.Decision = approval.Reject
				}
				msg := b.sign(s, who.alice)
				b.resolve(v.Hold.ID, msg)
				b.resolve(v.Hold.ID, msg) // a replay gives no new output
			case n < 7:
				v := open[r.IntN(len(open))]
				b.ingest(streams.TypeOutcome, &streams.OutcomeEntry{EntryHead: streams.EntryHead{ID: fmt.Sprint("o", i),
					Agent: "agent"}, Outcome: beliefs.Outcome{Action: v.ID, Status: "cancelled"}})
			case n < 8:
				v := open[r.IntN(len(open))]
				b.ingest(streams.TypeAction, &streams.ActionEntry{EntryHead: streams.EntryHead{ID: fmt.Sprint("e", i),
					Agent: "agent", Session: "s"}, Action: beliefs.Action{Tool: "read_file"}, Replaces: v.ID})
			case n < 9:
				// The approver of another agent may not decide.
				b.ingest(streams.TypeOutcome, &streams.OutcomeEntry{EntryHead: streams.EntryHead{ID: fmt.Sprint("o", i),
					Agent: "other"}, Outcome: beliefs.Outcome{Action: open[0].ID, Status: "cancelled"}})
			default:
				b.due()
			}
			open = slices.DeleteFunc(open, func(v *streams.VerdictEntry) bool {
				s := b.state(v.Hold.ID)
				if s == streams.HoldOpen {
					return false
				}
				if was, ok := fates[v.Hold.ID]; ok {
					t.Fatalf("hold %s was %s and is %s", v.Hold.ID, was, s)
				}
				fates[v.Hold.ID] = s
				return true
			})
		}
		for id, s := range fates {
			if is := b.state(id); is != s {
				t.Errorf("seed %d: hold %s was %s and is %s", seed, id, s, is)
			}
		}
		if n, err := openHolds(b.st, agentKey(project, "agent")); err != nil || n != len(open) {
			t.Fatalf("seed %d: %d holds are counted, %d are open, %v", seed, n, len(open), err)
		}
		b.replayed()
	}
}

func TestAnExpiredHoldIsNotDeniedAndSaysWhatToDo(t *testing.T) {
	who := newPeople(t)
	b := newBench(t, who.trust)
	v := b.hold("a1")
	msg := func() string { return b.sign(b.statement(v), who.alice) }
	out := b.due()
	var h streams.HoldStateEntry
	if err := streams.Unmarshal(out.Body, &h); err != nil || h.State != streams.HoldExpired ||
		h.Reason.Code != streams.CodeExpired || h.Reason.Verdict != streams.Hold || !strings.Contains(h.Reason.Text,
		"propose it again") {
		t.Fatalf("%+v, %v", h, err)
	}
	if out := b.resolve(v.Hold.ID, msg()); out.Type != streams.TypeAlerts || b.state(v.Hold.ID) != streams.HoldExpired {
		t.Errorf("approved after it expired: %+v", out)
	}
	out = b.ingest(streams.TypeRepeat, &streams.RepeatEntry{EntryHead: streams.EntryHead{ID: "a1", Agent: "agent"},
		Kind: streams.KindAct})
	again := new(streams.VerdictEntry)
	if err := streams.Unmarshal(out.Body, again); err != nil || again.Verdict != streams.Hold || again.Hold != nil ||
		again.Reasons[len(again.Reasons)-1].Code != streams.CodeExpired {
		t.Errorf("%+v, %v", again, err)
	}
	// A resolution that comes after the hold's expiry, but before a due entry records the expiry, is refused.
	v = b.hold("a2")
	b.at = v.Hold.Expires
	if out := b.resolve(v.Hold.ID, msg()); out.Type != streams.TypeAlerts || b.state(v.Hold.ID) != streams.HoldOpen {
		t.Errorf("%+v", out)
	}
	b.replayed()
}

func TestAStandingPermissionPassesTheLevelAndNothingElse(t *testing.T) {
	b := newBench(t, newPeople(t).trust, `
standing:
  - name: weekly-report
    tools: [send_email]
    agents: [agent]
    when: args.to == "x@example.org"
    until: 2026-11-21T10:00:01Z
    owner: olga
    reason: the weekly report goes out by itself
`)
	n := 0
	ask := func(agent, to string, unseen bool) *streams.VerdictEntry {
		t.Helper()
		n++
		out := b.ingest(streams.TypeAction, &streams.ActionEntry{EntryHead: streams.EntryHead{ID: fmt.Sprint("a", n),
			Agent: agent, Session: "s"}, Action: beliefs.Action{Tool: "send_email",
			Contract: beliefs.Contract{Level: beliefs.L4}}, Args: jsontext.Value(fmt.Sprintf(`{"to":%q}`, to)), Unseen: unseen})
		v := new(streams.VerdictEntry)
		if err := streams.Unmarshal(out.Body, v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := ask("agent", "x@example.org", false); v.Verdict != streams.Allow ||
		v.Reasons[len(v.Reasons)-1].Code != streams.CodeStanding {
		t.Errorf("an action that the standing permission names: %+v", v)
	}
	for what, v := range map[string]*streams.VerdictEntry{
		"another recipient": ask("agent", "eve@evil.example", false),
		"another agent":     ask("other", "x@example.org", false),
		"unseen input":      ask("agent", "x@example.org", true),
	} {
		if v.Verdict != streams.Hold {
			t.Errorf("%s: %+v", what, v)
		}
	}
	b.at = b.at.Add(2 * time.Second)
	if v := ask("agent", "x@example.org", false); v.Verdict != streams.Hold {
		t.Errorf("after its end: %+v", v)
	}
}

func TestWhatAHoldRestsOnIsLookedAtAgainAtItsRelease(t *testing.T) {
	who := newPeople(t)
	b := newBench(t, who.trust)
	out := b.ingest(streams.TypeAction, &streams.ActionEntry{EntryHead: streams.EntryHead{ID: "a1", Agent: "agent",
		Session: "s"}, Action: beliefs.Action{Tool: "send_email", Contract: beliefs.Contract{Level: beliefs.L4}},
		Beliefs: []streams.BeliefRef{{ID: "b1", Found: true, Scope: beliefs.ToolActionAllowed}}})
	v := new(streams.VerdictEntry)
	if err := streams.Unmarshal(out.Body, v); err != nil || v.Hold == nil {
		t.Fatalf("%+v, %v", v, err)
	}
	old := b.sign(b.statement(v), who.alice)
	raw, err := streams.Marshal(&streams.AlertsEntry{Group: "core",
		Alerts: []streams.Alert{{ID: "x", Rule: "bad-belief", Group: "core", Severity: "high",
			Subject: streams.AlertSubject{Kind: "belief", ID: "b1"}, Project: project, Message: "it was planted",
			Effect: "quarantine", Mode: "enforce"}}})
	if err != nil {
		t.Fatal(err)
	}
	b.step(&streams.Entry{Stage: streams.SentinelStage("core"), Type: streams.TypeAlerts, Project: project, Body: raw})
	out = b.resolve(v.Hold.ID, old)
	if out.Type != streams.TypeAlerts || !strings.Contains(string(out.Body), "approval-revision") ||
		b.state(v.Hold.ID) != streams.HoldOpen {
		t.Fatalf("%s", out.Body)
	}
	h := new(hold)
	if _, err := b.st.Load(stage.Key(keyHold, project, v.Hold.ID), h); err != nil || h.Revision == v.Hold.Revision ||
		!strings.Contains(fmt.Sprint(h.Entry.Reasons), "it was planted") {
		t.Fatalf("%+v, %v", h, err)
	}
	if said := string(out.Body); !strings.Contains(said, "the revision "+h.Revision) ||
		strings.Contains(said, "changes nothing") {
		t.Errorf("the alert does not name the new revision: %s", said)
	}
	// The same resolution is refused again, because it names the earlier revision. A statement on the new revision is
	// accepted.
	out = b.resolve(v.Hold.ID, old)
	if said := string(out.Body); !strings.Contains(said, "changes nothing") {
		t.Errorf("the second refusal: %s", said)
	}
	if b.state(v.Hold.ID) != streams.HoldOpen {
		t.Error("released by the second try")
	}
	if b.resolve(v.Hold.ID, b.sign(b.statement(&h.Entry), who.alice)); b.state(v.Hold.ID) != streams.HoldApproved {
		t.Error("not released as it is")
	}
	b.replayed()
}

// After a hold was opened, an attestation makes a belief that its action cites, or an ancestor of that belief,
// unreliable. An approval of the earlier revision does not release the hold. An approval of the present revision does.
func TestPromiseA6AnApprovalDoesNotSurviveTheFallOfACitedBelief(t *testing.T) {
	moves := map[string]beliefs.Move{
		"quarantine": {Axis: beliefs.AxisSecurity, From: "clean", To: beliefs.Quarantined.String()},
		"reject":     {Axis: beliefs.AxisSecurity, From: "clean", To: beliefs.Malicious.String()},
		"block":      {Axis: beliefs.AxisRetrieval, From: "normal", To: beliefs.Blocked.String()},
		"contradict": {Axis: beliefs.AxisTruth, From: "supported", To: beliefs.Contradicted.String()},
	}
	for decision, move := range moves {
		for _, fallen := range []string{"b1", "root"} {
			t.Run(decision+" "+fallen, func(t *testing.T) {
				who := newPeople(t)
				b := newBench(t, who.trust)
				b.ingest(streams.TypeMemory, &streams.MemoryEntry{EntryHead: streams.EntryHead{ID: "m1", Agent: "agent"},
					Content: "x", DerivedFrom: []string{"root"}, Belief: streams.BeliefRef{ID: "b1"}})
				out := b.ingest(streams.TypeAction, &streams.ActionEntry{EntryHead: streams.EntryHead{ID: "a1", Agent: "agent",
					Session: "s"}, Action: beliefs.Action{Tool: "send_email", Contract: beliefs.Contract{Level: beliefs.L4}},
					Beliefs: []streams.BeliefRef{{ID: "b1", Found: true, Scope: beliefs.ToolActionAllowed}}})
				v := new(streams.VerdictEntry)
				if err := streams.Unmarshal(out.Body, v); err != nil || v.Hold == nil {
					t.Fatalf("%+v, %v", v, err)
				}
				old := b.sign(b.statement(v), who.alice)
				b.ingest(streams.TypeConfirmation, &streams.ConfirmationEntry{EntryHead: streams.EntryHead{ID: "w"}, Belief: fallen,
					Decision: decision, Signer: "alice", Revisions: []beliefs.Revision{{Belief: fallen, Who: "alice",
						Why:   "it is false",
						Moves: []beliefs.Move{move}}}})
				shown, err := b.fold.listHolds(b.st, []byte(`{"project":"demo","id":"`+v.Hold.ID+`"}`))
				if err != nil {
					t.Fatal(err)
				}
				h := shown.([]Hold)[0]
				if h.Revision == v.Hold.Revision || !strings.Contains(fmt.Sprint(h.Verdict.Reasons), "it is false") {
					t.Errorf("holds show says nothing of it: %+v", h)
				}
				out = b.resolve(v.Hold.ID, old)
				if b.state(v.Hold.ID) != streams.HoldOpen || !strings.Contains(string(out.Body), "approval-revision") {
					t.Fatalf("%s: %s", b.state(v.Hold.ID), out.Body)
				}
				b.resolve(v.Hold.ID, b.sign(b.statement(&h.Verdict), who.alice))
				if b.state(v.Hold.ID) != streams.HoldApproved {
					t.Error("a signer who saw that the belief became unreliable cannot release the hold")
				}
				b.replayed()
			})
		}
	}
}

// After a hold on a memory write was opened, a belief that the memory derives from becomes unreliable. An approval of
// the earlier revision does not release the hold.
func TestPromiseA6AnApprovalDoesNotSurviveTheFallOfWhatAMemoryDerivesFrom(t *testing.T) {
	who := newPeople(t)
	b := newBench(t, who.trust)
	b.ingest(streams.TypeMemory, &streams.MemoryEntry{EntryHead: streams.EntryHead{ID: "m0", Agent: "agent"},
		Content: "x", DerivedFrom: []string{"root"}, Belief: streams.BeliefRef{ID: "b0"}})
	fall := func(why string) {
		b.ingest(streams.TypeConfirmation, &streams.ConfirmationEntry{EntryHead: streams.EntryHead{ID: "w"}, Belief: "root",
			Decision: "quarantine", Signer: "alice", Revisions: []beliefs.Revision{{Belief: "root", Who: "alice", Why: why,
				Moves: []beliefs.Move{{Axis: beliefs.AxisSecurity, From: "clean", To: beliefs.Quarantined.String()}}}}})
	}
	write := func(id string) *streams.VerdictEntry {
		out := b.ingest(streams.TypeMemory, &streams.MemoryEntry{EntryHead: streams.EntryHead{ID: id, Agent: "agent",
			Session: "s"},
			Unseen: true, Content: "y", DerivedFrom: []string{"b0"}, Belief: streams.BeliefRef{ID: "b" + id}})
		v := new(streams.VerdictEntry)
		if err := streams.Unmarshal(out.Body, v); err != nil || v.Hold == nil {
			t.Fatalf("%+v, %v", v, err)
		}
		return v
	}
	v := write("m1")
	old := b.sign(b.statement(v), who.alice)
	fall("it is false")
	if out := b.resolve(v.Hold.ID, old); b.state(v.Hold.ID) != streams.HoldOpen || !strings.Contains(string(out.Body),
		"approval-revision") {
		t.Fatalf("%s: %s", b.state(v.Hold.ID), out.Body)
	}
	shown, err := b.fold.listHolds(b.st, []byte(`{"project":"demo","id":"`+v.Hold.ID+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	h := shown.([]Hold)[0]
	if !strings.Contains(fmt.Sprint(h.Verdict.Reasons), "it is false") {
		t.Errorf("holds show says nothing of it: %+v", h)
	}
	b.resolve(v.Hold.ID, b.sign(b.statement(&h.Verdict), who.alice))
	if b.state(v.Hold.ID) != streams.HoldApproved {
		t.Error("a signer who saw that the belief became unreliable cannot release the hold")
	}
	// If the belief became unreliable before the memory write was proposed, the hold has this reason from the start.
	// Its revision does not change.
	v = write("m2")
	b.resolve(v.Hold.ID, b.sign(b.statement(v), who.alice))
	if b.state(v.Hold.ID) != streams.HoldApproved {
		t.Error("the revision of a hold that nothing came to has changed")
	}
	b.replayed()
}
