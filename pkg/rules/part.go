package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/common/ast"

	"lazaret/streams"
)

// Rules lists the evaluator's rules by id.
func (ev *Evaluator) Rules() []*Rule { return ev.rules }

// Part is an evaluator of some of the rules. It keeps only the state that those
// read, and finds with them what the whole finds. (Reading a key keeps it from
// falling out of a full table; there the two may differ.)
func (ev *Evaluator) Part(keep func(*Rule) bool) *Evaluator {
	p := &Evaluator{group: ev.group, vars: ev.vars, scopes: ev.scopes, exhaustive: ev.exhaustive}
	names := make(map[string]bool)
	for _, r := range ev.rules {
		if keep(r) && r.Mode != "off" {
			p.rules = append(p.rules, r)
			for _, x := range r.exprs() {
				x.names(names)
			}
		}
	}
	for _, d := range ev.declared {
		if names[d.Name] {
			p.declared = append(p.declared, d)
			for _, x := range d.exprs() {
				x.names(names)
			}
		}
	}
	for name := range names {
		p.only |= notesOf(name)
	}
	p.index()
	return p
}

// Empty reports whether the evaluator has no rules to judge by.
func (ev *Evaluator) Empty() bool { return len(ev.rules) == 0 }

// Meaning is what a rule comes to: its own text with all lists and macros
// written out, the signals that it reads and its exceptions. Rules of two sets
// with one meaning find the same.
func (ev *Evaluator) Meaning(r *Rule) string {
	var b strings.Builder
	b.WriteString(r.Digest)
	names := make(map[string]bool)
	for _, x := range r.exprs() {
		render(&b, x.ast.Expr())
		x.names(names)
	}
	for _, x := range r.exceptions {
		fmt.Fprintf(&b, "\x00x %s %s ", x.id, x.expires.Format(time.RFC3339))
	}
	for _, d := range ev.declared {
		if !names[d.Name] {
			continue
		}
		fmt.Fprintf(&b, "\x00s %s %s %d %v ", d.Name, d.Window, d.Max, d.Distinct)
		for _, k := range kinds {
			fmt.Fprint(&b, d.On[k])
		}
		for _, st := range d.Steps {
			fmt.Fprint(&b, st.On)
		}
		for _, x := range d.exprs() {
			render(&b, x.ast.Expr())
		}
	}
	return streams.Digest([]byte(b.String()))
}

// Changed lists the rules of both evaluators that do not mean the same in both,
// or are in one only, in order. Either may be nil.
func Changed(a, b *Evaluator) []string {
	meanings := func(ev *Evaluator) map[string]string {
		m := make(map[string]string)
		if ev != nil {
			for _, r := range ev.rules {
				m[r.ID] = ev.Meaning(r)
			}
		}
		return m
	}
	ma, mb := meanings(a), meanings(b)
	var out []string
	for id, m := range ma {
		if mb[id] != m {
			out = append(out, id)
		}
	}
	for id := range mb {
		if ma[id] == "" {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func (r *Rule) exprs() []*expr {
	out := []*expr{r.when, r.message}
	for _, x := range []*expr{r.forEach, r.subjectID} {
		if x != nil {
			out = append(out, x)
		}
	}
	for _, x := range r.exceptions {
		out = append(out, x.when)
	}
	return out
}

func (d *declared) exprs() []*expr {
	var out []*expr
	for _, x := range []*expr{d.key, d.when, d.value} {
		if x != nil {
			out = append(out, x)
		}
	}
	return append(out, d.steps...)
}

// names adds every qualified name in an expression.
func (x *expr) names(to map[string]bool) {
	ast.PreOrderVisit(x.ast.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if q := qualified(e); q != "" {
			to[q] = true
		}
	}))
}

// render writes an expression in a form that is the same for the same
// expression, and for no other.
func render(b *strings.Builder, e ast.Expr) {
	list := func(name string, es ...ast.Expr) {
		fmt.Fprintf(b, "%s(", name)
		for _, e := range es {
			render(b, e)
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
		list(fmt.Sprintf("loop %s %s %s", c.IterVar(), c.IterVar2(), c.AccuVar()), c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result())
	}
}
