package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lazaret/pkg/internal/randomrules"
	"lazaret/pkg/signals/index"
)

// An evaluator with some of the rules must give the same alerts for these rules as an evaluator with all rules,
// although it maintains only the state that these rules read.
func TestAPartFindsWhatTheWholeFinds(t *testing.T) {
	signals := []string{"signal.cluster_size > 1", "signal.key_writes > 1", "signal.echo.size() > 0",
		"signal.novel.size() > 0", "signal.n > 2", "signal.key_growth > 1.0",
		"signal.pushes.size() > 0", "action.lineage.exists(l, l.carried == 'email')", "signal.seq.size() == 2",
		"signal.user_named", "signal.sleepers.size() == 0 && action.level > 2"}
	found := 0
	for seed := range 12 {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range 40 {
			when := signals[i%len(signals)]
			if r.IntN(2) == 0 {
				when = "(" + when + ") && (" + randomrules.Expr(r, 1) + ")"
			}
			fmt.Fprintf(&b, "  - {id: r%02d, title: T, severity: low, subject: action, message: \"'m'\", on: [action, memory, "+
				"observation], effect: alert, when: %q}\n", i, when)
		}
		set := testSet(t, map[string]string{"p/r.yaml": b.String(), "p/pack.yaml": "name: p\ntitle: T\nlists:\n  some: " +
			"[alpha, Beta, tar]\nmacros: {m0: 'true', m1: 'false', m2: event.external}\n" +
			"signals:\n  - {name: n, doc: d, count: {on: [action, memory], key: event.agent, window: 10s}}\n" +
			"  - {name: seq, doc: d, sequence: {key: event.agent, window: 10s, steps: [{on: [observation], when: " +
			"event.external}, {on: [action], when: action.level > 1}]}}\n"})
		whole := set.Group("core")
		kept := func(r *Rule) bool { return r.ID[len(r.ID)-1]%3 == byte(seed%3) }
		part := whole.Part(kept)
		if part.Empty() || len(part.rules) == len(whole.rules) {
			t.Fatal("the part has no rules, or all: the test shows nothing")
		}
		st1, st2, m1, m2 := index.NewMemStore(), index.NewMemStore(), NewMeter(), NewMeter()
		for i := range 200 {
			p, err := Prepare(randomrules.Entry(r, i+1))
			if err != nil {
				t.Fatal(err)
			}
			_, all, err := m1.Eval(whole, st1, p)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, a := range all {
				if kept(set.Rule(a.Rule)) {
					want = append(want, a.Rule+" "+a.Subject.ID+a.Error)
				}
			}
			_, some, err := m2.Eval(part, st2, p)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range some {
				got = append(got, a.Rule+" "+a.Subject.ID+a.Error)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d, event %d: the part finds %q, the whole %q", seed, i, got, want)
			}
			found += len(got)
		}
		if c := m2.Costs[part.rules[0]]; c != nil && c.PerEvaluation() <= 0 {
			t.Error("the meter counted no evaluations or no time")
		}
	}
	if found == 0 {
		t.Fatal("nothing was found: the test shows nothing")
	}
}

func TestChangedRules(t *testing.T) {
	rule := func(id, when string) string {
		return fmt.Sprintf("  - {id: %s, title: T, severity: low, subject: action, message: \"'m'\", on: [action], effect: "+
			"alert, when: %q}\n", id, when)
	}
	pack := func(word, window string) string {
		return "name: p\ntitle: T\nlists: {some: [" + word +
			"]}\nsignals:\n  - {name: n, doc: d, count: {on: [action], key: event.agent, window: " + window + "}}\n"
	}
	group := func(pack, rules string) *Evaluator {
		return testSet(t, map[string]string{"p/r.yaml": "rules:\n" + rules, "p/pack.yaml": pack}).Group("core")
	}
	base := group(pack("x", "1m"), rule("a", "action.tool in lists.some")+rule("b", "signal.n > 2")+rule("c",
		"action.level > 1")+rule("d", "true"))
	for _, c := range []struct {
		name string
		ev   *Evaluator
		want []string
	}{
		{"nothing", group(pack("x", "1m"), rule("a", "action.tool in lists.some")+rule("b", "signal.n > 2")+rule("c",
			"action.level > 1")+rule("d", "true")), nil},
		{"a list", group(pack("y", "1m"), rule("a", "action.tool in lists.some")+rule("b", "signal.n > 2")+rule("c",
			"action.level > 1")+rule("d", "true")), []string{"a"}},
		{"a signal", group(pack("x", "2m"), rule("a", "action.tool in lists.some")+rule("b", "signal.n > 2")+rule("c",
			"action.level > 1")+rule("d", "true")), []string{"b"}},
		{"a rule changed, one gone, one new", group(pack("x", "1m"), rule("a", "action.tool in lists.some")+rule("b",
			"signal.n > 2")+rule("c", "action.level > 2")+rule("e", "true")), []string{"c", "d", "e"}},
		{"the group", nil, []string{"a", "b", "c", "d"}},
	} {
		if got := Changed(base, c.ev); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
