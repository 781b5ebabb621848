package rules

import (
	"reflect"

	"cel.dev/cel-go/cel"
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
	limit bool  // the input is larger than costs were estimated for
}

func newActivation(table *varTable) *activation {
	return &activation{table: table, vals: make([]ref.Val, len(table.vars))}
}

// reset turns to another input.
func (a *activation) reset(in *Input, sig *signals) {
	for _, i := range a.used {
		a.vals[i] = nil
	}
	a.used = a.used[:0]
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
	if d := a.table.vars[i]; d.sig == nil {
		v = toVal(a.native(i))
	} else if x := d.sig.read(a.sig); x == nil {
		v = toVal(reflect.Zero(d.goTyp))
	} else if err, ok := x.(error); ok {
		v = types.WrapErr(err)
	} else {
		v = toVal(reflect.ValueOf(x))
	}
	a.vals[i] = v
	a.used = append(a.used, i)
	return v
}

// eval evaluates an expression: without counting its cost where the estimate
// holds, else up to CostLimit.
func (x *expr) eval(a *activation) (ref.Val, error) {
	p := x.fast
	if a.limit || x.cost > CostLimit {
		var err error
		if p, err = x.tracked(); err != nil {
			return nil, err
		}
	}
	v, _, err := p.Eval(a)
	return v, err
}

func (x *expr) isTrue(a *activation) bool {
	v, err := x.eval(a)
	return err == nil && v == types.True
}
