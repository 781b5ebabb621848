package rules

import (
	"reflect"
	"slices"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/streams"
)

const (
	maxCount  = 1024 // times or values kept under one key
	maxWindow = 400 * 24 * time.Hour
)

// declared is a signal of a pack with the expressions that it is made from.
type declared struct {
	*Declared
	key   *expr
	when  *expr // nil: always
	value *expr // of distinct
	steps []*expr
}

// compileSignal checks a declaration and adds its name to the scope.
func (s *scope) compileSignal(d *strictyaml.Document, file string, i int, doc *signalDoc, bad *Problems) *declared {
	n := len(*bad)
	at := func(path []any, format string, args ...any) {
		bad.note(file, d.Errorf(append([]any{"signals", i}, path...), format, args...))
	}
	if !streams.ValidID(doc.Name) {
		at([]any{"name"}, "%v", streams.CheckID("signal name", doc.Name))
		return nil
	}
	if doc.Doc == "" {
		at([]any{"name"}, "signal %q needs doc: what it means", doc.Name)
	}
	out := &declared{Declared: &Declared{Name: "signal." + doc.Name, On: make(map[string]bool)}}
	if _, ok := s.vars.index[out.Name]; ok {
		at([]any{"name"}, "there is a signal %s already", out.Name)
		return nil
	}
	compile := func(path []any, src string, want *cel.Type, required bool) *expr {
		if src == "" {
			if required {
				at(path[:1], "signal %q needs %s.%s", doc.Name, path[0], path[len(path)-1])
			}
			return nil
		}
		x, err := s.compile(src, want)
		if err != nil {
			at(path, "%w", err)
			return nil
		}
		if name := usesDeclared(x, s.vars); name != "" {
			at(path, "a signal cannot be made from another: %s", name)
		}
		return x
	}
	window := func(path []any, src string) time.Duration {
		w, err := time.ParseDuration(src)
		if err != nil || w <= 0 || w > maxWindow {
			at(path, "the window %q is no duration of up to %s, such as 10m or 72h", src, maxWindow)
		}
		return w
	}
	kindsOf := func(path []any, on []string) {
		if len(on) == 0 {
			at(path[:1], "signal %q needs on: the kinds of events that it looks at", doc.Name)
		}
		for j, k := range on {
			if !slices.Contains(kinds, k) {
				at(append(path, j), "event kind %q is unknown%s", k, suggest(k, kinds))
			}
			out.On[k] = true
		}
	}
	typ := cel.IntType
	counted := func(name string, c *countDoc) {
		kindsOf([]any{name, "on"}, c.On)
		out.key = compile([]any{name, "key"}, c.Key, cel.StringType, true)
		out.when = compile([]any{name, "when"}, c.When, cel.BoolType, false)
		out.Window = window([]any{name, "window"}, c.Window)
		if out.Max = c.Max; c.Max == 0 {
			out.Max = maxCount
		}
		if c.Max < 0 || c.Max > maxCount {
			at([]any{name, "max"}, "max %d is not within 1 to %d", c.Max, maxCount)
		}
	}
	switch {
	case doc.Count != nil && doc.Distinct == nil && doc.Sequence == nil:
		counted("count", doc.Count)
		if doc.Count.Value != "" {
			at([]any{"count", "value"}, "count has no value: use distinct to count different ones")
		}
	case doc.Distinct != nil && doc.Count == nil && doc.Sequence == nil:
		out.Distinct = true
		counted("distinct", doc.Distinct)
		out.value = compile([]any{"distinct", "value"}, doc.Distinct.Value, cel.StringType, true)
	case doc.Sequence != nil && doc.Count == nil && doc.Distinct == nil:
		typ = cel.ListType(cel.StringType)
		out.key = compile([]any{"sequence", "key"}, doc.Sequence.Key, cel.StringType, true)
		out.Window = window([]any{"sequence", "window"}, doc.Sequence.Window)
		if k := len(doc.Sequence.Steps); k < 2 || k > MaxSteps {
			at([]any{"sequence"}, "a sequence has 2 to %d steps, this one %d", MaxSteps, k)
		}
		for j, st := range doc.Sequence.Steps {
			kindsOf([]any{"sequence", "steps", j, "on"}, st.On)
			when := compile([]any{"sequence", "steps", j, "when"}, st.When, cel.BoolType, true)
			out.steps = append(out.steps, when)
			out.Steps = append(out.Steps, Step{On: st.On})
		}
	default:
		at([]any{"name"}, "signal %q needs one of count, distinct and sequence", doc.Name)
	}
	if len(*bad) > n {
		return nil
	}
	out.bind(s.vars)
	goTyp := reflect.TypeFor[int64]()
	if out.steps != nil {
		goTyp = reflect.TypeFor[[]string]()
	}
	env, err := s.env.Extend(cel.Variable(out.Name, typ))
	if err != nil {
		at([]any{"name"}, "%v", err)
		return nil
	}
	s.env = env
	s.vars.add(&variable{name: out.Name, typ: typ, goTyp: goTyp, doc: doc.Doc, sig: &signalDef{Signal: Signal{Name: out.Name, Doc: doc.Doc,
		Window: out.Window.String()}, typ: goTyp, read: out.read, evaluates: out.steps == nil && out.key.joined == nil}})
	return out
}

// bind gives the signal its expressions.
func (d *declared) bind(vars *varTable) {
	d.Key = signalExpr{d.key, nil}
	if d.when != nil {
		d.When = signalExpr{d.when, nil}
	}
	if d.value != nil {
		d.Value = signalExpr{d.value, nil}
	}
	for i, x := range d.steps {
		d.Steps[i].When = signalExpr{x, newTest(vars, x)}
	}
}

// usesDeclared names a declared signal in an expression, or is "".
func usesDeclared(x *expr, vars *varTable) (name string) {
	base := len(baseVars().vars)
	ast.PreOrderVisit(x.ast.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if i, ok := vars.index[qualified(e)]; ok && i >= base {
			name = vars.vars[i].name
		}
	}))
	return name
}
