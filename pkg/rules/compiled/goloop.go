package compiled

import (
	"slices"
	"strings"

	"lazaret/pkg/signals"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// loop compiles the loops exists and all, and a filter whose elements are texts.
func (c *goCompiler) loop(e ast.ComprehensionExpr) *goExpr {
	if e.HasIterVar2() || e.LoopStep().Kind() != ast.CallKind || e.Result().Kind() != ast.IdentKind ||
		e.Result().AsIdent() != e.AccuVar() || c.depth == maxNested {
		return nil
	}
	cond, end, filter := loopCondition(e)
	if cond == nil {
		return nil
	}
	over := c.of(e.IterRange())
	if over == nil || over.texts == nil && over.Recs == nil {
		return nil
	}
	if e.IterVar() == "it" || slices.ContainsFunc(c.vars.List,
		func(v *variable) bool { return v.Name == e.IterVar() || strings.HasPrefix(v.Name, e.IterVar()+".") }) {
		return nil // the loop variable shadows another name, and only CEL knows which one is meant
	}
	outer, times := c.loops, c.times
	c.depth++
	slot := c.depth // slot 0 is that of `it`, the variable of for_each
	c.loops = make(map[string]binder, len(outer)+1)
	for name, b := range outer {
		c.loops[name] = b
	}
	c.loops[e.IterVar()] = binder{slot, over.typ.Elem()}
	if over.list != nil {
		c.times *= uint64(len(over.list))
	} else {
		c.times *= signals.BoundList
	}
	body := c.of(cond)
	c.depth--
	c.loops, c.times = outer, times
	if body == nil || body.Flag == nil {
		return nil
	}
	is := body.Flag
	if texts := over.texts; filter && texts != nil {
		return &goExpr{typ: textsType, texts: func(a *Activation) ([]string, bool) {
			vs, ok := texts(a)
			if !ok {
				return nil, false
			}
			var out []string
			for _, v := range vs {
				a.Loops[slot].text = v
				keep, ok := is(a)
				if !ok {
					return nil, false
				}
				if keep {
					out = append(out, v)
				}
			}
			return out, true
		}}
	} else if filter {
		return nil
	} else if texts != nil {
		return flagOf(func(a *Activation) (bool, bool) {
			vs, ok := texts(a)
			if !ok {
				return false, false
			}
			for _, v := range vs {
				a.Loops[slot].text = v
				if v, ok := is(a); v == end || !ok {
					return v, ok
				}
			}
			return !end, true
		})
	}
	recs := over.Recs
	return flagOf(func(a *Activation) (bool, bool) {
		vs, ok := recs(a)
		if !ok {
			return false, false
		}
		for _, v := range vs {
			a.Loops[slot].Rec = v
			if v, ok := is(a); v == end || !ok {
				return v, ok
			}
		}
		return !end, true
	})
}

// loopCondition returns the condition that a loop tests on each element. If only CEL can evaluate the loop, cond is
// nil. filter is set for a filter, which keeps the elements for which the condition is true. Any other loop ends at the
// first element for which the condition equals end.
func loopCondition(e ast.ComprehensionExpr) (cond ast.Expr, end, filter bool) {
	step := e.LoopStep().AsCall()
	accu := func(x ast.Expr) bool { return x.Kind() == ast.IdentKind && x.AsIdent() == e.AccuVar() }
	switch args := step.Args(); {
	case e.AccuInit().Kind() == ast.ListKind:
		// cond ? accu + [v] : accu
		if e.AccuInit().AsList().Size() == 0 && step.FunctionName() == operators.Conditional && accu(args[2]) &&
			keeps(args[1], accu, e.IterVar()) {
			return args[0], false, true
		}
	case e.AccuInit().Kind() != ast.LiteralKind || len(args) != 2 || !accu(args[0]):
	case step.FunctionName() == operators.LogicalOr && e.AccuInit().AsLiteral() == types.False:
		return args[1], true, false
	case step.FunctionName() == operators.LogicalAnd && e.AccuInit().AsLiteral() == types.True:
		return args[1], false, false
	}
	return nil, false, false
}

// keeps reports whether x, the step of a filter's loop, appends the element to the list of the elements kept so far.
func keeps(x ast.Expr, accu func(ast.Expr) bool, element string) bool {
	if x.Kind() != ast.CallKind || x.AsCall().FunctionName() != operators.Add {
		return false
	}
	args := x.AsCall().Args()
	if !accu(args[0]) || args[1].Kind() != ast.ListKind || args[1].AsList().Size() != 1 {
		return false
	}
	e := args[1].AsList().Elements()[0]
	return e.Kind() == ast.IdentKind && e.AsIdent() == element
}
