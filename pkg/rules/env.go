package rules

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

const (
	// CostLimit is what one expression may cost, in CEL's units: about one per
	// operation, and one per ten bytes of text looked at.
	CostLimit = 25_000_000
	// maxExpr is the longest expression, in bytes.
	maxExpr = 8 << 10
)

// The sizes under which costs are estimated. An input within them is evaluated
// without counting, because the estimate is its proof; a larger one is counted
// and ends at CostLimit.
const (
	boundText  = 64 << 10 // bytes of a text
	boundValue = 1 << 10  // bytes of any other string
	boundViews = 16       // views of a content
	boundList  = 64       // elements of any other list
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

// nativeTypes are the structures that lists are made of.
var nativeTypes = []any{reflect.TypeFor[Belief](), reflect.TypeFor[Served](), reflect.TypeFor[Lineage](), reflect.TypeFor[Push](),
	reflect.TypeFor[Fragment](), reflect.TypeFor[Recalled](), reflect.TypeFor[Sleeper](), reflect.TypeFor[ToolInfo]()}

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
	for i := range builtinSignals {
		s := &builtinSignals[i]
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
	opts := []cel.EnvOption{
		ext.NativeTypes(append([]any{ext.ParseStructTag("cel")}, nativeTypes...)...),
		cel.Variable("it", cel.DynType),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(MaxBundle),
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

// dynamic reports whether an expression reads values whose size nothing
// bounds, so that only counting can tell its cost.
func dynamic(a *ast.AST) (found bool) {
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch qualified(e) {
		case "action.args", "it":
			found = true
		}
	}))
	return found
}

// costError puts the caret under the loop that costs most.
func costError(src string, a *cel.Ast, c uint64) error {
	rep := a.NativeRep()
	var place int64
	ast.PostOrderVisit(rep.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			place = e.AsComprehension().IterRange().ID()
		}
	}))
	loc := rep.SourceInfo().GetStartLocation(place)
	n := fmt.Sprint(c)
	if c > 1<<50 {
		n = "without bound"
	}
	return &faults{src, []fault{{fmt.Sprintf("the expression may cost %s, and at most %d are allowed: nest fewer loops", n, CostLimit), loc.Line(), loc.Column()}}}
}

// planError finds the regular expression that an expression cannot be planned
// for.
func planError(src string, a *cel.Ast, err error) error {
	ast.PreOrderVisit(a.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "matches" {
			return
		}
		args := e.AsCall().Args()
		for _, re := range constants(args[len(args)-1], nil) {
			if _, bad := regexp.Compile(re); bad != nil && bad.Error() == err.Error() {
				loc := a.NativeRep().SourceInfo().GetStartLocation(e.ID())
				err = &faults{src, []fault{{bad.Error(), loc.Line(), loc.Column()}}}
			}
		}
	}))
	return err
}

// sizes bounds the values of expressions for the estimate.
type sizes struct{}

// EstimateSize implements cost.Estimator.
func (sizes) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	p := n.Path()
	if len(p) == 0 {
		return nil
	}
	limit := uint64(boundValue)
	switch k := n.Type().Kind(); {
	case k == types.ListKind && p[0] == "content.views":
		limit = boundViews
	case k == types.ListKind, k == types.MapKind:
		limit = boundList
	case p[0] == "content.text", p[0] == "content.views", p[0] == "action.text":
		limit = boundText
	}
	return &cost.SizeEstimate{Min: 0, Max: limit}
}

// EstimateCallCost implements cost.Estimator.
func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// bounded reports whether an input is within the sizes of the estimate.
func (in *Input) bounded() bool {
	if len(in.Content.Text) > boundText || len(in.Action.Text) > boundText || len(in.Content.Views) > boundViews ||
		len(in.Content.Carriers) > boundList || len(in.Action.Beliefs) > boundList || len(in.Decision.Beliefs) > boundList ||
		len(in.Recall.Items) > boundList || len(in.Tools.Items) > boundList {
		return false
	}
	for _, v := range in.Content.Views {
		if len(v) > boundText {
			return false
		}
	}
	for _, bs := range [][]*Belief{in.Action.Beliefs, in.Decision.Beliefs} {
		for _, b := range bs {
			if max(len(b.ID), len(b.Key), len(b.Source), len(b.Observation)) > boundText {
				return false
			}
		}
	}
	for _, it := range in.Recall.Items {
		if max(len(it.ID), len(it.Key), len(it.Source)) > boundText || len(it.Kinds) > boundList {
			return false
		}
	}
	for _, it := range in.Tools.Items {
		if max(len(it.Name), len(it.Description), len(it.Shadows)) > boundText {
			return false
		}
	}
	for _, s := range []string{in.Event.Source, in.Event.Tool, in.Memory.Key, in.Decision.Summary, in.Recall.Query} {
		if len(s) > boundValue {
			return false
		}
	}
	return true
}

// fault is something wrong at a place in an expression.
type fault struct {
	msg          string
	line, column int // from 1, and from 0
}

// faults is what is wrong with an expression. Its text shows each place with a
// caret.
type faults struct {
	src string
	all []fault
}

func (e *faults) Error() string {
	var b strings.Builder
	for i, f := range e.all {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.msg)
		b.WriteString(caret(e.src, f.line, f.column))
	}
	return b.String()
}

// Within is the place of the first, so that the whole is laid there.
func (e *faults) Within() (line, column int) { return e.all[0].line, e.all[0].column }

func celError(src string, iss *cel.Issues) error {
	e := &faults{src: src}
	for _, x := range iss.Errors() {
		e.all = append(e.all, fault{x.Message, x.Location.Line(), x.Location.Column()})
	}
	if e.all == nil {
		return iss.Err()
	}
	return e
}

func caret(src string, line, col int) string {
	lines := strings.Split(src, "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	return fmt.Sprintf("\n    %s\n    %s^", lines[line-1], strings.Repeat(" ", max(col, 0)))
}

// Field is one name that expressions may use.
type Field struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Doc  string `json:"doc,omitempty"`
}

// Fields lists the environment, generated from the types behind it.
func Fields() []Field {
	var out []Field
	for _, v := range baseVars().vars {
		out = append(out, Field{v.name, typeName(v.goTyp), v.doc})
	}
	for _, t := range nativeTypes {
		t := t.(reflect.Type)
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				continue
			}
			out = append(out, Field{"<" + strings.ToLower(t.Name()) + ">." + f.Tag.Get("cel"), typeName(f.Type), f.Tag.Get("doc")})
		}
	}
	return append(out, Field{"lists.<name>", "list(string)", "a list of the rule's own pack, or of common.yaml"},
		Field{"macros.<name>", "dyn", "an expression by name, of the rule's own pack or of common.yaml"},
		Field{"signal.<name>", "int or list(string)", "a signal that a pack declares"},
		Field{"it", "dyn", "the element of for_each"})
}

// Functions lists the functions that expressions may call, CEL's operators
// left out.
func Functions() []string {
	env, err := baseEnv()
	if err != nil {
		return nil
	}
	var out []string
	for name := range env.Functions() {
		if c := name[0]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return slices.Compact(out)
}

func typeName(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return strings.ToLower(t.Elem().Name())
	case t.Kind() == reflect.Slice:
		return "list(" + typeName(t.Elem()) + ")"
	case t.Kind() == reflect.Map:
		return "map(string, dyn)"
	case t.Name() == "Time":
		return "timestamp"
	case t.Kind() == reflect.Int64:
		return "int"
	case t.Kind() == reflect.Float64:
		return "double"
	}
	return strings.ToLower(t.Kind().String())
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
