package compiled

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lazaret/pkg/internal/randomrules"
	"lazaret/pkg/signals"
	"lazaret/pkg/signals/index"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// conditionOf returns the source of a random condition. Some of its parts can be compiled to Go, some can only be
// evaluated by CEL, and some fail. vars are the loop variables that it may use.
func conditionOf(r *rand.Rand, depth int, vars ...string) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	word := func() string { return fmt.Sprintf("%q", randomrules.Words[r.IntN(len(randomrules.Words))]) }
	str := func() string {
		if len(vars) > 0 && r.IntN(2) == 0 {
			return pick(vars...)
		}
		return pick("event.tool", "event.origin", "content.text", "memory.key.lowerAscii()", "content.text.lowerAscii()",
			"memory.belief.truth", "('x' + event.tool)", "'%s: %d%%, %s'.format([event.tool, event.size, content.text])",
			"content.kinds.join(', ')",
			"content.carriers.filter(f, f.contains('a')).join(';')", "'%s'.format([content.views[1]])", word())
	}
	num := func() string {
		return pick("action.level", "event.size", "content.text.size()", "size(content.views)", "signal.cluster_size",
			"signal.n", "-1", "0", "2", "9223372036854775807",
			"action.level * 3", "event.size - 7", "event.size / action.level", "event.size % 3",
			"(action.level + 9223372036854775807)", "content.views[1].size()")
	}
	list := func() string {
		return pick("content.views", "content.carriers", "action.effects", "content.kinds", "signal.novel",
			"['alpha', 'tar', 'x1']", "lists.some", "['alpha', event.tool]",
			"content.views.filter(f, f.size() > 2 || f == event.tool)", "content.views.filter(f, f == content.views[2])")
	}
	if depth > 0 {
		a, b := conditionOf(r, depth-1, vars...), conditionOf(r, depth-1, vars...)
		switch r.IntN(8) {
		case 0, 1:
			return "(" + a + " && " + b + ")"
		case 2, 3:
			return "(" + a + " || " + b + ")"
		case 4:
			return "!(" + a + ")"
		case 5:
			return "(" + a + " ? " + b + " : " + conditionOf(r, depth-1, vars...) + ")"
		}
		v := fmt.Sprintf("v%d", len(vars))
		return list() + "." + pick("exists", "all") + "(" + v + ", " + conditionOf(r, depth-1,
			append(slices.Clone(vars), v)...) + ")"
	}
	cmp := func() string { return pick(" == ", " != ", " < ", " <= ", " > ", " >= ") }
	switch r.IntN(14) {
	case 0, 1:
		return str() + cmp() + str()
	case 2, 3:
		return num() + cmp() + num()
	case 4:
		return str() + " in " + list()
	case 5:
		return num() + " in [0, 1, 2, 9]"
	case 6:
		return str() + "." + pick("contains", "startsWith", "endsWith") + "(" + str() + ")"
	case 7:
		return pick("content.entropy", "action.confidence", "memory.age", "0.5") + cmp() + pick("content.entropy", "-1.0",
			"2.5")
	case 8:
		return pick("event.external", "content.has_hidden", "signal.user_named", "memory.belief.found", "true") +
			pick(" == ", " != ") + pick("true", "event.external")
	case 9:
		return "action.lineage." + pick("exists", "all") + "(l, " + pick("l.user", "l.new", "l.age >= 0.0",
			"l.carried in ['email', 'host'] && !l.user", "l.value.contains("+str()+")") + ")"
	case 10:
		return "action.beliefs." + pick("exists", "all") +
			"(b, b.quality == 'external_document' || b.confidence < 0.5 || b.source == " + str() + ")"
	case 11:
		return str() + fmt.Sprintf(".matches(%q)", pick(`(?i)pass(word|phrase)`, `a+b*`, `[a-z]{3,}x1`))
	case 12:
		return pick("signal.echo.size() > 0", "event.time > timestamp(0)", "has(action.args.n)", "int(action.args.n) > 3",
			"content.views[7] == 'x'", "1 / action.level > 0",
			"content.views.exists_one(v, v == 'alpha')", "content.views.map(v, v.size()).exists(n, n > 3)")
	}
	return list() + ".size()" + cmp() + num()
}

// Go functions compiled from random conditions must give the value that CEL gives. If CEL fails, they must give no
// value.
func TestClosuresAreWhatEvaluationGives(t *testing.T) {
	s, r := testScope(t), rand.New(rand.NewPCG(11, 11))
	n := 1500
	if testing.Short() {
		n = 500
	}
	have, said, failed := 0, map[bool]int{}, 0
	for range n {
		src := conditionOf(r, r.IntN(5))
		x, err := s.Compile(src, cel.BoolType)
		if err != nil && strings.Contains(err.Error(), "nest fewer loops") {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if x.goFlag == nil {
			continue
		}
		have++
		act, st := NewActivation(s.Vars), index.NewMemStore()
		for i := range 25 {
			ins, err := signals.Read(randomrules.Entry(r, i+1))
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range ins {
				sig := signals.NewState(index.Open(st, "p"), in)
				act.Reset(in, &sig)
				sig.Note(signals.AllParts)
				got, ok := x.goFlag(act)
				want, _, err := x.fast.Eval(act)
				switch {
				case err != nil && ok:
					t.Fatalf("%s: CEL fails with %v, but the Go function returns %v for %+v", src, err, got, in)
				case err != nil:
					failed++
				case ok && types.Bool(got) != want:
					t.Fatalf("%s: CEL returns %v, but the Go function %v for %+v", src, want, got, in)
				case ok:
					said[got]++
				}
			}
		}
	}
	t.Logf("%d of %d have closures, which said true %d times, false %d times, and failed with CEL %d times", have, n,
		said[true], said[false], failed)
	if have < n/4 || said[true] < n || said[false] < n || failed == 0 {
		t.Error("the test shows little")
	}
}

// A compiled expression reads fields by offset. For every field, it must read the value that package reflect reads.
func TestClosuresReadTheFieldThatTheyName(t *testing.T) {
	vars, r := BaseVars(), rand.New(rand.NewPCG(13, 13))
	act := NewActivation(vars)
	for range 200 {
		in := signals.NewInput()
		for _, v := range vars.List {
			if v.Signal == nil {
				randomize(r, reflect.ValueOf(in).Elem().Field(v.field[0]).Field(v.field[1]))
			}
		}
		act.Reset(in, nil)
		for i, v := range vars.List {
			if v.Signal != nil {
				continue
			}
			compareField(t, v.Name, input(v), act, act.native(i))
		}
	}
}

func compareField(t *testing.T, name string, c *goExpr, act *Activation, want reflect.Value) {
	t.Helper()
	if c == nil {
		if k := want.Kind(); k != reflect.Map && k != reflect.Struct {
			t.Fatalf("%s, of type %s, is not compiled to Go", name, want.Type())
		}
		return
	}
	var got any
	var ok bool
	switch {
	case c.Flag != nil:
		got, ok = c.Flag(act)
	case c.num != nil:
		got, ok = c.num(act)
	case c.real != nil:
		got, ok = c.real(act)
	case c.text != nil:
		got, ok = c.text(act)
	case c.texts != nil:
		got, ok = c.texts(act)
	case c.rec != nil:
		var rec any
		rec, ok = c.rec(act)
		if ok = ok && reflect.ValueOf(rec).Pointer() == want.Pointer(); !ok {
			t.Fatalf("%s is another structure", name)
		}
		cl := goCompiler{vars: act.Vars, times: 1}
		for i := range want.Elem().NumField() {
			f := want.Elem().Type().Field(i)
			if !f.IsExported() {
				continue
			}
			compareField(t, name+"."+f.Name, cl.member(c, f.Tag.Get("cel")), act, want.Elem().Field(i))
		}
		return
	case c.Recs != nil:
		recs, some := c.Recs(act)
		if !some || len(recs) != want.Len() {
			t.Fatalf("%s has %d elements, want %d", name, len(recs), want.Len())
		}
		for i := range recs {
			if reflect.ValueOf(recs[i]).Pointer() != want.Index(i).Pointer() {
				t.Fatalf("%s: element %d is another structure", name, i)
			}
		}
		return
	}
	if !ok || !reflect.DeepEqual(got, want.Interface()) {
		t.Fatalf("%s is %v (%v), want %v", name, got, ok, want)
	}
}

func randomize(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint(r.Uint64()))
	case reflect.Int64:
		v.SetInt(r.Int64())
	case reflect.Float64:
		v.SetFloat(r.Float64())
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			randomize(r, v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		for i := range v.Elem().NumField() {
			if f := v.Elem().Field(i); f.CanSet() {
				randomize(r, f)
			}
		}
	}
}
