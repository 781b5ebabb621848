package rules

import (
	"reflect"
	"strings"
	"unicode/utf8"
	"unsafe"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// activation gives expressions the values of their names, each computed when
// it is first asked for.
type activation struct {
	table *varTable
	in    *Input
	sig   *signals
	root  reflect.Value // of in
	it    ref.Val
	vals  []ref.Val
	used  []int // values that are set
	raws  []any // of signals, as Go has them
	read  []int // those that are set
	limit bool  // the input is larger than costs were estimated for

	// Of closures: loops' variables, by depth, and the text that was measured last.
	loops   [maxNested + 1]loopVar
	counted string
	count   int64
}

func newActivation(table *varTable) *activation {
	return &activation{table: table, vals: make([]ref.Val, len(table.vars)), raws: make([]any, len(table.vars))}
}

// reset turns to another input.
func (a *activation) reset(in *Input, sig *signals) {
	for _, i := range a.used {
		a.vals[i] = nil
	}
	a.used = a.used[:0]
	for _, i := range a.read {
		a.raws[i] = nil
	}
	a.read, a.loops, a.counted, a.count = a.read[:0], [maxNested + 1]loopVar{}, "", 0
	a.in, a.sig, a.it, a.limit = in, sig, types.NullValue, false
	if in != nil {
		a.root, a.limit = reflect.ValueOf(in).Elem(), in.large
	}
	if sig != nil {
		sig.act = a
	}
}

// ResolveName implements cel.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	if i, ok := a.table.index[name]; ok {
		return a.value(i), true
	}
	if name == "it" {
		return a.it, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (a *activation) Parent() cel.Activation { return nil }

// native is a field of the input as Go has it.
func (a *activation) native(i int) reflect.Value {
	f := a.table.vars[i].field
	return a.root.Field(f[0]).Field(f[1])
}

func (a *activation) value(i int) ref.Val {
	if v := a.vals[i]; v != nil {
		return v
	}
	var v ref.Val
	if a.table.vars[i].sig == nil {
		v = toVal(a.native(i))
	} else if x := a.raw(i); isError(x) {
		v = types.WrapErr(x.(error))
	} else {
		v = toVal(reflect.ValueOf(x))
	}
	a.vals[i] = v
	a.used = append(a.used, i)
	return v
}

// raw is the value of a signal: of its type, or an error.
func (a *activation) raw(i int) any {
	if x := a.raws[i]; x != nil {
		return x
	}
	d := a.table.vars[i]
	x := d.sig.read(a.sig)
	if x == nil {
		x = reflect.Zero(d.goTyp).Interface()
	}
	a.raws[i] = x
	a.read = append(a.read, i)
	return x
}

func isError(x any) bool {
	_, is := x.(error)
	return is
}

// runes is the length of a text in runes. Many rules ask for the same one's.
func (a *activation) runes(s string) int64 {
	if len(s) != len(a.counted) || unsafe.StringData(s) != unsafe.StringData(a.counted) {
		a.counted, a.count = s, int64(utf8.RuneCountInString(s))
	}
	return a.count
}

// eval evaluates an expression: without counting its cost where the estimate
// holds, and by its closure where that has a value; else up to CostLimit.
func (x *expr) eval(a *activation) (ref.Val, error) {
	p := x.fast
	if a.limit || x.cost > CostLimit {
		var err error
		if p, err = x.tracked(); err != nil {
			return nil, err
		}
	} else if x.code != nil {
		if v, ok := x.code(a); ok {
			return types.Bool(v), nil
		}
	}
	v, _, err := p.Eval(a)
	return v, err
}

func (x *expr) isTrue(a *activation) bool {
	v, err := x.eval(a)
	return err == nil && v == types.True
}

// text evaluates an expression that is a text.
func (x *expr) text(a *activation) (string, bool) {
	if x.joined != nil {
		var buf [4]string
		parts := buf[:0]
		for _, p := range x.joined {
			parts = append(parts, p.of(a))
		}
		return strings.Join(parts, ""), true
	}
	if x.say != nil && !a.limit && x.cost <= CostLimit {
		if s, ok := x.say(a); ok {
			return s, true
		}
	}
	v, err := x.eval(a)
	s, ok := v.(types.String)
	return string(s), err == nil && ok
}

// joint is a part of a text that is put together: a field, or a constant.
type joint struct {
	v    int // number of the variable; -1: a constant
	text string
}

func (p *joint) of(a *activation) string {
	if p.v < 0 {
		return p.text
	}
	return a.native(p.v).String()
}

// joints takes an expression of fields and constants with + between them apart,
// as the keys of most signals are; nil for any other.
func joints(vars *varTable, e ast.Expr) []joint {
	switch e.Kind() {
	case ast.LiteralKind:
		if s, ok := e.AsLiteral().(types.String); ok {
			return []joint{{-1, string(s)}}
		}
	case ast.IdentKind, ast.SelectKind:
		if i, ok := vars.index[qualified(e)]; ok && vars.vars[i].sig == nil && vars.vars[i].goTyp == reflect.TypeFor[string]() {
			return []joint{{v: i}}
		}
	case ast.CallKind:
		if c := e.AsCall(); c.FunctionName() == operators.Add && len(c.Args()) == 2 {
			x, y := joints(vars, c.Args()[0]), joints(vars, c.Args()[1])
			if x != nil && y != nil {
				return append(x, y...)
			}
		}
	}
	return nil
}
