package rules

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// testScope is what expressions of a pack without definitions may name.
func testScope(t *testing.T) *scope {
	t.Helper()
	set := testSet(t, map[string]string{"p/pack.yaml": "name: p\ntitle: T\nlists:\n  some: [alpha, Beta, tar]\n" +
		"macros:\n  m0: event.tool in lists.some\n  m1: \"macros.m0 && content.text.contains('password')\"\n  m2: \"content.views.exists(v, v.matches('ign[o0]re|kelvin'))\"\n" +
		"signals:\n  - {name: n, doc: d, count: {on: [action, memory], key: event.agent, window: 10s}}\n",
		"p/r.yaml": "rules:\n  - {id: r, title: T, severity: low, on: [action], when: action.level > 9, effect: alert, subject: action, message: \"'m'\"}\n"})
	s := set.scopes["p"]
	if s == nil {
		t.Fatal("no scope of the pack")
	}
	return s
}

// An event that does not meet a condition's need does not meet the condition.
func TestWhatFailsTheTestIsNotTrue(t *testing.T) {
	s, r := testScope(t), rand.New(rand.NewPCG(7, 7))
	spared, true_ := 0, 0
	for range 300 {
		src := randomExpr(r, r.IntN(4))
		x, err := s.compile(src, cel.BoolType)
		if err != nil {
			t.Fatal(err)
		}
		need, act, st := newTest(s.vars, x), newActivation(s.vars), NewMemStore()
		for i := range 60 {
			e := randomEntry(r, i+1)
			ins, err := read(e)
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range ins {
				sig := &signals{t: openTables(st, e.Project), in: in}
				act.reset(in, sig)
				sig.note(allNotes)
				meets, is := need.meets(act), x.isTrue(act)
				if is && !meets {
					t.Fatalf("%s is true of an event that fails its test:\n%s", src, e.Body)
				}
				if !meets {
					spared++
				}
				if is {
					true_++
				}
			}
		}
	}
	if spared == 0 || true_ == 0 {
		t.Fatalf("%d spared, %d true: the test shows nothing", spared, true_)
	}
}

// A text that is put together without CEL is the one that CEL makes.
func TestJoinedTextsAreWhatEvaluationGives(t *testing.T) {
	s, r := testScope(t), rand.New(rand.NewPCG(8, 8))
	for src, joined := range map[string]bool{
		"event.agent":                           true,
		"event.agent + '/' + event.session":     true,
		"'a' + (event.tool + 'b') + memory.key": true,
		"event.external ? event.kind : 'x'":     false,
	} {
		x, err := s.compile(src, cel.StringType)
		if err != nil {
			t.Fatal(src, err)
		}
		if (x.joined != nil) != joined {
			t.Errorf("%s: taken apart: %v, want %v", src, x.joined != nil, joined)
		}
		act := newActivation(s.vars)
		for i := range 50 {
			ins, err := read(randomEntry(r, i+1))
			if err != nil {
				t.Fatal(err)
			}
			act.reset(ins[0], nil)
			v, err := x.eval(act)
			if got, ok := x.text(act); err != nil || !ok || types.String(got) != v {
				t.Fatalf("%s: %q, evaluation gives %v, %v", src, got, v, err)
			}
		}
	}
}

// Identifiers and proper names are found as their plain definitions say.
func FuzzNamesInText(f *testing.F) {
	f.Add("call send_email or http.get, sendMoney, Ünï_code and a-b; x_ 9_lives Foo.Bar")
	f.Add("Maria Jane Lopez wrote to (Acme Corp). the Big Blue Sky Over Us ends 'Rome Italy'")
	f.Fuzz(func(t *testing.T, s string) {
		var want []uint32
		for _, w := range strings.FieldsFunc(s[:min(len(s), 64<<10)], func(r rune) bool { return notWord(r) && r != '_' && r != '.' && r != '-' }) {
			if h := hash32(stem(wholeName(w))); len(w) >= 6 && len(w) <= 100 && len(splitName(w)) >= 2 && !slices.Contains(want, h) && len(want) < maxNames {
				want = append(want, h)
			}
		}
		if got := identifiers(s); !slices.Equal(got, distinct(want)) {
			t.Errorf("%q: identifiers %v, want %v", s, got, want)
		}
		for _, n := range properNames(s) {
			words := strings.Fields(strings.TrimPrefix(n, "name:"))
			if len(words) < 2 || len(words) > 4 || !strings.Contains(strings.ToLower(s), words[0]) {
				t.Errorf("%q: proper name %q", s, n)
			}
		}
	})
}
