package compiled

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/common/ast"
)

// Names adds to a set every qualified name that the expression uses.
func (x *Expr) Names(to map[string]bool) {
	ast.PreOrderVisit(x.AST.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if q := QualifiedName(e); q != "" {
			to[q] = true
		}
	}))
}

// Render writes an expression in a canonical form. Different expressions have different forms.
func Render(b *strings.Builder, e ast.Expr) {
	list := func(name string, es ...ast.Expr) {
		fmt.Fprintf(b, "%s(", name)
		for _, e := range es {
			Render(b, e)
			b.WriteByte(',')
		}
		b.WriteByte(')')
	}
	switch e.Kind() {
	case ast.LiteralKind:
		v := e.AsLiteral()
		fmt.Fprintf(b, "%s %q", v.Type().TypeName(), fmt.Sprint(v.Value()))
	case ast.IdentKind:
		fmt.Fprintf(b, "$%s", e.AsIdent())
	case ast.SelectKind:
		s := e.AsSelect()
		list(fmt.Sprintf("select %v %s", s.IsTestOnly(), s.FieldName()), s.Operand())
	case ast.CallKind:
		c := e.AsCall()
		if c.IsMemberFunction() {
			list("of", c.Target())
		}
		list(fmt.Sprintf("%q", c.FunctionName()), c.Args()...)
	case ast.ListKind:
		list("list", e.AsList().Elements()...)
	case ast.MapKind:
		for _, en := range e.AsMap().Entries() {
			m := en.AsMapEntry()
			list("entry", m.Key(), m.Value())
		}
	case ast.StructKind:
		b.WriteString(e.AsStruct().TypeName())
		for _, en := range e.AsStruct().Fields() {
			f := en.AsStructField()
			list(f.Name(), f.Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		list(fmt.Sprintf("loop %s %s %s", c.IterVar(), c.IterVar2(), c.AccuVar()), c.IterRange(), c.AccuInit(),
			c.LoopCondition(), c.LoopStep(), c.Result())
	}
}
