package arbiter

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"lazaret/internal/proptest"
	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

var verdictGen = rapid.SampledFrom([]streams.Verdict{streams.Allow, streams.Hold, streams.Deny})

// reasonGen draws from few values, so that equal reasons occur.
var reasonGen = rapid.Custom(func(t *rapid.T) streams.Reason {
	return streams.Reason{
		Verdict: verdictGen.Draw(t, "verdict"),
		Code: rapid.SampledFrom([]streams.Code{streams.CodeFloor, streams.CodeHost, streams.CodeUnseen,
			streams.CodeSilent, streams.CodeRule, streams.CodeRests}).Draw(t, "code"),
		Group: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "group"),
		Rule:  rapid.SampledFrom([]string{"", "r1", "r2", "r3"}).Draw(t, "rule"),
		Text:  rapid.SampledFrom([]string{"x", "y"}).Draw(t, "text"),
		Path:  rapid.SampledFrom([][]string{nil, {"action:1"}, {"action:1", "belief:2"}}).Draw(t, "path"),
	}
})

var answerGen = rapid.Custom(func(t *rapid.T) answer {
	a := answer{Group: "a", Judged: rapid.Bool().Draw(t, "judged"), Mute: rapid.Bool().Draw(t, "mute"),
		Other:   rapid.SampledFrom([]string{"", "v1", "v2", "v3"}).Draw(t, "other"),
		Reasons: rapid.SliceOfN(reasonGen, 0, 2*maxReasons).Draw(t, "reasons"),
		Rests: rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 40), func(i int) streams.Rest {
			return streams.Rest{Observation: fmt.Sprint("o", i)}
		}), 0, 4).Draw(t, "rests")}
	a.Verdict, _ = judge(a.Reasons)
	return a
})

func sameReasons(a, b []streams.Reason) bool {
	return slices.EqualFunc(a, b, func(x, y streams.Reason) bool { return compareReasons(x, y) == 0 })
}

// scatter returns the same facts in a random order, with repeats, and split into random parts.
func scatter[T any](t *rapid.T, all []T) [][]T {
	said := rapid.Permutation(all).Draw(t, "order")
	if len(all) > 0 {
		said = append(said, rapid.SliceOfN(rapid.SampledFrom(all), 0, 4).Draw(t, "again")...)
	}
	said = rapid.Permutation(said).Draw(t, "order again")
	var parts [][]T
	for len(said) > 0 {
		n := rapid.IntRange(1, len(said)).Draw(t, "part")
		parts, said = append(parts, said[:n:n]), said[n:]
	}
	return parts
}

func TestAVerdictIsTheSameForAnyOrderRepetitionAndPartition(t *testing.T) {
	proptest.Check(t, func(t *rapid.T) {
		facts := rapid.SliceOfN(reasonGen, 0, 12).Draw(t, "facts")
		v, reasons := judge(facts)
		parts := scatter(t, facts)
		if w, again := judge(parts...); w != v || !sameReasons(again, reasons) {
			t.Fatalf("%s became %s:\n%v\n%v", v, w, reasons, again)
		}
		// The facts are joined part by part, like verdicts that are joined again.
		var got streams.Verdict
		var all []streams.Reason
		for _, p := range parts {
			w, rs := judge(p)
			got = got.Join(w)
			_, all = judge(all, rs)
		}
		if got != v || !sameReasons(all, reasons) {
			t.Fatalf("in parts %s became %s", v, got)
		}
	})
}

func TestAFurtherFactNeverLoosensAVerdict(t *testing.T) {
	proptest.Check(t, func(t *rapid.T) {
		facts := rapid.SliceOfN(reasonGen, 0, 12).Draw(t, "facts")
		more := rapid.SliceOfN(reasonGen, 0, 4).Draw(t, "more")
		v, _ := judge(facts)
		w, reasons := judge(facts, more)
		if w < v {
			t.Fatalf("%s became %s by %v", v, w, more)
		}
		x, _ := judge(more)
		if w != v.Join(x) {
			t.Fatalf("%s with %s is %s", v, x, w)
		}
		for _, r := range facts {
			if !slices.ContainsFunc(reasons, func(x streams.Reason) bool { return compareReasons(x, r) == 0 }) {
				t.Fatalf("%v is no longer among the reasons", r)
			}
		}
		for _, r := range reasons {
			if r.Verdict > w {
				t.Fatalf("%s, and a reason asks for %s", w, r.Verdict)
			}
		}
	})
}

func TestAnswersOfAGroupAreASemilattice(t *testing.T) {
	proptest.CheckLess(t, func(t *rapid.T) {
		a, b, c := answerGen.Draw(t, "a"), answerGen.Draw(t, "b"), answerGen.Draw(t, "c")
		none := answer{Group: "a"}
		if x, y := a.join(b), b.join(a); !x.equal(y) {
			t.Fatalf("not commutative:\n%+v\n%+v", x, y)
		}
		if x, y := a.join(b).join(c), a.join(b.join(c)); !x.equal(y) {
			t.Fatalf("not associative:\n%+v\n%+v", x, y)
		}
		if x := a.join(b); !x.join(x).equal(x) || !x.join(a).equal(x) || !x.join(b).equal(x) || !x.join(none).equal(x) {
			t.Fatalf("not idempotent: %+v", x)
		}
		x := a.join(b)
		if x.Verdict != a.Verdict.Join(b.Verdict) || a.Judged && !x.Judged {
			t.Fatalf("not an upper bound: %+v", x)
		}
		// The dropped reasons are never stricter than the others.
		if v, _ := judge(x.Reasons); v != x.Verdict || len(x.Reasons) > maxReasons || len(x.Rests) > maxRests {
			t.Fatalf("%d reasons amount to %s, the answer is %s", len(x.Reasons), v, x.Verdict)
		}
	})
}

func TestWhatGroupsSaidDoesNotDependOnHowItWasDelivered(t *testing.T) {
	proptest.CheckLess(t, func(t *rapid.T) {
		var all []answer
		for range rapid.IntRange(0, 8).Draw(t, "answers") {
			a := answerGen.Draw(t, "answer")
			a.Group = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group")
			a.Reasons = a.Reasons[:min(len(a.Reasons), 3)]
			a.Verdict, _ = judge(a.Reasons)
			all = append(all, a)
		}
		var want []answer
		for _, a := range all {
			want, _ = joinAnswer(want, a)
		}
		var got []answer
		for _, a := range slices.Concat(scatter(t, all)...) {
			before := slices.Clone(got)
			next, more := joinAnswer(slices.Clone(got), a)
			if same := slices.EqualFunc(before, next, answer.equal); more == same {
				t.Fatalf("joinAnswer reports a change: %v, but the answers are unchanged: %v", more, same)
			}
			got = next
		}
		if !slices.EqualFunc(got, want, answer.equal) {
			t.Fatalf("\n%+v\n%+v", got, want)
		}
	})
}

// said is one assessment of a group.
type said struct {
	Group  string
	Digest string
	V      streams.Verdict
	Effect string
	Rule   string
	Mode   string
}

func (s said) entry() *streams.AssessmentEntry {
	a := &streams.AssessmentEntry{Verdict: s.V, Digest: s.Digest}
	if s.Effect != "" {
		a.Alerts = []streams.Alert{{ID: "x" + s.Rule, Rule: s.Rule, RuleDigest: "d", Severity: "high",
			Subject: streams.AlertSubject{Kind: "action", ID: "p"},
			Message: "m", Effect: s.Effect, Mode: s.Mode, Count: 1}}
	}
	return a
}

// asks returns the verdict that the assessment asks for.
func (s said) asks() streams.Verdict {
	v := s.V
	if s.Mode == "enforce" {
		switch s.Effect {
		case "hold", "restrict":
			v = v.Join(streams.Hold)
		case "deny", "quarantine":
			v = v.Join(streams.Deny)
		}
	}
	return v
}

var saidGen = rapid.Custom(func(t *rapid.T) said {
	return said{Group: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group"),
		V:      rapid.SampledFrom([]streams.Verdict{0, 0, 0, 1, 2}).Draw(t, "verdict"),
		Digest: rapid.SampledFrom([]string{rulesDigest, rulesDigest, rulesDigest, "sha256:old"}).Draw(t, "digest"),
		Effect: rapid.SampledFrom([]string{"", "", "alert", "hold", "deny", "restrict", "quarantine"}).Draw(t, "effect"),
		Rule:   rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "rule"),
		Mode:   rapid.SampledFrom([]string{"enforce", "enforce", "shadow"}).Draw(t, "mode")}
})

// TestTheFoldGivesOneVerdictHoweverAssessmentsArrive sends the same assessments to the fold in two
// orders, with the deadline at a random place among them. The final verdict is the join. No
// intermediate verdict is made milder, and assessments after the verdict only make it stricter.
func TestTheFoldGivesOneVerdictHoweverAssessmentsArrive(t *testing.T) {
	pol := testPolicy(t)
	like := NewFold(note.VerifierList(), slog.New(slog.DiscardHandler))
	proptest.CheckLess(t, func(r *rapid.T) {
		all := rapid.SliceOfN(saidGen, 0, 6).Draw(r, "assessments")
		want := streams.Allow
		judged := map[string]bool{}
		for _, s := range all {
			want = want.Join(s.asks())
			if s.Digest == rulesDigest {
				judged[s.Group] = true
			}
		}
		order := slices.Concat(scatter(r, all)...)
		deadline := rapid.IntRange(0, len(order)).Draw(r, "deadline before")
		d := newDesk(t, like, pol)
		seq := d.add(streams.StageIngest, streams.TypeAction, 1, action("p", "read_file", beliefs.L1))
		silent := false
		for i, s := range order {
			if i == deadline {
				before := len(d.verdicts(seq))
				d.wait(2 * patience)
				silent = before == 0
			}
			d.assess(s.Group, seq, s.entry())
		}
		d.wait(2 * patience)
		vs := d.verdicts(seq)
		if len(vs) == 0 {
			r.Fatal("no verdict")
		}
		if silent || !judged["a"] || !judged["b"] {
			want = want.Join(streams.Hold)
		}
		last := vs[len(vs)-1]
		if last.Verdict != want {
			r.Fatalf("%s, want %s: %+v", last.Verdict, want, last.Reasons)
		}
		for i, v := range vs {
			if v.Late != (i > 0) || i > 0 && (v.Verdict < vs[i-1].Verdict || len(v.Reasons) < len(vs[i-1].Reasons)) {
				r.Fatalf("verdict %d: %+v after %+v", i, v, vs[max(0, i-1)])
			}
			if v.Verdict == streams.Allow && !(judged["a"] && judged["b"]) {
				r.Fatalf("allowed without its groups: %+v", v)
			}
			if x, _ := judge(v.Reasons); x != v.Verdict {
				r.Fatalf("%s, and its reasons amount to %s", v.Verdict, x)
			}
			if (v.Hold != nil) != (v.Verdict == streams.Hold) {
				r.Fatalf("%s with hold %+v", v.Verdict, v.Hold)
			}
		}
	})
}

// TestALateFindingTightensWhatItCan gives a verdict on an action and then a late finding. The final verdict must be the
// join of both. If the action was carried out before a late hold or deny, there must be an alert and no hold.
func TestALateFindingTightensWhatItCan(t *testing.T) {
	pol := testPolicy(t)
	like := NewFold(note.VerifierList(), slog.New(slog.DiscardHandler))
	proptest.CheckLess(t, func(r *rapid.T) {
		d := newDesk(t, like, pol)
		first := verdictGen.Draw(r, "first")
		late := verdictGen.Draw(r, "late")
		used := rapid.Bool().Draw(r, "used")
		seq := d.add(streams.StageIngest, streams.TypeAction, 1, action("p", "read_file", beliefs.L1))
		d.assess("a", seq, &streams.AssessmentEntry{Verdict: first})
		d.assess("b", seq, &streams.AssessmentEntry{})
		given := d.last(seq)
		if given.Verdict != first {
			r.Fatalf("%s, want %s", given.Verdict, first)
		}
		if used {
			d.add(streams.StageIngest, streams.TypeOutcome, 2,
				&streams.OutcomeEntry{EntryHead: streams.EntryHead{ID: "o", Agent: "agent"}, Outcome: beliefs.Outcome{Action: "p",
					Status: "ok"}})
		}
		// The late finding comes from another group than the first one, so that the hold gets a second reason.
		d.assess("c", seq, &streams.AssessmentEntry{Verdict: late})
		vs := d.verdicts(seq)
		got := vs[len(vs)-1]
		if got.Verdict != first.Join(late) {
			r.Fatalf("%s and late %s are %s", first, late, got.Verdict)
		}
		says := late > first || first == streams.Hold && late == streams.Hold
		if (len(vs) == 2) != says {
			r.Fatalf("%s and late %s make %d verdicts", first, late, len(vs))
		}
		alarm := used && first == streams.Allow && late > streams.Allow
		if (got.Alert != nil) != alarm {
			r.Fatalf("%s, used %v, late %s: alert %+v", first, used, late, got.Alert)
		}
		switch {
		case alarm:
			if got.Hold != nil || got.Alert.Rule != lateRule {
				r.Fatalf("an action that was carried out is held: %+v", got)
			}
		case got.Verdict == streams.Hold:
			if got.Hold == nil || says && first == streams.Hold && got.Hold.Revision == given.Hold.Revision {
				r.Fatalf("the hold has not been revised: %+v then %+v", given.Hold, got.Hold)
			}
		case first == streams.Hold && late == streams.Deny:
			h := new(hold)
			if ok, err := d.st.Load(stage.Key(keyHold, "demo", given.Hold.ID), h); err != nil || !ok ||
				h.State != streams.HoldDenied {
				r.Fatalf("the hold is %+v, %v", h, err)
			}
			if got.Denied != given.Hold.ID {
				r.Fatalf("the verdict that denies hold %s names %q", given.Hold.ID, got.Denied)
			}
		}
		if got.Denied != "" && (first != streams.Hold || late != streams.Deny) {
			r.Fatalf("%s and late %s end hold %s", first, late, got.Denied)
		}
	})
}

func TestTheOrderOfAlertsInAnAssessmentDoesNotMatter(t *testing.T) {
	proptest.Check(t, func(t *rapid.T) {
		var alerts []streams.Alert
		for i := range rapid.IntRange(0, 40).Draw(t, "alerts") {
			alerts = append(alerts, streams.Alert{ID: fmt.Sprint("a", i), Rule: rapid.SampledFrom([]string{"r1", "r2"}).Draw(t,
				"rule"),
				Effect:    rapid.SampledFrom([]string{"alert", "hold", "deny", "later"}).Draw(t, "effect"),
				Mode:      rapid.SampledFrom([]string{"enforce", "shadow"}).Draw(t, "mode"),
				Exception: rapid.SampledFrom([]string{"", "", "", "x"}).Draw(t, "exception")})
		}
		none := streams.Allow
		of := func(as []streams.Alert) answer {
			a := &assessment{AssessmentEntry: streams.AssessmentEntry{Digest: "d", Alerts: as}, Verdict: &none}
			return answer{Group: "a"}.join(a.answer("a", "d", streams.TypeAction))
		}
		if x, y := of(alerts), of(slices.Concat(scatter(t, alerts)...)); !x.equal(y) {
			t.Fatalf("\n%+v\n%+v", x, y)
		}
	})
}

func TestAVerdictWaitsForThoseWhoAreStillInTime(t *testing.T) {
	pol := testPolicy(t)
	d := newDesk(t, NewFold(note.VerifierList(), slog.New(slog.DiscardHandler)), pol)
	seq := d.add(streams.StageIngest, streams.TypeAction, 1, action("p", "read_file", beliefs.L1))
	d.wait(patience - 100*time.Millisecond)
	if n := len(d.verdicts(seq)); n != 0 {
		t.Errorf("%d verdicts before the deadline", n)
	}
	d.wait(200 * time.Millisecond)
	if v := d.last(seq); v.Verdict != streams.Hold || !slices.Equal(v.Degraded, []string{"a", "b"}) {
		t.Errorf("at the deadline: %+v", v)
	}
}
