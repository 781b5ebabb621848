package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"lazaret/pkg/internal/randomrules"
	"lazaret/pkg/signals/index"

	"lazaret/streams"
)

// The index must not leave out a rule that would fire or fail: with and without it, random rules must give the same
// alerts.
func TestTheIndexFindsWhatEvaluatingEveryRuleFinds(t *testing.T) {
	sets, perSet, events := 40, 60, 150
	if testing.Short() {
		sets = 8
	}
	fired, pruned := 0, 0
	for seed := range sets {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range perSet {
			fmt.Fprintf(&b, "  - id: r%d\n    title: T\n    severity: low\n    subject: action\n    message: \"'m'\"\n    on: "+
				"[action, memory, observation]\n    effect: hold\n    on_error: deny\n    when: %q\n", i,
				randomrules.Expr(r, r.IntN(4)))
		}
		set := testSet(t, map[string]string{"p/r.yaml": b.String(),
			"p/pack.yaml": "name: p\ntitle: T\nlists:\n  some: [alpha, Beta, tar]\nmacros:\n" +
				"  m0: event.tool in lists.some\n  m1: \"macros.m0 && content.text.contains('password')\"\n  m2: " +
				"\"content.views.exists(v, v.matches('ign[o0]re|kelvin'))\"\n" +
				"signals:\n  - {name: n, doc: d, count: {on: [action, memory], key: event.agent, window: 10s}}\n"})
		fast, slow := set.Group("core"), *set.Group("core")
		slow.exhaustive = true
		st1, st2 := index.NewMemStore(), index.NewMemStore()
		for i := range events {
			e := randomrules.Entry(r, i+1)
			want, err := slow.Eval(st1, e)
			if err != nil {
				t.Fatal(err)
			}
			got, err := fast.Eval(st2, e)
			if err != nil {
				t.Fatal(err)
			}
			x, y := ids(want.Alerts), ids(got.Alerts)
			if !slices.Equal(x, y) || want.Verdict != got.Verdict {
				for _, id := range x {
					if !slices.Contains(y, id) {
						name, _, _ := strings.Cut(id, " ")
						t.Errorf("seed %d, event %d: the index leaves out %s: %s\n%s", seed, i, id, set.Rule(name).doc.When, e.Body)
					}
				}
				t.FailNow()
			}
			fired += len(x)
			pruned += perSet - len(y)
		}
	}
	if fired == 0 || pruned == 0 {
		t.Fatalf("%d alerts, %d rules left out: the test shows nothing", fired, pruned)
	}
}

func ids(as []streams.Alert) []string {
	var out []string
	for _, a := range as {
		out = append(out, a.Rule+" "+a.Error)
	}
	return out
}

func testSet(t testing.TB, files map[string]string) *Set {
	t.Helper()
	fsys := fstest.MapFS{"groups.yaml": {Data: []byte("groups:\n  core: [p]\n")}}
	for name, s := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(s)}
	}
	b, err := Pack(fsys)
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
	return set
}
