package compiled

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

// Traced is an expression that is planned so that its evaluation can be explained. In it, lists and macros are
// variables and are not replaced by their definitions, so that every part has a position in the source text.
type Traced struct {
	Source  []rune
	AST     *ast.AST
	Program cel.Program
	pair    map[int]int // matching brackets outside strings, by offset
}

// Trace plans an expression for explanations.
func (s *Scope) Trace(src string, opts ...cel.ProgramOption) (*Traced, error) {
	a, iss := s.Env.Compile(src)
	if iss.Err() != nil {
		return nil, celError(src, iss)
	}
	p, err := s.Env.Program(a, append(opts, cel.CostLimit(CostLimit))...)
	if err != nil {
		return nil, err
	}
	t := &Traced{Source: []rune(src), AST: a.NativeRep(), Program: p}
	t.pair = pairs(t.Source)
	return t, nil
}

// TracedActivation is an activation that also has the values of lists and macros.
type TracedActivation struct {
	*Activation
	Defs func(name string) *Traced // returns lists and macros
}

// ResolveName implements cel.Activation.
func (a *TracedActivation) ResolveName(name string) (any, bool) {
	if v, ok := a.Activation.ResolveName(name); ok {
		return v, true
	}
	t := a.Defs(name)
	if t == nil {
		return nil, false
	}
	v, _, err := t.Program.Eval(a)
	if err != nil {
		return types.WrapErr(err), true
	}
	return v, true
}

// Tracer returns a function that returns a list or macro of the scope as a Traced. It is planned when it is first used.
func (s *Scope) Tracer() func(string) *Traced {
	known := make(map[string]*Traced)
	return func(name string) *Traced {
		if t, ok := known[name]; ok {
			return t
		}
		var t *Traced
		if a := s.Defs[name]; a != nil {
			t, _ = s.Trace(a.Source().Content()) // cannot fail: the scope compiled the same text
		}
		known[name] = t
		return t
	}
}

// WatchOperands returns an option with which a program calls seen for every value of the operands with the given ids.
// CEL's EvalDetails do not suffice, because they have only the last value of an operand in a loop.
func WatchOperands(ids map[int64]bool, seen func(id int64, v ref.Val)) cel.ProgramOption {
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

// IsCall reports whether an expression calls a function.
func IsCall(e ast.Expr, fn string) bool {
	return e.Kind() == ast.CallKind && e.AsCall().FunctionName() == fn
}

// Operands returns the operands of a chain of && or of ||. It also returns the operands of nested calls of the same
// operator.
func Operands(e ast.Expr, op string) []ast.Expr {
	if !IsCall(e, op) {
		return []ast.Expr{e}
	}
	var out []ast.Expr
	for _, a := range e.AsCall().Args() {
		out = append(out, Operands(a, op)...)
	}
	return out
}

// Branches returns the parts that decide an expression: the operands of its && and || that are not && or || themselves,
// and the conditions of its ?:. Once each of these parts has been true and false, the operators that combine them have
// been true and false too.
func Branches(e ast.Expr) []ast.Expr {
	var out []ast.Expr
	var walk func(e ast.Expr)
	leaf := func(e ast.Expr) {
		if !IsCall(e, operators.LogicalAnd) && !IsCall(e, operators.LogicalOr) && e.Kind() != ast.LiteralKind {
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

// loopBody returns the body of a loop as it is in the source, without the code that the loop's macro adds.
func loopBody(c ast.ComprehensionExpr) ast.Expr {
	step := c.LoopStep()
	if step.Kind() != ast.CallKind {
		return step
	}
	args := step.AsCall().Args()
	switch step.AsCall().FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		if QualifiedName(args[0]) == c.AccuVar() {
			return args[1]
		}
	case operators.Conditional:
		if QualifiedName(args[2]) == c.AccuVar() {
			return args[0]
		}
	}
	return step
}

// Span returns the range of an expression in its source text. It must be computed, because the syntax tree has only one
// position for each node. For an operator, that is the operator's own position, in the middle of the expression.
func (t *Traced) Span(e ast.Expr) (lo, hi int) {
	lo, hi = len(t.Source), 0
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		r, ok := t.AST.SourceInfo().GetOffsetRange(e.ID())
		if !ok || r.Start < 0 || int(r.Start) >= len(t.Source) {
			return
		}
		end, size := int(r.Start), int(r.Stop-r.Start) // the size is in bytes
		for ; size > 0 && end < len(t.Source); end++ {
			size -= utf8.RuneLen(t.Source[end])
		}
		lo, hi = min(lo, int(r.Start)), max(hi, end)
	}))
	if lo >= hi {
		return 0, len(t.Source)
	}
	for grown := true; grown; {
		grown = false
		for lo > 0 && wordRune(t.Source[lo-1]) && (wordRune(t.Source[lo]) || t.Source[lo] == '(') {
			lo, grown = lo-1, true
		}
		for hi < len(t.Source) && wordRune(t.Source[hi]) && wordRune(t.Source[hi-1]) {
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

// Text returns the source text of an expression, written on one line.
func (t *Traced) Text(e ast.Expr) string {
	lo, hi := t.Span(e)
	return strings.Join(strings.Fields(string(t.Source[lo:hi])), " ")
}

func wordRune(r rune) bool { return r == '_' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// pairs maps the offset of each bracket in the source, outside of string constants, to the offset of the matching
// bracket.
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
