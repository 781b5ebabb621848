package rules

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// variable is one name that expressions may use, such as action.level.
type variable struct {
	name  string
	typ   *cel.Type
	goTyp reflect.Type
	doc   string
	// field is the path from Input; nil for signals.
	field []int
	sig   *signalDef
}

// varTable is all names of a rule set, by number.
type varTable struct {
	vars  []*variable
	index map[string]int
}

func (t *varTable) add(v *variable) {
	t.index[v.name] = len(t.vars)
	t.vars = append(t.vars, v)
}

// nativeTypes are the structures that lists are made of, in the order in which
// variables name them.
var nativeTypes = sync.OnceValue(func() []reflect.Type {
	var out []reflect.Type
	for _, v := range baseVars().vars {
		t := v.goTyp
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if isRec(t) && !slices.Contains(out, t.Elem()) {
			out = append(out, t.Elem())
		}
	}
	return out
})

// baseVars are the names that every rule set knows.
var baseVars = sync.OnceValue(func() *varTable {
	t := &varTable{index: make(map[string]int)}
	in := reflect.TypeFor[Input]()
	for i := range in.NumField() {
		g := in.Field(i)
		if !g.IsExported() {
			continue
		}
		for j := range g.Type.NumField() {
			f := g.Type.Field(j)
			if name := f.Tag.Get("cel"); name != "" {
				t.add(&variable{name: strings.ToLower(g.Name) + "." + name, typ: celType(f.Type), goTyp: f.Type, doc: f.Tag.Get("doc"), field: []int{i, j}})
			}
		}
	}
	for _, s := range registered {
		t.add(&variable{name: s.Name, typ: celType(s.typ), goTyp: s.typ, doc: s.Doc, sig: s})
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
		return cel.ObjectType("rules." + t.Name())
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

// baseEnv is the typed environment of all expressions. Names are qualified
// variables and not fields of messages, so that reading one is one look-up.
var baseEnv = sync.OnceValues(func() (*cel.Env, error) {
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
	for _, v := range baseVars().vars {
		opts = append(opts, cel.Variable(v.name, v.typ))
	}
	return cel.NewEnv(opts...)
})

// scope is what the expressions of one pack may name: the environment, and the
// lists and macros that are written into an expression before it is planned.
type scope struct {
	env  *cel.Env
	vars *varTable
	defs map[string]*cel.Ast // lists and macros, by name
	used *usage              // what expressions mention, while a rule set is compiled
}

// usage is which lists, macros and variables expressions mention.
type usage struct {
	defs map[*cel.Ast]bool
	vars map[string]bool
}

// define adds a list or macro. Its name is a variable for the checker, and
// its text stands for it in every expression.
func (s *scope) define(name, src string, typ *cel.Type) error {
	a, err := s.check(src, typ)
	if err != nil {
		return err
	}
	if typ == nil {
		typ = a.OutputType()
	}
	env, err := s.env.Extend(cel.Variable(name, typ))
	if err != nil {
		return err
	}
	s.env = env
	s.defs[name] = a
	return nil
}

// clone is a scope of its own, to which a pack adds its names.
func (s *scope) clone() *scope {
	return &scope{env: s.env, vars: s.vars, defs: maps.Clone(s.defs), used: s.used}
}

// expr is a compiled expression.
type expr struct {
	src  string
	ast  *ast.AST // with lists and macros written out
	fast cel.Program
	// tracked counts its cost. It is planned at its first use.
	tracked func() (cel.Program, error)
	cost    uint64  // highest, within the bounds; over CostLimit when only counting can tell
	joined  []joint // a text that is put together of fields
	code    flagFn  // of a condition, where it has a closure
	say     textFn  // of a text, where it has one
}

// compile checks an expression and plans it. Its error shows the place with a
// caret.
func (s *scope) compile(src string, want *cel.Type) (*expr, error) {
	if len(src) > maxExpr {
		return nil, fmt.Errorf("the expression is %d bytes, at most %d are read: put constants into lists and parts into macros", len(src), maxExpr)
	}
	a, err := s.check(src, want)
	if err != nil {
		return nil, err
	}
	c, err := s.env.EstimateCost(a, sizes{})
	if err != nil {
		return nil, err
	}
	x := &expr{src: src, ast: a.NativeRep(), cost: c.Max, joined: joints(s.vars, a.NativeRep().Expr())}
	if c.Max > CostLimit && !dynamic(a.NativeRep()) {
		return nil, costError(src, a, c.Max)
	}
	env := s.env
	if x.fast, err = env.Program(a, cel.EvalOptions(cel.OptOptimize)); err != nil {
		return nil, planError(src, a, err)
	}
	if c := newClosure(s.vars, x.ast.Expr()); c != nil {
		x.code, x.say = c.flag, c.text
	}
	x.tracked = sync.OnceValues(func() (cel.Program, error) {
		return env.Program(a, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(CostLimit))
	})
	return x, nil
}

// check parses an expression, checks it, and writes out its lists and macros.
func (s *scope) check(src string, want *cel.Type) (*cel.Ast, error) {
	a, iss := s.env.Compile(src)
	if iss.Err() != nil {
		return nil, celError(src, iss)
	}
	if want != nil && !want.IsAssignableType(a.OutputType()) && a.OutputType().Kind() != cel.DynKind {
		return nil, fmt.Errorf("the expression is a %s, want a %s", a.OutputType(), want)
	}
	if !s.mentions(a.NativeRep().Expr()) {
		return a, nil
	}
	p, iss := s.env.Parse(src)
	if iss.Err() != nil {
		return nil, celError(src, iss)
	}
	s.expand(p.NativeRep())
	a, iss = s.env.Check(p)
	if iss.Err() != nil {
		return nil, celError(src, iss)
	}
	return a, nil
}

// qualified is the dotted name that an expression is, or "".
func qualified(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return strings.TrimPrefix(e.AsIdent(), ".")
	case ast.SelectKind:
		sel := e.AsSelect()
		if sel.IsTestOnly() {
			return ""
		}
		if q := qualified(sel.Operand()); q != "" {
			return q + "." + sel.FieldName()
		}
	}
	return ""
}

func (s *scope) mentions(e ast.Expr) (found bool) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		q := qualified(e)
		def, ok := s.defs[q]
		found = found || ok
		if s.used != nil && q != "" {
			s.used.defs[def], s.used.vars[q] = true, true
		}
	}))
	return found
}

func (s *scope) expand(a *ast.AST) {
	next, fac := ast.MaxID(a), ast.NewExprFactory()
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if def, ok := s.defs[qualified(e)]; ok {
			c := fac.CopyExpr(def.NativeRep().Expr())
			c.RenumberIDs(func(int64) int64 { next++; return next })
			e.SetKindCase(c)
		}
	}))
	for id := range a.SourceInfo().MacroCalls() {
		a.SourceInfo().ClearMacroCall(id)
	}
}

// toVal is a Go value as CEL's.
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
	env, err := baseEnv()
	if err != nil {
		return types.WrapErr(err)
	}
	return env.CELTypeAdapter().NativeToValue(v.Interface())
}
