package rules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lazaret/pkg/internal/randomrules"
	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/signals/index"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"

	"lazaret/streams"
)

// A traced evaluation must give the same result as one without tracing. The text of each traced part must be an
// expression that has the value of this part.
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
			fmt.Fprintf(&b, "  - {id: r%d, title: T, severity: low, subject: action, message: \"'m'\", on: [action, memory, "+
				"observation], effect: alert, when: %q}\n", i, randomrules.Expr(r, r.IntN(4)))
		}
		set := testSet(t, map[string]string{"p/r.yaml": b.String(),
			"p/pack.yaml": "name: p\ntitle: T\nlists:\n  some: [alpha, Beta, tar]\nmacros:\n" +
				"  m0: event.tool in lists.some\n  m1: \"macros.m0 && content.text.contains('password')\"\n  m2: " +
				"\"content.views.exists(v, v.matches('ign[o0]re|kelvin'))\"\n" +
				"signals:\n  - {name: n, doc: d, count: {on: [action, memory], key: event.agent, window: 10s}}\n"})
		w := &traceWatch{t: t, sc: set.Scopes["p"], n: &evaluated}
		ev, st := set.Group("core").Exhaustive(), index.NewMemStore()
		for i := range 20 {
			e := randomrules.Entry(r, i+1)
			if _, err := ev.Watch(st, e, w); err != nil {
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
	sc *compiled.Scope
	n  *int
}

func (*traceWatch) Before(*Rule) {}

func (w *traceWatch) After(act *compiled.Activation, r *Rule, _ []streams.Alert) {
	show := func(v ref.Val, err error) string {
		if err != nil {
			return "error"
		}
		return fmt.Sprint(v)
	}
	want := show(r.When.Eval(act))
	ids := make(map[int64]bool)
	tr, err := w.sc.Trace(r.When.Source)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range compiled.Branches(tr.AST.Expr()) {
		ids[e.ID()] = true
		if _, iss := w.sc.Env.Parse(tr.Text(e)); iss.Err() != nil {
			w.t.Errorf("a part of %s reads %s: %v", r.When.Source, tr.Text(e), iss.Err())
		}
	}
	ta := &compiled.TracedActivation{Activation: act, Defs: w.sc.Tracer()}
	for _, opt := range []cel.ProgramOption{cel.EvalOptions(cel.OptExhaustiveEval),
		compiled.WatchOperands(ids, func(int64, ref.Val) {})} {
		tr, err := w.sc.Trace(r.When.Source, opt)
		if err != nil {
			w.t.Fatal(err)
		}
		v, _, err := tr.Program.Eval(ta)
		if got := show(v, err); got != want {
			w.t.Errorf("%s: %s, want %s", r.When.Source, got, want)
		}
		*w.n++
	}
}
