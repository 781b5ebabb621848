package compiled

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// loop returns the prefilter of the condition that a loop, exists or all, is true or, if want is false, false.
func (r *PrefilterReader) loop(c ast.ComprehensionExpr, b binding, want bool) *prefilter {
	if c.HasIterVar2() || c.AccuInit().Kind() != ast.LiteralKind || c.Result().Kind() != ast.IdentKind ||
		c.LoopStep().Kind() != ast.CallKind {
		return unknown
	}
	step := c.LoopStep().AsCall()
	if len(step.Args()) != 2 || QualifiedName(step.Args()[0]) != c.AccuVar() {
		return unknown
	}
	body := step.Args()[1]
	var inner func(binding) *prefilter
	switch {
	case want && step.FunctionName() == operators.LogicalOr && c.AccuInit().AsLiteral() == types.False:
		inner = func(b binding) *prefilter { return r.Of(body, b) }
	case !want && step.FunctionName() == operators.LogicalAnd && c.AccuInit().AsLiteral() == types.True:
		inner = func(b binding) *prefilter { return r.not(body, b) }
	default:
		return unknown
	}
	rng := c.IterRange()
	if rng.Kind() == ast.ListKind {
		var ns []*prefilter
		for _, e := range rng.AsList().Elements() {
			t := r.term(e, b)
			if t.kind != termConst {
				return unknown
			}
			ns = append(ns, inner(b.with(c.IterVar(), t)))
		}
		return anyOf(ns...)
	}
	t := r.term(rng, b)
	if t.kind != termField || t.f.elem || r.vars.List[t.f.v].Type.Kind() != types.ListKind {
		return unknown
	}
	t.f.elem = true
	return all(r.pred(pred{v: t.f.v, size: true, op: ">", than: 0}), inner(b.with(c.IterVar(), t)))
}

// safe reports whether an expression cannot fail.
func (r *PrefilterReader) safe(e ast.Expr, b binding) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.IdentKind, ast.SelectKind:
		t := r.term(e, b)
		return t.kind != termUnknown
	case ast.CallKind:
		c := e.AsCall()
		if !slices.Contains(
			[]string{
				operators.LogicalAnd,
				operators.LogicalOr,
				operators.LogicalNot,
				operators.Equals,
				operators.NotEquals,
				operators.Less,
				operators.LessEquals,
				operators.Greater,
				operators.GreaterEquals,
				operators.Conditional,
				"contains",
				"startsWith",
				"endsWith",
				"lowerAscii",
				"size",
			},
			c.FunctionName(),
		) {
			return false
		}
		if c.IsMemberFunction() && !r.safe(c.Target(), b) {
			return false
		}
		for _, a := range c.Args() {
			if !r.safe(a, b) {
				return false
			}
		}
		return true
	}
	return false
}
