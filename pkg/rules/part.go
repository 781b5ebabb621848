package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/signals"
	"lazaret/streams"
)

// Rules lists the evaluator's rules by id.
func (ev *Evaluator) Rules() []*Rule { return ev.rules }

// Part is an evaluator of some of the rules. It keeps only the state that those
// read, and finds with them what the whole finds. (Reading a key keeps it from
// falling out of a full table; there the two may differ.)
func (ev *Evaluator) Part(keep func(*Rule) bool) *Evaluator {
	p := &Evaluator{Group: ev.Group, vars: ev.vars, scopes: ev.scopes, exhaustive: ev.exhaustive}
	names := make(map[string]bool)
	for _, r := range ev.rules {
		if keep(r) && r.Mode != "off" {
			p.rules = append(p.rules, r)
			for _, x := range r.exprs() {
				x.Names(names)
			}
		}
	}
	for _, d := range ev.declared {
		if names[d.Name] {
			p.declared = append(p.declared, d)
			for _, x := range d.exprs() {
				x.Names(names)
			}
		}
	}
	for name := range names {
		p.only |= signals.PartsOf(name)
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
		compiled.Render(&b, x.AST.Expr())
		x.Names(names)
	}
	for _, x := range r.exceptions {
		fmt.Fprintf(&b, "\x00x %s %s ", x.Id, x.Expires.Format(time.RFC3339))
	}
	for _, d := range ev.declared {
		if !names[d.Name] {
			continue
		}
		fmt.Fprintf(&b, "\x00s %s %s %d %v ", d.Name, d.Window, d.Max, d.Distinct)
		for _, k := range Kinds {
			fmt.Fprint(&b, d.On[k])
		}
		for _, st := range d.Steps {
			fmt.Fprint(&b, st.On)
		}
		for _, x := range d.exprs() {
			compiled.Render(&b, x.AST.Expr())
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

func (r *Rule) exprs() []*compiled.Expr {
	out := []*compiled.Expr{r.When, r.Message}
	for _, x := range []*compiled.Expr{r.ForEach, r.SubjectID} {
		if x != nil {
			out = append(out, x)
		}
	}
	for _, x := range r.exceptions {
		out = append(out, x.When)
	}
	return out
}

func (d *DeclaredSignal) exprs() []*compiled.Expr {
	var out []*compiled.Expr
	for _, x := range []*compiled.Expr{d.KeyExpr, d.WhenExpr, d.ValueExpr} {
		if x != nil {
			out = append(out, x)
		}
	}
	return append(out, d.StepExprs...)
}
