package compiled

import (
	"reflect"

	"lazaret/pkg/signals"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
)

// Declare adds a signal that a pack declares to the names of the scope. It sets the signal's expressions. when and
// value may be nil.
func (s *Scope) Declare(d *signals.Declared, doc string, key, when, value *Expr, steps []*Expr) error {
	d.Key = &signalExpr{key, nil}
	if when != nil {
		d.When = &signalExpr{when, nil}
	}
	if value != nil {
		d.Value = &signalExpr{value, nil}
	}
	for i, x := range steps {
		d.Steps[i].When = &signalExpr{x, newSoloPrefilter(s.Vars, x)}
	}
	typ, goTyp := cel.IntType, reflect.TypeFor[int64]()
	if steps != nil {
		typ, goTyp = cel.ListType(cel.StringType), textsType
	}
	env, err := s.Env.Extend(cel.Variable(d.Name, typ))
	if err != nil {
		return err
	}
	s.Env = env
	sig := &signals.Definition{
		Signal:    signals.Signal{Name: d.Name, Doc: doc, Window: d.Window.String()},
		Type:      goTyp,
		Read:      d.Read,
		Evaluates: steps == nil && key.joined == nil,
	}
	s.Vars.add(&variable{Name: d.Name, Type: typ, GoType: goTyp, Doc: doc, Signal: sig})
	return nil
}

// UsesDeclared returns the name of a declared signal that the expression uses, or "" if it uses none.
func (s *Scope) UsesDeclared(x *Expr) (name string) {
	vars := s.Vars
	base := len(BaseVars().List)
	ast.PreOrderVisit(x.AST.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if i, ok := vars.Number[QualifiedName(e)]; ok && i >= base {
			name = vars.List[i].Name
		}
	}))
	return name
}
