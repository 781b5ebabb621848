package rules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"

	"lazaret/streams"
)

// What is evaluated for people gives what is evaluated for alerts, and the text
// of each part is an expression that gives the part.
func TestTracedExpressionsAreTheOnesThatDecide(t *testing.T) {
	sets := 8
	if testing.Short() {
		sets = 2
	}
	evaluated := 0
	for seed := range sets {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range 20 {
			fmt.Fprintf(&b, "  - {id: r%d, title: T, severity: low, subject: action, message: \"'m'\", on: [action, memory, observation], effect: alert, when: %q}\n", i, randomExpr(r, r.IntN(4)))
		}
		set := testSet(t, map[string]string{"p/r.yaml": b.String(), "p/pack.yaml": "name: p\ntitle: T\nlists:\n  some: [alpha, Beta, tar]\nmacros:\n" +
			"  m0: event.tool in lists.some\n  m1: \"macros.m0 && content.text.contains('password')\"\n  m2: \"content.views.exists(v, v.matches('ign[o0]re|kelvin'))\"\n" +
			"signals:\n  - {name: n, doc: d, count: {on: [action, memory], key: event.agent, window: 10s}}\n"})
		w := &traceWatch{t: t, sc: set.scopes["p"], n: &evaluated}
		ev, st := *set.Group("core"), NewMemStore()
		ev.exhaustive = true
		for i := range 20 {
			e := randomEntry(r, i+1)
			inputs, err := read(e)
			if err == nil {
				_, err = ev.judge(st, e, inputs, w)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if evaluated == 0 {
		t.Error("nothing was evaluated: the test shows nothing")
	}
}

type traceWatch struct {
	t  *testing.T
	sc *scope
	n  *int
}

func (w *traceWatch) input(*work, []int32) {}

func (*traceWatch) before(*Rule) {}

func (w *traceWatch) rule(act *activation, r *Rule, _ []streams.Alert) {
	show := func(v ref.Val, err error) string {
		if err != nil {
			return "error"
		}
		return fmt.Sprint(v)
	}
	want := show(r.when.eval(act))
	ids := make(map[int64]bool)
	tr, err := w.sc.trace(r.when.src)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range branches(tr.ast.Expr()) {
		ids[e.ID()] = true
		if _, iss := w.sc.env.Parse(tr.text(e)); iss.Err() != nil {
			w.t.Errorf("a part of %s reads %s: %v", r.when.src, tr.text(e), iss.Err())
		}
	}
	ta := &tracedAct{act, w.sc.tracer()}
	for _, opt := range []cel.ProgramOption{cel.EvalOptions(cel.OptExhaustiveEval), watchOperands(ids, func(int64, ref.Val) {})} {
		tr, err := w.sc.trace(r.when.src, opt)
		if err != nil {
			w.t.Fatal(err)
		}
		v, _, err := tr.prog.Eval(ta)
		if got := show(v, err); got != want {
			w.t.Errorf("%s: %s, want %s", r.when.src, got, want)
		}
		*w.n++
	}
}

func TestSpansAreWhatWasWritten(t *testing.T) {
	env, err := baseEnv()
	if err != nil {
		t.Fatal(err)
	}
	sc := &scope{env: env, vars: baseVars(), defs: map[string]*cel.Ast{}}
	for src, want := range map[string]string{
		"!(event.external && memory.external) || size(content.views) > -1":                   "event.external | memory.external | !(event.external && memory.external) | size(content.views) > -1",
		"(event.tool == 'é)' || event.source.size() > 3)\n  && 'x' in [event.tool, 'y']":     "event.tool == 'é)' | event.source.size() > 3 | 'x' in [event.tool, 'y']",
		"action.beliefs.exists(b, b.found && b.id != \"(\") ? event.synthetic : true":        "action.beliefs.exists(b, b.found && b.id != \"(\") | b.found | b.id != \"(\"",
		"content.views.filter(v, v.contains('a') || v == 'b').size() == 2 && event.external": "content.views.filter(v, v.contains('a') || v == 'b').size() == 2 | v.contains('a') | v == 'b' | event.external",
		"signal.echo.all(s, !s.user_named) && action.args.x[0].y == 3":                       "signal.echo.all(s, !s.user_named) | action.args.x[0].y == 3",
	} {
		tr, err := sc.trace(src)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		seen := make(map[string]bool)
		for _, e := range branches(tr.ast.Expr()) {
			s := tr.text(e)
			got, seen[s] = append(got, s), true
		}
		for _, s := range strings.Split(want, " | ") {
			if !seen[s] {
				t.Errorf("%s: no part reads %s: %q", src, s, got)
			}
		}
		if n := len(strings.Split(want, " | ")); len(got) != n {
			t.Errorf("%s: %d parts, want %d: %q", src, len(got), n, got)
		}
	}
}
