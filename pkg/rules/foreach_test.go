package rules

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lazaret/pkg/internal/randomrules"
	"lazaret/pkg/signals/index"

	"lazaret/rules"
)

// A rule with for_each must fire for the same elements, and fail for the same elements, whether it is compiled to Go or
// evaluated by CEL.
func TestClosuresForEachElementAreWhatEvaluationGives(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 60 {
		pick := func(s ...string) string { return s[r.IntN(len(s))] }
		atom := func() string {
			return pick("it.quality == 'external_document'", "it.confidence < 0.5", "it.found", "it.id == event.tool",
				"it.source.contains('evil')", "it.id in ['b', 'c']", "it.found == event.external",
				"1 / action.level > 0", "it.confidence > 0.2 && action.level > 2", "content.views.exists(v, v.contains(it.id))")
		}
		list := pick("action.beliefs", "decision.beliefs", "event.kind == 'action' ? action.beliefs : decision.beliefs",
			"action.beliefs.filter(b, b.found)")
		fmt.Fprintf(&b, "  - {id: r%d, title: T, severity: low, on: [action, memory], effect: hold, on_error: deny, "+
			"subject: belief, subject_id: it.id, message: \"'m ' + it.id\", for_each: %q, when: %q}\n",
			i, list, atom()+pick(" && ", " || ")+atom())
	}
	set := testSet(t, map[string]string{"p/pack.yaml": "name: p\ntitle: T\n", "p/r.yaml": b.String()})
	plain := testSet(t, map[string]string{"p/pack.yaml": "name: p\ntitle: T\n", "p/r.yaml": b.String()})
	have, fired := 0, 0
	for _, rule := range plain.rules {
		if rule.EachHasGo() {
			have++
		}
		rule.Interpret()
	}
	st, st2 := index.NewMemStore(), index.NewMemStore()
	for i := range 300 {
		e := randomrules.Entry(r, i+1)
		got, err := set.Group("core").Eval(st, e)
		if err != nil {
			t.Fatal(err)
		}
		want, err := plain.Group("core").Eval(st2, e)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("event %s\ncompiled to Go: %+v\nby CEL: %+v", e.Body, got, want)
		}
		fired += len(got.Alerts)
	}
	t.Logf("%d rules have closures, %d alerts", have, fired)
	if have < 20 || fired < 100 {
		t.Error("the test shows little")
	}
}

// All conditions of the shipped rules and signals must be compiled to Go, except those listed here.
func TestShippedConditionsHaveClosures(t *testing.T) {
	without := []string{"hook-removed"}
	b, err := Pack(rules.FS())
	if err != nil {
		t.Fatal(err)
	}
	src, err := Open(b)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range set.rules {
		if !r.When.HasGo() && !r.EachHasGo() {
			got = append(got, r.ID)
		}
	}
	for _, d := range set.Declared {
		for i, st := range d.StepExprs {
			if !st.HasGo() {
				got = append(got, fmt.Sprintf("%s, step %d", d.Name, i+1))
			}
		}
	}
	if !slices.Equal(got, without) {
		t.Errorf("conditions that are not compiled to Go: %q, want %q", got, without)
	}
}
