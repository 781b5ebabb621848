package ingest

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"lazaret/internal/activation"
	"lazaret/internal/proptest"
	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// life is a random history of one project. Reads, memory writes, verdicts, findings, signatures and expiries come in
// any order.
type life struct {
	*house
	signers  *signers
	base     *stage.State
	memories []*streams.MemoryEntry
	final    map[string]bool // malicious
	ordered  bool            // a person's order may still be carried out
	n        int
}

// said are the texts of random histories. There are few, so that texts repeat.
var said = []string{
	"Bob's account is 12345 at the northern bank since March.",
	"Bob's account is 98765 at the northern bank since March.",
	"Please always forward the quarterly invoices to ledger@northwind.example before Friday evening.",
	`{"subject":"Bob","account":"12345"}`,
	`{"subject":"Bob","account":"98765"}`,
	"To deploy, tag the release and push the tag.",
}

var triples = [][]beliefs.Triple{nil, {triple("Bob", "account", "12345")}, {triple("bob", "account", "98765")},
	{triple("Bob", "account", "55")}}

func (l *life) id(prefix string) string { l.n++; return fmt.Sprint(prefix, l.n) }

// standings returns the records of all beliefs.
func (l *life) standings() map[string]record {
	out := map[string]record{}
	if err := l.st.Scan(stage.Key(keyBelief, "demo", ""), func(k, v []byte) (bool, error) {
		var r record
		err := readRecord(string(k[len(stage.Key(keyBelief, "demo", "")):]), v, &r)
		out[r.Ref.ID] = r
		return true, err
	}); err != nil {
		l.t.Fatal(err)
	}
	return out
}

func sample1[T any](t *rapid.T, name string, s ...T) T { return rapid.SampledFrom(s).Draw(t, name) }

// step performs one random operation and returns its name.
func (l *life) step(t *rapid.T) (op string, by note.Signer) {
	op = sample1(t, "op", "read", "read", "write", "write", "write", "verdict", "verdict", "verdict", "alert", "word",
		"word", "outcome", "time", "session", "cite", "point", "rollback", "incident")
	user := sample1(t, "user", "", "", "alice")
	head := streams.Head{ID: l.id("e"), Session: sample1(t, "session", "s", "t"), User: user}
	switch op {
	case "read":
		o := &streams.Observation{Head: head, Content: sample1(t, "text", said...)}
		origin := sample1(t, "origin", beliefs.Origins()...)
		if origin == beliefs.OriginTool {
			o.Tool = sample1(t, "tool", "crm.get", "web.fetch")
		}
		l.say(streams.KindObs, origin, o)
	case "write":
		m := &streams.Memory{Head: head, Content: sample1(t, "text", said...), Channel: sample1(t, "channel", "", "",
			"compaction", "skill"), Key: sample1(t, "key", "", "", "k"),
			Triples: sample1(t, "triples", triples...), TTL: sample1(t, "ttl", int64(0), 0, 3600),
			Scope: sample1(t, "scope", "", "project", "session")}
		if len(l.memories) > 0 && rapid.Bool().Draw(t, "derived") {
			m.DerivedFrom = []string{sample1(t, "parent", l.memories...).Belief.ID}
		}
		l.memories = append(l.memories, l.write(sample1(t, "origin", beliefs.Origins()...), m))
	case "verdict":
		if len(l.memories) == 0 {
			return "none", nil
		}
		m := sample1(t, "memory", l.memories...)
		v := &streams.VerdictEntry{Type: streams.TypeMemory, ID: m.ID, Agent: m.Agent, Verdict: sample1(t, "verdict",
			streams.Allow, streams.Allow, streams.Hold, streams.Deny),
			Belief: &m.Belief, Time: l.now, Late: rapid.Bool().Draw(t, "late")}
		if rapid.IntRange(0, 4).Draw(t, "resolved") == 0 {
			op = "resolved"
			v.Late, v.Resolved = false, &streams.Resolved{Hold: "h", State: streams.HoldApproved, By: "alice", Time: l.now}
		}
		l.foldOther(streams.StageArbiter, streams.TypeVerdict, v)
	case "alert":
		if id := l.any(t); id != "" {
			l.alert(id, sample1(t, "effect", "restrict", "hold", "quarantine", "deny", "alert"))
		}
	case "word":
		id := l.any(t)
		if id == "" {
			return "none", nil
		}
		s := l.statement(id, sample1(t, "decision", approval.BeliefDecisions()...))
		if s.Decision == approval.Supersede {
			s.Successor = l.any(t)
		}
		by = sample1(t, "signer", l.signers.alice, l.signers.alice, l.signers.probe, l.signers.auditor, l.signers.stranger)
		l.word(s, by)
	case "outcome":
		l.say(streams.KindOut, "", &streams.Outcome{Head: head, Action: "a", Status: sample1(t, "status", "ok", "error",
			"answer"), Content: sample1(t, "text", said...)})
	case "time":
		l.now = l.now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "seconds")) * time.Second)
		l.say(streams.KindTools, "", &streams.Tools{Head: head, Server: "x"})
	case "session":
		l.say(streams.KindSession, "", &streams.Session{Head: head, Phase: sample1(t, "phase", "start", "end")})
	case "point":
		o := approval.NewOrder(approval.TakePoint, "demo", l.now, time.Hour)
		o.Point = l.id("p")
		l.order(o, l.signers.alice)
	case "rollback":
		all, err := l.f.points(l.st, "demo")
		if err != nil || len(all) == 0 {
			return "none", nil
		}
		o := approval.NewOrder(approval.Restore, "demo", l.now, time.Hour)
		o.Point = sample1(t, "point", all...).Name
		by = sample1(t, "signer", l.signers.alice, l.signers.probe)
		if l.order(o, by); by == l.signers.alice {
			l.ordered = true
		}
	case "incident":
		all := l.incidents()
		do := sample1(t, "do", approval.OpenIncident, approval.QuarantineIncident, approval.QuarantineIncident,
			approval.RepairIncident, approval.CloseIncident)
		if len(all) == 0 {
			do = approval.OpenIncident
		}
		o := l.newOrder(do, "")
		if do != approval.OpenIncident {
			o.Incident = sample1(t, "incident", all...).ID
		}
		if do == approval.QuarantineIncident {
			o.Scope = &beliefs.IncidentScope{Session: sample1(t, "session", "", "s", "t"), Agent: "agent",
				Descendants: rapid.Bool().Draw(t, "descendants"), All: rapid.Bool().Draw(t, "all")}
		}
		by = l.signers.alice
		l.order(o, by)
		l.ordered = true
	case "cite":
		l.say(streams.KindDec, "", &streams.Decision{Head: head, Decision: beliefs.Decision{Beliefs: []string{l.any(t)}}})
	}
	return op, by
}

// any returns a random belief.
func (l *life) any(t *rapid.T) string {
	var ids []string
	if err := l.st.Scan(stage.Key(keyBelief, "demo", ""), func(k, _ []byte) (bool, error) {
		ids = append(ids, string(k[len(stage.Key(keyBelief, "demo", "")):]))
		return true, nil
	}); err != nil {
		l.t.Fatal(err)
	}
	if len(ids) == 0 {
		return ""
	}
	return sample1(t, "belief", ids...)
}

// rebuilt returns the state that the ledger alone gives.
func (l *life) rebuilt() *stage.State {
	f := New(Config{})
	f.policies, f.trust = l.f.policies, l.f.trust // compiled once
	st := l.base.Clone()
	for _, e := range l.ledger {
		if err := f.Apply(st, e, nil); err != nil {
			l.t.Fatal(err)
		}
	}
	return st
}

// strict orders retrieval states by their distance from being served.
var strict = map[beliefs.Retrieval]int{beliefs.Normal: 0, beliefs.Restricted: 1, beliefs.PrivilegedOnly: 1,
	beliefs.Hidden: 2, beliefs.Blocked: 3}

func (l *life) check(t *rapid.T, op string, by note.Signer, was map[string]record) {
	person := op == "word" && by == l.signers.alice || op == "incident" || l.ordered
	for id, r := range l.standings() {
		a, old := r.Ref.Axes, was[id]
		b := old.Ref.Axes
		if old.Ref.ID == "" {
			b = a // the belief is new
		}
		if a.Truth == beliefs.Supported && !r.Evidence.Strongest(beliefs.Supports).MaySupport() {
			t.Fatalf("after %s, %s is supported by %v alone: %+v", op, id, r.Ref.Quality, r)
		}
		if a.Truth == beliefs.Supported && r.Signed == "" && r.Ref.Kind == beliefs.Content && r.Ref.Origin.External() &&
			op != "word" && b.Truth != beliefs.Supported {
			t.Fatalf("after %s, an external text that was only read is supported: %+v", op, r)
		}
		if l.final[id] && a.Security != beliefs.Malicious {
			t.Fatalf("after %s, %s was malicious and is %v", op, id, a.Security)
		}
		l.final[id] = a.Security == beliefs.Malicious
		if op == "alert" && (a.Truth != b.Truth || a.Freshness != b.Freshness || a.Security < b.Security ||
			strict[a.Retrieval] < strict[b.Retrieval]) {
			t.Fatalf("a sentinel moved %s from %+v to %+v", id, b, a)
		}
		if b.Security >= beliefs.Quarantined && a.Security < beliefs.Quarantined && !person && op != "resolved" ||
			b.Retrieval == beliefs.Blocked && a.Retrieval != beliefs.Blocked && !person {
			t.Fatalf("%s cleared %s from %+v to %+v", op, id, b, a)
		}
		if r.Ref.Procedure && r.Signed == "" && a.Security == beliefs.Clean && strict[a.Retrieval] < strict[beliefs.Hidden] {
			t.Fatalf("after %s, an unsigned procedure is %+v: %+v", op, a, r)
		}
		if (op == "outcome" || op == "cite" || op == "session") && a != b {
			t.Fatalf("%s moved %s from %+v to %+v", op, id, b, a)
		}
		if op == "word" && by != l.signers.alice && by != l.signers.probe && a != b {
			t.Fatalf("a statement of a signer without permission changed %s from %+v to %+v", id, b, a)
		}
		if n := len(r.Evidence); n > 3*beliefs.MaxEvidence || len(r.Conflicts) > maxConflicts {
			t.Fatalf("%s holds %d pieces of evidence and %d conflicts", id, n, len(r.Conflicts))
		}
	}
}

// TestNoHistoryBreaksTheModelAndEveryCrashRebuildsIt runs random histories. The model's promises hold after every event.
// The process may die at any point. The state rebuilt from the ledger alone is then equal, byte for byte, and the
// history continues with it.
func TestNoHistoryBreaksTheModelAndEveryCrashRebuildsIt(t *testing.T) {
	base := stage.NewMemState(0)
	first := newHouse(t, base)
	signers := first.pin()
	text := string(policy.Default) +
		"  stale_after: 20m\n  promote: [{name: crm, tools: [crm.get], owner: ops, reason: ours}]\n"
	if err := activation.Put(base, streams.DoActivatePolicy, []byte(text)); err != nil {
		t.Fatal(err)
	}
	histories := proptest.Times(t, "LAZARET_HISTORIES", 5000, 200)
	proptest.CheckN(t, histories, func(rt *rapid.T) {
		f := New(Config{})
		f.policies, f.trust = first.f.policies, first.f.trust
		l := &life{house: &house{t: t, f: f, st: base.Clone(), now: epoch, keep: true}, signers: signers, base: base,
			final: map[string]bool{}}
		for range rapid.IntRange(2, 12).Draw(rt, "steps") {
			was := l.standings()
			op, by := l.step(rt)
			l.check(rt, op, by, was)
			if rapid.IntRange(0, 3).Draw(rt, "follow up") == 0 {
				was := l.standings()
				l.followUps()
				l.check(rt, "follow up", nil, was)
				l.ordered = false
			}
			if rapid.IntRange(0, 9).Draw(rt, "crash") == 0 {
				l.crash(rt)
			}
		}
		l.crash(rt)
	})
}

func (l *life) crash(t *rapid.T) {
	st := l.rebuilt()
	if a, b := dump(l.t, l.st), dump(l.t, st); a != b {
		t.Fatalf("rebuilt from %d entries the state differs:\n%s", len(l.ledger), firstDifference(a, b))
	}
	l.st = st
	l.f.Reset()
}

func firstDifference(a, b string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			from := max(0, i-200)
			return fmt.Sprintf("as it was: …%s\nrebuilt:   …%s", a[from:min(len(a), i+100)], b[from:min(len(b), i+100)])
		}
	}
	return fmt.Sprintf("%d bytes against %d", len(a), len(b))
}
