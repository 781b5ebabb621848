package compiled

import (
	"reflect"
	"strings"
	"unicode/utf8"
	"unsafe"

	"lazaret/pkg/signals"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Activation provides the values of the names in expressions. A name's value is computed when an expression first uses
// it.
type Activation struct {
	Vars  *Vars
	In    *signals.Input
	sig   *signals.State
	root  reflect.Value // reflect value of In
	It    ref.Val
	vals  []ref.Val
	used  []int // indexes of the values that are set
	raws  []any // values of signals as Go values
	read  []int // indexes of the raws that are set
	Large bool  // set if the input exceeds the sizes for which costs were estimated, so that costs must be counted

	// State that Go expressions use: the values of loop variables by depth of the loop, and the text that was measured
	// last and its length.
	Loops   [maxNested + 1]loopVar
	counted string
	count   int64
}

// NewActivation returns an activation without an input.
func NewActivation(table *Vars) *Activation {
	return &Activation{Vars: table, vals: make([]ref.Val, len(table.List)), raws: make([]any, len(table.List))}
}

// Reset sets another input.
func (a *Activation) Reset(in *signals.Input, sig *signals.State) {
	for _, i := range a.used {
		a.vals[i] = nil
	}
	a.used = a.used[:0]
	for _, i := range a.read {
		a.raws[i] = nil
	}
	a.read, a.Loops, a.counted, a.count = a.read[:0], [maxNested + 1]loopVar{}, "", 0
	a.In, a.sig, a.It, a.Large = in, sig, types.NullValue, false
	if in != nil {
		a.root, a.Large = reflect.ValueOf(in).Elem(), in.Large
	}
	if sig != nil {
		sig.SetActivation(a)
	}
}

// ResolveName implements cel.Activation.
func (a *Activation) ResolveName(name string) (any, bool) {
	if i, ok := a.Vars.Number[name]; ok {
		return a.Value(i), true
	}
	if name == "it" {
		return a.It, true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (a *Activation) Parent() cel.Activation { return nil }

// native returns the field of the input for variable number i, as a Go value.
func (a *Activation) native(i int) reflect.Value {
	f := a.Vars.List[i].field
	return a.root.Field(f[0]).Field(f[1])
}

// Value returns the value of variable number i.
func (a *Activation) Value(i int) ref.Val {
	if v := a.vals[i]; v != nil {
		return v
	}
	var v ref.Val
	if a.Vars.List[i].Signal == nil {
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

// raw returns the value of signal i: a Go value of the signal's type, or an error.
func (a *Activation) raw(i int) any {
	if x := a.raws[i]; x != nil {
		return x
	}
	d := a.Vars.List[i]
	x := d.Signal.Read(a.sig)
	if x == nil {
		x = reflect.Zero(d.GoType).Interface()
	}
	a.raws[i] = x
	a.read = append(a.read, i)
	return x
}

func isError(x any) bool {
	_, is := x.(error)
	return is
}

// runes returns the length of a text in runes. It caches the last result, because many rules
// measure the same text.
func (a *Activation) runes(s string) int64 {
	if len(s) != len(a.counted) || unsafe.StringData(s) != unsafe.StringData(a.counted) {
		a.counted, a.count = s, int64(utf8.RuneCountInString(s))
	}
	return a.count
}

// Eval evaluates an expression. If the estimate proves that the cost is at most CostLimit, Eval does not count the
// cost, and uses the compiled Go functions if they give a value. Otherwise CEL evaluates the expression, counts the
// cost, and fails at CostLimit.
func (x *Expr) Eval(a *Activation) (ref.Val, error) {
	p := x.fast
	if a.Large || x.Cost > CostLimit {
		var err error
		if p, err = x.tracked(); err != nil {
			return nil, err
		}
	} else if x.goFlag != nil {
		if v, ok := x.goFlag(a); ok {
			return types.Bool(v), nil
		}
	}
	v, _, err := p.Eval(a)
	return v, err
}

// IsTrue reports whether a condition is true. If the evaluation fails, IsTrue returns false.
func (x *Expr) IsTrue(a *Activation) bool {
	if x.goFlag != nil && !a.Large && x.Cost <= CostLimit {
		if v, ok := x.goFlag(a); ok {
			return v
		}
	}
	v, err := x.Eval(a)
	return err == nil && v == types.True
}

// Text evaluates an expression of type string. If the evaluation fails, ok is false.
func (x *Expr) Text(a *Activation) (string, bool) {
	if x.joined != nil {
		var buf [4]string
		parts := buf[:0]
		for _, p := range x.joined {
			parts = append(parts, p.of(a))
		}
		return strings.Join(parts, ""), true
	}
	if x.goText != nil && !a.Large && x.Cost <= CostLimit {
		if s, ok := x.goText(a); ok {
			return s, true
		}
	}
	v, err := x.Eval(a)
	s, ok := v.(types.String)
	return string(s), err == nil && ok
}

// joint is a part of a concatenation: a field, or a constant.
type joint struct {
	field bool
	at    uintptr // position of the field in the input
	text  string
}

func (p *joint) of(a *Activation) string {
	if p.field {
		return at[string](unsafe.Pointer(a.In), p.at)
	}
	return p.text
}

// joints splits a concatenation of fields and constants into its parts. Most keys of signals have this form. For any
// other expression, joints returns nil.
func joints(vars *Vars, e ast.Expr) []joint {
	switch e.Kind() {
	case ast.LiteralKind:
		if s, ok := e.AsLiteral().(types.String); ok {
			return []joint{{text: string(s)}}
		}
	case ast.IdentKind, ast.SelectKind:
		if i, ok := vars.Number[QualifiedName(e)]; ok && vars.List[i].Signal == nil &&
			vars.List[i].GoType == reflect.TypeFor[string]() {
			return []joint{{field: true, at: offsetOf(vars.List[i])}}
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
