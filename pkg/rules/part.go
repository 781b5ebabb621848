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

// Rules returns the evaluator's rules, ordered by id.
func (ev *Evaluator) Rules() []*Rule { return ev.rules }

// Part returns an evaluator for the rules that keep selects. It maintains only the state that these rules read. For
// these rules, it gives the same results as ev, as long as no table of signals was full. After that, results may
// differ, because reading a key keeps the key from being dropped, and the part reads fewer keys.
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

// Empty reports whether the evaluator has no rules.
func (ev *Evaluator) Empty() bool { return len(ev.rules) == 0 }

// Meaning returns a text that determines a rule's behavior: the rule's own text with all lists and macros expanded, the
// signals that it reads, and its exceptions. If rules of two sets have the same meaning, they give the same results.
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

// Changed returns the sorted ids of the rules whose meaning differs between two evaluators, or that only one of them
// has. a or b may be nil.
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
