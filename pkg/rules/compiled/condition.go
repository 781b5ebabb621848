package compiled

import (
	"fmt"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Condition is the condition of a rule. It is evaluated once for an event or, with for_each, for each element of a
// list.
type Condition struct {
	When    *Expr
	ForEach *Expr      // the list of for_each; nil: the condition is evaluated once for the event
	Each    *goForEach // list and condition as Go functions, if both can be compiled
}

// NewCondition returns the condition of a rule from the checked expressions of when and for_each. Either may be nil.
func NewCondition(vars *Vars, when, forEach *Expr) Condition {
	c := Condition{When: when, ForEach: forEach}
	if when != nil && forEach != nil && forEach.Cost <= CostLimit {
		c.Each = compileForEach(vars, forEach.AST.Expr(), when.AST.Expr())
	}
	return c
}

// Prefilter returns the prefilter of the condition: a simpler condition that holds whenever this one is true or fails.
func (c *Condition) Prefilter(rd *PrefilterReader) *prefilter {
	n := rd.Of(c.When.AST.Expr(), nil)
	if c.ForEach == nil {
		return n
	}
	if !rd.safe(c.ForEach.AST.Expr(), nil) {
		return unknown
	}
	if t := rd.term(c.ForEach.AST.Expr(), nil); t.kind == termField {
		return all(rd.pred(pred{v: t.f.v, size: true, op: ">", than: 0}), n)
	}
	return n
}

// Items returns the values that the condition is evaluated for: the elements of the list in for_each or, without
// for_each, a single null.
func (c *Condition) Items(act *Activation) ([]ref.Val, error) {
	if c.ForEach == nil {
		return []ref.Val{types.NullValue}, nil
	}
	v, err := c.ForEach.Eval(act)
	if err != nil {
		return nil, err
	}
	l, ok := v.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("the value of for_each is not a list")
	}
	var out []ref.Val
	for it := l.Iterator(); it.HasNext() == types.True; {
		out = append(out, it.Next())
	}
	return out, nil
}

// remainder compiles the part of a condition that its prefilter does not decide. If that part cannot be compiled to a
// Go function, remainder returns nil.
func (c *Condition) remainder(rd *PrefilterReader) FlagFunc {
	if c.ForEach != nil || c.When.goFlag == nil || c.When.Cost > CostLimit {
		return nil
	}
	left := func(*Activation) (bool, bool) { return true, true }
	first := true
	var walk func(e ast.Expr)
	walk = func(e ast.Expr) {
		switch {
		case e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd:
			for _, x := range e.AsCall().Args() {
				walk(x)
			}
		case rd.decides(e):
		case first:
			left, first = compileGo(rd.vars, e).Flag, false
		default:
			left = both(left, compileGo(rd.vars, e).Flag, false).Flag
		}
	}
	walk(c.When.AST.Expr())
	return left
}

// Interpret disables the Go functions, so that CEL evaluates the condition. Tests use it for
// comparison.
func (c *Condition) Interpret() { c.Each, c.When.goFlag = nil, nil }

// EachHasGo reports whether the condition is on the elements of a list and is evaluated by Go functions.
func (c *Condition) EachHasGo() bool { return c.Each != nil }

// HasGo reports whether the expression is a condition that is evaluated by Go functions.
func (x *Expr) HasGo() bool { return x.goFlag != nil }
