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

// DeclaredSignal is a signal that a pack declares, with its compiled expressions.
type DeclaredSignal struct {
	*signals.Declared
	KeyExpr   *compiled.Expr
	WhenExpr  *compiled.Expr // nil: always
	ValueExpr *compiled.Expr // of distinct only
	StepExprs []*compiled.Expr
}

// compileSignal checks a declaration and adds its name to the scope.
//
// places are those of declared signals, by name.
func compileSignal(s *compiled.Scope, d *strictyaml.Document, file string, i int, doc *SignalDoc,
	places map[string]string, bad *Problems) *DeclaredSignal {
	n := len(*bad)
	at := func(path []any, format string, args ...any) {
		bad.note(file, d.Errorf(append([]any{"signals", i}, path...), format, args...))
	}
	if !streams.ValidID(doc.Name) {
		at([]any{"name"}, "%v", streams.CheckID("signal name", doc.Name))
		return nil
	}
	if doc.Doc == "" {
		at([]any{"name"}, "signal %q needs doc: the meaning of its value", doc.Name)
	}
	out := &DeclaredSignal{Declared: &signals.Declared{Name: "signal." + doc.Name, On: make(map[string]bool)}}
	here := d.Errorf([]any{"signals", i, "name"}, "")
	if place, ok := places[out.Name]; ok {
		at([]any{"name"}, "%s is defined already, at %s. All packs share the names of signals: give one of the two "+
			"another name", out.Name, place)
		return nil
	}
	places[out.Name] = fmt.Sprintf("%s:%d:%d", file, here.Line, here.Column)
	if s.Vars.Has(out.Name) {
		at([]any{"name"}, "%s is defined already, which every pack has: give this one another name", out.Name)
		return nil
	}
	compile := func(path []any, src string, want *cel.Type, required bool) *compiled.Expr {
		if src == "" {
			if required {
				at(path[:1], "signal %q needs %s.%s", doc.Name, path[0], path[len(path)-1])
			}
			return nil
		}
		x, err := s.Compile(src, want)
		if err != nil {
			at(path, "%w", err)
			return nil
		}
		if name := s.UsesDeclared(x); name != "" {
			at(path, "a signal cannot be made from another: %s", name)
		}
		return x
	}
	window := func(path []any, src string) time.Duration {
		w, err := time.ParseDuration(src)
		if err != nil || w <= 0 || w > maxWindow {
			at(path, "the window %q is not a duration of up to %s, such as 10m or 72h", src, maxWindow)
		}
		return w
	}
	kindsOf := func(path []any, on []string) {
		if len(on) == 0 {
			at(path[:1], "signal %q needs on: the kinds of events that it counts", doc.Name)
		}
		for j, k := range on {
			if !slices.Contains(Kinds, k) {
				at(append(path, j), "event kind %q is unknown%s", k, Suggest(k, Kinds))
			}
			out.On[k] = true
		}
	}
	counted := func(name string, c *countDoc) {
		kindsOf([]any{name, "on"}, c.On)
		out.KeyExpr = compile([]any{name, "key"}, c.Key, cel.StringType, true)
		out.WhenExpr = compile([]any{name, "when"}, c.When, cel.BoolType, false)
		out.Window = window([]any{name, "window"}, c.Window)
		if out.Max = c.Max; c.Max == 0 {
			out.Max = MaxCount
		}
		if c.Max < 0 || c.Max > MaxCount {
			at([]any{name, "max"}, "max is %d, want 1 to %d", c.Max, MaxCount)
		}
	}
	switch {
	case doc.Count != nil && doc.Distinct == nil && doc.Sequence == nil:
		counted("count", doc.Count)
		if doc.Count.Value != "" {
			at([]any{"count", "value"}, "count takes no value: use distinct to count different values")
		}
	case doc.Distinct != nil && doc.Count == nil && doc.Sequence == nil:
		out.Distinct = true
		counted("distinct", doc.Distinct)
		out.ValueExpr = compile([]any{"distinct", "value"}, doc.Distinct.Value, cel.StringType, true)
	case doc.Sequence != nil && doc.Count == nil && doc.Distinct == nil:
		out.KeyExpr = compile([]any{"sequence", "key"}, doc.Sequence.Key, cel.StringType, true)
		out.Window = window([]any{"sequence", "window"}, doc.Sequence.Window)
		if k := len(doc.Sequence.Steps); k < 2 || k > signals.MaxSteps {
			at([]any{"sequence"}, "a sequence has %[2]d steps, want 2 to %[1]d", signals.MaxSteps, k)
		}
		for j, st := range doc.Sequence.Steps {
			kindsOf([]any{"sequence", "steps", j, "on"}, st.On)
			when := compile([]any{"sequence", "steps", j, "when"}, st.When, cel.BoolType, true)
			out.StepExprs = append(out.StepExprs, when)
			step := signals.Step{On: st.On}
			switch path := []any{"sequence", "steps", j, "within"}; {
			case st.Within != "" && j == 0:
				at(path, "the first step follows no other: within belongs to a later one")
			case st.Within != "":
				step.Within = window(path, st.Within)
			}
			out.Steps = append(out.Steps, step)
		}
	default:
		at([]any{"name"}, "signal %q needs one of count, distinct and sequence", doc.Name)
	}
	if len(*bad) > n {
		return nil
	}
	if err := s.Declare(out.Declared, doc.Doc, out.KeyExpr, out.WhenExpr, out.ValueExpr, out.StepExprs); err != nil {
		at([]any{"name"}, "%v", err)
		return nil
	}
	return out
}
