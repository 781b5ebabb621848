package compiled

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"lazaret/pkg/signals"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// If Outcomes says that a random condition cannot be true, or cannot be false, that outcome must not occur with any
// random event.
func TestConditionsThatCannotBeNeverAre(t *testing.T) {
	env, err := BaseEnv()
	if err != nil {
		t.Fatal(err)
	}
	vars := BaseVars()
	sc := NewScope(env, vars)
	told := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		leaf := func() string {
			switch r.IntN(8) {
			case 0, 1:
				return fmt.Sprintf("action.tool %s '%s'", []string{"==", "!="}[r.IntN(2)], []string{"a", "b", ""}[r.IntN(3)])
			case 2:
				if op := []string{"==", "!=", "<", "<=", ">", ">="}[r.IntN(6)]; op[1:] == "=" && op[0] != '<' && op[0] != '>' {
					return fmt.Sprintf("action.level %s %d", op, r.IntN(3))
				} else {
					return fmt.Sprintf("action.level %s %s", op, []string{"1", "2", "1.5", "0"}[r.IntN(4)])
				}
			case 3:
				return fmt.Sprintf("%s %s action.confidence", []string{"0.5", "1.0", "-1.0"}[r.IntN(3)],
					[]string{"==", "<", "<=", ">", ">="}[r.IntN(5)])
			case 4:
				return "action.tool.lowerAscii() in ['a', 'B']"
			case 5:
				return []string{"event.external", "'a' in action.effects", "size(action.effects) > 0",
					"action.effects.size() < 1", "event.kind == 'action'"}[r.IntN(5)]
			case 6:
				return fmt.Sprintf("size('abc') > %d", r.IntN(5))
			}
			return "action.effects.exists(e, e == 'a')"
		}
		var cond func(depth int) string
		cond = func(depth int) string {
			if depth == 0 {
				return leaf()
			}
			x, y := cond(depth-1), cond(depth-1)
			switch r.IntN(6) {
			case 0, 1:
				return "(" + x + " && " + y + ")"
			case 2, 3:
				return "(" + x + " || " + y + ")"
			case 4:
				return "!(" + x + ")"
			}
			return "(" + x + " ? " + y + " : " + leaf() + ")"
		}
		src := cond(1 + r.IntN(2))
		x, err := sc.Compile(src, cel.BoolType)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		canHold, canFail := Outcomes(vars, x.AST, []string{"action", "memory"})
		if canHold && canFail {
			continue
		}
		told++
		if !canHold && !canFail {
			t.Fatalf("%s can be neither true nor false", src)
		}
		for range 60 {
			in := signals.NewInput()
			in.Event.Kind = []string{"action", "memory"}[r.IntN(2)]
			in.Action.Tool = []string{"a", "A", "b", "B", "", "c"}[r.IntN(6)]
			in.Action.Level = int64(r.IntN(5)) - 1
			in.Action.Confidence = []float64{-1, 0, 0.2, 0.5, 0.7, 1, 2}[r.IntN(7)]
			in.Event.External = r.IntN(2) == 0
			in.Action.Effects = []string{"a", "b"}[:r.IntN(3)]
			act := NewActivation(vars)
			act.Reset(in, nil)
			v, err := x.Eval(act)
			if err != nil {
				t.Fatal(err)
			}
			if v == types.True && !canHold || v == types.False && !canFail {
				t.Fatalf("%s is %v for %+v", src, v, in.Action)
			}
		}
	}
	if told < 100 {
		t.Errorf("only %d conditions were constant", told)
	}
}
