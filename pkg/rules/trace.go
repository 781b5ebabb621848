package rules

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// traced is an expression planned for people: lists and macros are variables
// in it and not written out, so that every part has its place in what a person
// wrote.
type traced struct {
	src  []rune
	ast  *ast.AST
	prog cel.Program
	pair map[int]int // brackets outside of strings, by their offset
}

func (s *scope) trace(src string, opts ...cel.ProgramOption) (*traced, error) {
	a, iss := s.env.Compile(src)
	if iss.Err() != nil {
		return nil, celError(src, iss)
	}
	p, err := s.env.Program(a, append(opts, cel.CostLimit(CostLimit))...)
	if err != nil {
		return nil, err
	}
	t := &traced{src: []rune(src), ast: a.NativeRep(), prog: p}
	t.pair = pairs(t.src)
	return t, nil
}

// tracedAct is an activation that knows lists and macros.
type tracedAct struct {
	*activation
	defs func(name string) *traced
}

// ResolveName implements cel.Activation.
func (a *tracedAct) ResolveName(name string) (any, bool) {
	if v, ok := a.activation.ResolveName(name); ok {
		return v, true
	}
	t := a.defs(name)
	if t == nil {
		return nil, false
	}
	v, _, err := t.prog.Eval(a)
	if err != nil {
		return types.WrapErr(err), true
	}
	return v, true
}

// tracer plans the lists and macros of a scope when they are first met.
func (s *scope) tracer() func(string) *traced {
	known := make(map[string]*traced)
	return func(name string) *traced {
		if t, ok := known[name]; ok {
			return t
		}
		var t *traced
		if a := s.defs[name]; a != nil {
			t, _ = s.trace(a.Source().Content()) // it compiled before
		}
		known[name] = t
		return t
	}
}

// watchOperands has seen called with every value that one of the operands gets.
// EvalDetails would keep only the last one of a loop.
func watchOperands(ids map[int64]bool, seen func(id int64, v ref.Val)) cel.ProgramOption {
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if !ids[i.ID()] {
			return i, nil
		}
		return &watched{i, seen}, nil
	})
}

type watched struct {
	interpreter.InterpretableV2
	seen func(int64, ref.Val)
}

// Exec implements interpreter.InterpretableV2.
func (w *watched) Exec(f *interpreter.ExecutionFrame) ref.Val {
	v := w.InterpretableV2.Exec(f)
	w.seen(w.ID(), v)
	return v
}

// Eval implements interpreter.Interpretable.
func (w *watched) Eval(a cel.Activation) ref.Val {
	v := w.InterpretableV2.Eval(a)
	w.seen(w.ID(), v)
	return v
}

func isCall(e ast.Expr, fn string) bool {
	return e.Kind() == ast.CallKind && e.AsCall().FunctionName() == fn
}

// operands lists the operands of one && or ||, however deep the parser nested
// it.
func operands(e ast.Expr, op string) []ast.Expr {
	if !isCall(e, op) {
		return []ast.Expr{e}
	}
	var out []ast.Expr
	for _, a := range e.AsCall().Args() {
		out = append(out, operands(a, op)...)
	}
	return out
}

// branches lists what decides an expression: the operands of its && and || that
// are no && or || themselves, and the conditions of its ?:. An operand that
// consists of others has been both true and false when they have.
func branches(e ast.Expr) []ast.Expr {
	var out []ast.Expr
	var walk func(e ast.Expr)
	leaf := func(e ast.Expr) {
		if !isCall(e, operators.LogicalAnd) && !isCall(e, operators.LogicalOr) && e.Kind() != ast.LiteralKind {
			out = append(out, e)
		}
		walk(e)
	}
	walk = func(e ast.Expr) {
		switch e.Kind() {
		case ast.CallKind:
			c := e.AsCall()
			switch c.FunctionName() {
			case operators.LogicalAnd, operators.LogicalOr:
				for _, a := range c.Args() {
					leaf(a)
				}
			case operators.Conditional:
				leaf(c.Args()[0])
				walk(c.Args()[1])
				walk(c.Args()[2])
			default:
				if c.IsMemberFunction() {
					walk(c.Target())
				}
				for _, a := range c.Args() {
					walk(a)
				}
			}
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			walk(c.IterRange())
			walk(loopBody(c))
		case ast.SelectKind:
			walk(e.AsSelect().Operand())
		case ast.ListKind:
			for _, x := range e.AsList().Elements() {
				walk(x)
			}
		}
	}
	walk(e)
	return out
}

// loopBody is what a person wrote into a loop, without what the macro made of
// it.
func loopBody(c ast.ComprehensionExpr) ast.Expr {
	step := c.LoopStep()
	if step.Kind() != ast.CallKind {
		return step
	}
	args := step.AsCall().Args()
	switch step.AsCall().FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		if qualified(args[0]) == c.AccuVar() {
			return args[1]
		}
	case operators.Conditional:
		if qualified(args[2]) == c.AccuVar() {
			return args[0]
		}
	}
	return step
}

// span is where an expression stands in its text. The syntax tree has only the
// first token of each node, and that of an operator in its middle.
func (t *traced) span(e ast.Expr) (lo, hi int) {
	lo, hi = len(t.src), 0
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		r, ok := t.ast.SourceInfo().GetOffsetRange(e.ID())
		if !ok || r.Start < 0 || int(r.Start) >= len(t.src) {
			return
		}
		end, size := int(r.Start), int(r.Stop-r.Start) // the size is in bytes
		for ; size > 0 && end < len(t.src); end++ {
			size -= utf8.RuneLen(t.src[end])
		}
		lo, hi = min(lo, int(r.Start)), max(hi, end)
	}))
	if lo >= hi {
		return 0, len(t.src)
	}
	for grown := true; grown; {
		grown = false
		for lo > 0 && wordRune(t.src[lo-1]) && (wordRune(t.src[lo]) || t.src[lo] == '(') {
			lo, grown = lo-1, true
		}
		for hi < len(t.src) && wordRune(t.src[hi]) && wordRune(t.src[hi-1]) {
			hi, grown = hi+1, true
		}
		for i := lo; i < hi; i++ {
			if j, ok := t.pair[i]; ok && (j < lo || j >= hi) {
				lo, hi, grown = min(lo, j), max(hi, j+1), true
			}
		}
	}
	return lo, hi
}

// text is an expression as it was written, on one line.
func (t *traced) text(e ast.Expr) string {
	lo, hi := t.span(e)
	return strings.Join(strings.Fields(string(t.src[lo:hi])), " ")
}

func wordRune(r rune) bool { return r == '_' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// pairs finds the partner of each bracket that is in no string.
func pairs(src []rune) map[int]int {
	out := make(map[int]int)
	var open []int
	var quote rune
	for i := 0; i < len(src); i++ {
		switch r := src[i]; {
		case quote != 0:
			if r == '\\' {
				i++
			} else if r == quote {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case strings.ContainsRune("([{", r):
			open = append(open, i)
		case strings.ContainsRune(")]}", r) && len(open) > 0:
			j := open[len(open)-1]
			open = open[:len(open)-1]
			out[i], out[j] = j, i
		}
	}
	return out
}
