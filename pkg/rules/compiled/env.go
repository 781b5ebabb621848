package compiled

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"lazaret/pkg/signals"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// variable is one name that expressions may use, such as action.level.
type variable struct {
	Name   string
	Type   *cel.Type
	GoType reflect.Type
	Doc    string
	// field is the path to the value in signals.Input, as indexes of fields. For a signal, it is nil.
	field  []int
	Signal *signals.Definition
}

// Vars has the names that the expressions of a rule set may use. Each name has a number, its index in List.
type Vars struct {
	List   []*variable
	Number map[string]int
}

// Has reports whether there is a variable with this name.
func (t *Vars) Has(name string) bool {
	_, ok := t.Number[name]
	return ok
}

func (t *Vars) add(v *variable) {
	t.Number[v.Name] = len(t.List)
	t.List = append(t.List, v)
}

// nativeTypes returns the struct types of the base variables. For a list, that is the type of its elements. The order
// is that of the variables.
var nativeTypes = sync.OnceValue(func() []reflect.Type {
	var out []reflect.Type
	for _, v := range BaseVars().List {
		t := v.GoType
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if isRec(t) && !slices.Contains(out, t.Elem()) {
			out = append(out, t.Elem())
		}
	}
	return out
})

// BaseVars returns the names that the expressions of every rule set may use: the fields of the input and the built-in
// signals.
var BaseVars = sync.OnceValue(func() *Vars {
	t := &Vars{Number: make(map[string]int)}
	in := reflect.TypeFor[signals.Input]()
	for i := range in.NumField() {
		g := in.Field(i)
		if !g.IsExported() || g.Type.Kind() != reflect.Struct {
			continue
		}
		for j := range g.Type.NumField() {
			f := g.Type.Field(j)
			if name := f.Tag.Get("cel"); name != "" {
				t.add(
					&variable{
						Name:   strings.ToLower(g.Name) + "." + name,
						Type:   celType(f.Type),
						GoType: f.Type,
						Doc:    f.Tag.Get("doc"),
						field:  []int{i, j},
					},
				)
			}
		}
	}
	for _, s := range signals.Registered {
		t.add(&variable{Name: s.Name, Type: celType(s.Type), GoType: s.Type, Doc: s.Doc, Signal: s})
	}
	return t
})

func celType(t reflect.Type) *cel.Type {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return cel.TimestampType
	case t.Kind() == reflect.Pointer:
		return celType(t.Elem())
	case t.Kind() == reflect.Struct:
		return cel.ObjectType(t.String())
	case t.Kind() == reflect.Slice:
		return cel.ListType(celType(t.Elem()))
	case t.Kind() == reflect.Map:
		return cel.MapType(cel.StringType, cel.DynType)
	case t.Kind() == reflect.Int64:
		return cel.IntType
	case t.Kind() == reflect.Float64:
		return cel.DoubleType
	case t.Kind() == reflect.Bool:
		return cel.BoolType
	}
	return cel.StringType
}

// BaseEnv returns the typed CEL environment of all expressions. A qualified name such as action.level is a variable,
// and not a field of a message. So reading it takes a single lookup.
var BaseEnv = sync.OnceValues(func() (*cel.Env, error) {
	native := []any{ext.ParseStructTag("cel")}
	for _, t := range nativeTypes() {
		native = append(native, t)
	}
	opts := []cel.EnvOption{
		ext.NativeTypes(native...),
		cel.Variable("it", cel.DynType),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxSource),
		ext.Strings(), ext.Lists(), ext.Math(), ext.Sets(),
	}
	for _, v := range BaseVars().List {
		opts = append(opts, cel.Variable(v.Name, v.Type))
	}
	return cel.NewEnv(opts...)
})

// Scope has the names that expressions of one pack may use: the names of the environment, and the pack's lists and
// macros. Lists and macros are replaced by their definitions before an expression is planned.
type Scope struct {
	Env  *cel.Env
	Vars *Vars
	Defs map[string]*cel.Ast // lists and macros, by name
	Used *usage              // names that the expressions compiled so far have used
}

// NewScope returns a scope without lists and macros.
func NewScope(env *cel.Env, vars *Vars) *Scope {
	return &Scope{
		Env:  env,
		Vars: vars,
		Defs: make(map[string]*cel.Ast),
		Used: &usage{make(map[*cel.Ast]bool), make(map[string]bool)},
	}
}

// NewVars returns a copy of BaseVars, to which names can be added.
func NewVars() *Vars {
	base := BaseVars()
	return &Vars{List: slices.Clone(base.List), Number: maps.Clone(base.Number)}
}

// usage records the lists, macros and variables that expressions use.
type usage struct {
	Defs map[*cel.Ast]bool
	Vars map[string]bool
}

// Define adds a list or macro. CEL's checker takes the name of the list or macro for a variable. In every expression of
// the scope, the name is then replaced by src.
func (s *Scope) Define(name, src string, typ *cel.Type) error {
	a, err := s.Check(src, typ)
	if err != nil {
		return err
	}
	if typ == nil {
		typ = a.OutputType()
	}
	env, err := s.Env.Extend(cel.Variable(name, typ))
	if err != nil {
		return err
	}
	s.Env = env
	s.Defs[name] = a
	return nil
}

// Clone returns a copy of the scope. A pack can add its names to the copy.
func (s *Scope) Clone() *Scope {
	return &Scope{Env: s.Env, Vars: s.Vars, Defs: maps.Clone(s.Defs), Used: s.Used}
}

// Expr is a compiled expression.
type Expr struct {
	Source string
	AST    *ast.AST // with lists and macros expanded
	fast   cel.Program
	// tracked returns a CEL program that counts the cost of an evaluation. The program is planned when it is first
	// used.
	tracked func() (cel.Program, error)
	Cost    uint64   // upper bound of the cost; if it is above CostLimit, the cost must be counted
	joined  []joint  // parts of a concatenation of fields
	goFlag  FlagFunc // Go function for the value, if the expression is a condition that can be compiled, else nil
	goText  textFunc // Go function for the value, if the expression is a text that can be compiled, else nil
}

// Compile checks an expression, whose type must be want, and plans it. Its error marks the faulty place with a caret.
func (s *Scope) Compile(src string, want *cel.Type) (*Expr, error) {
	if len(src) > maxExpr {
		return nil, fmt.Errorf(
			"the expression has %d bytes, at most %d are possible: move constants to lists and parts to macros", len(src),
			maxExpr)
	}
	a, err := s.Check(src, want)
	if err != nil {
		return nil, err
	}
	c, err := s.Env.EstimateCost(a, Sizes{})
	if err != nil {
		return nil, err
	}
	x := &Expr{Source: src, AST: a.NativeRep(), Cost: c.Max, joined: joints(s.Vars, a.NativeRep().Expr())}
	if c.Max > CostLimit && !Dynamic(a.NativeRep()) {
		return nil, costError(src, a, c.Max)
	}
	env := s.Env
	if x.fast, err = env.Program(a, cel.EvalOptions(cel.OptOptimize)); err != nil {
		return nil, planError(src, a, err)
	}
	if c := compileGo(s.Vars, x.AST.Expr()); c != nil {
		x.goFlag, x.goText = c.Flag, c.text
	}
	x.tracked = sync.OnceValues(func() (cel.Program, error) {
		return env.Program(a, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(CostLimit))
	})
	return x, nil
}

// Check parses an expression and checks its type. It replaces the names of lists and macros by their definitions.
func (s *Scope) Check(src string, want *cel.Type) (*cel.Ast, error) {
	a, iss := s.Env.Compile(src)
	if iss.Err() != nil {
		return nil, celError(src, iss)
	}
	if want != nil && !want.IsAssignableType(a.OutputType()) && a.OutputType().Kind() != cel.DynKind {
		return nil, fmt.Errorf("the expression is a %s, want a %s", a.OutputType(), want)
	}
	if !s.mentions(a.NativeRep().Expr()) {
		return a, nil
	}
	p, iss := s.Env.Parse(src)
	if iss.Err() != nil {
		return nil, celError(src, iss)
	}
	s.expand(p.NativeRep())
	a, iss = s.Env.Check(p)
	if iss.Err() != nil {
		return nil, celError(src, iss)
	}
	return a, nil
}

// QualifiedName returns the dotted name if an expression is only a dotted name, and otherwise "".
func QualifiedName(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return strings.TrimPrefix(e.AsIdent(), ".")
	case ast.SelectKind:
		sel := e.AsSelect()
		if sel.IsTestOnly() {
			return ""
		}
		if q := QualifiedName(sel.Operand()); q != "" {
			return q + "." + sel.FieldName()
		}
	}
	return ""
}

func (s *Scope) mentions(e ast.Expr) (found bool) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		q := QualifiedName(e)
		def, ok := s.Defs[q]
		found = found || ok
		if s.Used != nil && q != "" {
			s.Used.Defs[def], s.Used.Vars[q] = true, true
		}
	}))
	return found
}

func (s *Scope) expand(a *ast.AST) {
	next, fac := ast.MaxID(a), ast.NewExprFactory()
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if def, ok := s.Defs[QualifiedName(e)]; ok {
			c := fac.CopyExpr(def.NativeRep().Expr())
			c.RenumberIDs(func(int64) int64 { next++; return next })
			e.SetKindCase(c)
		}
	}))
	for id := range a.SourceInfo().MacroCalls() {
		a.SourceInfo().ClearMacroCall(id)
	}
}

// toVal converts a Go value to a CEL value.
func toVal(v reflect.Value) ref.Val {
	switch v.Kind() {
	case reflect.String:
		return types.String(v.String())
	case reflect.Int64:
		return types.Int(v.Int())
	case reflect.Float64:
		return types.Double(v.Float())
	case reflect.Bool:
		return types.Bool(v.Bool())
	}
	env, err := BaseEnv()
	if err != nil {
		return types.WrapErr(err)
	}
	return env.CELTypeAdapter().NativeToValue(v.Interface())
}
