package rules

import (
	"fmt"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// condition is when a rule fires: for the event, or for each element of a list.
type condition struct {
	when    *expr
	forEach *expr    // the list; nil: for the event
	each    *forEach // both as Go functions, where both can be
}

// newCondition returns the condition of checked expressions. Either may be nil.
func newCondition(vars *varTable, when, forEach *expr) condition {
	c := condition{when: when, forEach: forEach}
	if when != nil && forEach != nil && forEach.cost <= CostLimit {
		c.each = newForEach(vars, forEach.ast.Expr(), when.ast.Expr())
	}
	return c
}

// need is what has to hold for the condition to be true, or to fail.
func (c *condition) need(rd *reader) *need {
	n := rd.of(c.when.ast.Expr(), nil)
	if c.forEach == nil {
		return n
	}
	if !rd.safe(c.forEach.ast.Expr(), nil) {
		return nothing
	}
	if t := rd.term(c.forEach.ast.Expr(), nil); t.kind == termField {
		return all(rd.pred(pred{v: t.f.v, size: true, op: ">", than: 0}), n)
	}
	return n
}

// items is what the condition is evaluated for: the elements of its
// for_each, or one null.
func (c *condition) items(act *activation) ([]ref.Val, error) {
	if c.forEach == nil {
		return []ref.Val{types.NullValue}, nil
	}
	v, err := c.forEach.eval(act)
	if err != nil {
		return nil, err
	}
	l, ok := v.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("for_each gives no list")
	}
	var out []ref.Val
	for it := l.Iterator(); it.HasNext() == types.True; {
		out = append(out, it.Next())
	}
	return out, nil
}

// remainder is a closure of what is left of a condition where its need
// holds, or nil.
func (c *condition) remainder(rd *reader) flagFn {
	if c.forEach != nil || c.when.code == nil || c.when.cost > CostLimit {
		return nil
	}
	left := func(*activation) (bool, bool) { return true, true }
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
			left, first = newClosure(rd.vars, e).flag, false
		default:
			left = both(left, newClosure(rd.vars, e).flag, false).flag
		}
	}
	walk(c.when.ast.Expr())
	return left
}
