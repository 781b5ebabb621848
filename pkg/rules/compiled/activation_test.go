package compiled

import (
	"math/rand/v2"
	"testing"
	"time"

	"lazaret/pkg/internal/randomrules"
	"lazaret/pkg/signals"
	"lazaret/pkg/signals/index"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// testScope returns the names that expressions of a pack may use: the built-in names, a list,
// macros and a signal.
func testScope(t *testing.T) *Scope {
	t.Helper()
	env, err := BaseEnv()
	if err != nil {
		t.Fatal(err)
	}
	s := NewScope(env, NewVars())
	for _, d := range [][2]string{{"lists.some", "['alpha', 'Beta', 'tar']"}, {"macros.m0", "event.tool in lists.some"},
		{"macros.m1", "macros.m0 && content.text.contains('password')"},
		{"macros.m2", "content.views.exists(v, v.matches('ign[o0]re|kelvin'))"}} {
		if err := s.Define(d[0], d[1], nil); err != nil {
			t.Fatal(err)
		}
	}
	key, err := s.Compile("event.agent", cel.StringType)
	if err != nil {
		t.Fatal(err)
	}
	n := &signals.Declared{Name: "signal.n", On: map[string]bool{"action": true, "memory": true},
		Window: 10 * time.Second, Max: 1024}
	if err := s.Declare(n, "d", key, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// No condition may be true for an event that does not meet the condition's prefilter. The test tries random conditions
// and events.
func TestWhatFailsTheTestIsNotTrue(t *testing.T) {
	s, r := testScope(t), rand.New(rand.NewPCG(7, 7))
	spared, true_ := 0, 0
	for range 300 {
		src := randomrules.Expr(r, r.IntN(4))
		x, err := s.Compile(src, cel.BoolType)
		if err != nil {
			t.Fatal(err)
		}
		need, act, st := newSoloPrefilter(s.Vars, x), NewActivation(s.Vars), index.NewMemStore()
		for i := range 60 {
			e := randomrules.Entry(r, i+1)
			ins, err := signals.Read(e)
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range ins {
				sig := signals.NewState(index.Open(st, e.Project), in)
				act.Reset(in, &sig)
				sig.Note(signals.AllParts)
				meets, is := need.meets(act), x.IsTrue(act)
				if is && !meets {
					t.Fatalf("%s is true for an event that does not meet its prefilter:\n%s", src, e.Body)
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

// A concatenation of fields and constants is joined without CEL. The result must equal CEL's result.
func TestJoinedTextsAreWhatEvaluationGives(t *testing.T) {
	s, r := testScope(t), rand.New(rand.NewPCG(8, 8))
	for src, joined := range map[string]bool{
		"event.agent":                           true,
		"event.agent + '/' + event.session":     true,
		"'a' + (event.tool + 'b') + memory.key": true,
		"event.external ? event.kind : 'x'":     false,
	} {
		x, err := s.Compile(src, cel.StringType)
		if err != nil {
			t.Fatal(src, err)
		}
		if (x.joined != nil) != joined {
			t.Errorf("%s: joined without CEL: %v, want %v", src, x.joined != nil, joined)
		}
		act := NewActivation(s.Vars)
		for i := range 50 {
			ins, err := signals.Read(randomrules.Entry(r, i+1))
			if err != nil {
				t.Fatal(err)
			}
			act.Reset(ins[0], nil)
			v, err := x.Eval(act)
			if got, ok := x.Text(act); err != nil || !ok || types.String(got) != v {
				t.Fatalf("%s: %q, evaluation gives %v, %v", src, got, v, err)
			}
		}
	}
}
