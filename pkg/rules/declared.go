package rules

import (
	"fmt"
	"slices"
	"time"

	"cel.dev/cel-go/cel"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/signals"
	"lazaret/streams"
)

// Limits of declared signals.
const (
	MaxCount  = 1024 // occurrences or values stored under one key
	maxWindow = 400 * 24 * time.Hour
)

// DeclaredSignal is a signal that a pack declares in YAML, with its compiled expressions.
type DeclaredSignal struct {
	*signals.Declared
	KeyExpr   *compiled.Expr
	WhenExpr  *compiled.Expr // nil: always
	ValueExpr *compiled.Expr // of distinct only
	StepExprs []*compiled.Expr
}

// signalCompiler checks a declaration and compiles its expressions.
type signalCompiler struct {
	scope *compiled.Scope
	d     *strictyaml.Document
	file  string
	i     int // place in the list of the file
	doc   *SignalDoc
	out   *DeclaredSignal
	bad   *Problems
}

// at reports a problem at the place of the declaration that path leads to.
func (c *signalCompiler) at(path []any, format string, args ...any) {
	c.bad.note(c.file, c.d.Errorf(append([]any{"signals", c.i}, path...), format, args...))
}

// compileSignal checks a declaration and adds its name to the scope.
//
// places has, by name, the places of the signals that were declared before.
func compileSignal(s *compiled.Scope, d *strictyaml.Document, file string, i int, doc *SignalDoc,
	places map[string]string, bad *Problems) *DeclaredSignal {
	n := len(*bad)
	out := &DeclaredSignal{Declared: &signals.Declared{Name: "signal." + doc.Name, On: make(map[string]bool)}}
	c := &signalCompiler{s, d, file, i, doc, out, bad}
	if !streams.ValidID(doc.Name) {
		c.at([]any{"name"}, "%v", streams.CheckID("signal name", doc.Name))
		return nil
	}
	if doc.Doc == "" {
		c.at([]any{"name"}, "signal %q needs `doc`: the meaning of its value", doc.Name)
	}
	here := d.Errorf([]any{"signals", i, "name"}, "")
	if place, ok := places[out.Name]; ok {
		c.at([]any{"name"}, "%s is defined already, at %s. All packs share the names of signals: give one of the two "+
			"another name", out.Name, place)
		return nil
	}
	places[out.Name] = fmt.Sprintf("%s:%d:%d", file, here.Line, here.Column)
	if s.Vars.Has(out.Name) {
		c.at([]any{"name"}, "%s is defined already, as a built-in signal: give this one another name", out.Name)
		return nil
	}
	switch {
	case doc.Count != nil && doc.Distinct == nil && doc.Sequence == nil:
		c.counted("count", doc.Count)
		if doc.Count.Value != "" {
			c.at([]any{"count", "value"}, "`count` takes no `value`: use `distinct` to count different values")
		}
	case doc.Distinct != nil && doc.Count == nil && doc.Sequence == nil:
		out.Distinct = true
		c.counted("distinct", doc.Distinct)
		out.ValueExpr = c.compile([]any{"distinct", "value"}, doc.Distinct.Value, cel.StringType, true)
	case doc.Sequence != nil && doc.Count == nil && doc.Distinct == nil:
		c.sequence(doc.Sequence)
	default:
		c.at([]any{"name"}, "signal %q needs exactly one of `count`, `distinct` and `sequence`", doc.Name)
	}
	if len(*bad) > n {
		return nil
	}
	if err := s.Declare(out.Declared, doc.Doc, out.KeyExpr, out.WhenExpr, out.ValueExpr, out.StepExprs); err != nil {
		c.at([]any{"name"}, "%v", err)
		return nil
	}
	return out
}

func (c *signalCompiler) compile(path []any, src string, want *cel.Type, required bool) *compiled.Expr {
	if src == "" {
		if required {
			c.at(path[:1], "signal %q needs `%s.%s`", c.doc.Name, path[0], path[len(path)-1])
		}
		return nil
	}
	x, err := c.scope.Compile(src, want)
	if err != nil {
		c.at(path, "%w", err)
		return nil
	}
	if name := c.scope.UsesDeclared(x); name != "" {
		c.at(path, "a signal cannot be made from another: %s", name)
	}
	return x
}

func (c *signalCompiler) window(path []any, src string) time.Duration {
	w, err := time.ParseDuration(src)
	if err != nil || w <= 0 || w > maxWindow {
		c.at(path, "the window %q is not a duration of up to %s, such as 10m or 72h", src, maxWindow)
	}
	return w
}

func (c *signalCompiler) kinds(path []any, on []string) {
	if len(on) == 0 {
		c.at(path[:1], "signal %q needs `on`: the kinds of events that it counts", c.doc.Name)
	}
	for j, k := range on {
		if !slices.Contains(Kinds, k) {
			c.at(append(path, j), "event kind %q is unknown%s", k, Suggest(k, Kinds))
		}
		c.out.On[k] = true
	}
}

// counted compiles the part of a declaration that `count` and `distinct` have in common.
func (c *signalCompiler) counted(name string, d *countDoc) {
	c.kinds([]any{name, "on"}, d.On)
	c.out.KeyExpr = c.compile([]any{name, "key"}, d.Key, cel.StringType, true)
	c.out.WhenExpr = c.compile([]any{name, "when"}, d.When, cel.BoolType, false)
	c.out.Window = c.window([]any{name, "window"}, d.Window)
	if c.out.Max = d.Max; d.Max == 0 {
		c.out.Max = MaxCount
	}
	if d.Max < 0 || d.Max > MaxCount {
		c.at([]any{name, "max"}, "max is %d, want 1 to %d", d.Max, MaxCount)
	}
}

func (c *signalCompiler) sequence(d *seqDoc) {
	c.out.KeyExpr = c.compile([]any{"sequence", "key"}, d.Key, cel.StringType, true)
	c.out.Window = c.window([]any{"sequence", "window"}, d.Window)
	if k := len(d.Steps); k < 2 || k > signals.MaxSteps {
		c.at([]any{"sequence"}, "a sequence has %[2]d steps, want 2 to %[1]d", signals.MaxSteps, k)
	}
	for j, st := range d.Steps {
		c.kinds([]any{"sequence", "steps", j, "on"}, st.On)
		when := c.compile([]any{"sequence", "steps", j, "when"}, st.When, cel.BoolType, true)
		c.out.StepExprs = append(c.out.StepExprs, when)
		step := signals.Step{On: st.On}
		switch path := []any{"sequence", "steps", j, "within"}; {
		case st.Within != "" && j == 0:
			c.at(path, "the first step follows no other, so it cannot have `within`: give it to a later step")
		case st.Within != "":
			step.Within = c.window(path, st.Within)
		}
		c.out.Steps = append(c.out.Steps, step)
	}
}
