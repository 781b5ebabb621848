package ruletest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"lazaret/pkg/rules"
	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// Coverage says which parts of a rule set are covered by the set's tests. For full coverage, each rule must fire in
// some test, and be evaluated without firing in some test. Each operand of && and ||, and each condition of ?:, must be
// true in some test and false in some test.
type Coverage struct {
	Goals   int     `json:"goals"`
	Met     int     `json:"met"`
	Percent float64 `json:"percent"`
	// Rules has all rules that are not off, ordered by id. Gaps is ordered by position.
	Rules []RuleCoverage `json:"rules"`
	Gaps  []Gap          `json:"uncovered,omitempty"`
}

// RuleCoverage is the coverage of one rule.
type RuleCoverage struct {
	Rule  string `json:"rule"`
	Fired bool   `json:"fired"`
	Quiet bool   `json:"quiet"` // evaluated without firing
	Goals int    `json:"goals"`
	Met   int    `json:"met"`
}

// Gap is a goal of coverage that no test reaches.
type Gap struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Name   string `json:"name"` // the rule's id or, for a macro, "macros." and its name
	What   string `json:"what"`
	Text   string `json:"text,omitempty"` // source text of the operand
}

// String returns the gap on one line, with its position at the beginning.
func (g Gap) String() string {
	s := fmt.Sprintf("%s:%d:%d: %s: %s", g.File, g.Line, g.Column, g.Name, g.What)
	if g.Text != "" {
		s += ": " + g.Text
	}
	return s
}

// coverage records a test run.
type coverage struct {
	set   *rules.Set
	rules map[*rules.Rule]*ruleSeen
	// macros has the macros, by syntax tree. All packs share the trees of the macros in common.yaml.
	macros map[*cel.Ast]*covered
	defs   map[string]func(string) *compiled.Traced // by pack
}

type ruleSeen struct {
	*covered
	fired, quiet bool
}

// covered is an expression with its position, and the values that its operands have had in tests.
type covered struct {
	*compiled.Traced
	name   string
	file   string
	places []position // of each rune of the source
	parts  []ast.Expr
	seen   map[int64]*[2]bool // by operand: whether it was false, whether it was true
}

// position is a position in a file. Line and column count from 1.
type position struct{ line, column int }

func newCoverage(src *rules.Source, set *rules.Set) (*coverage, error) {
	c := &coverage{
		set:    set,
		rules:  make(map[*rules.Rule]*ruleSeen),
		macros: make(map[*cel.Ast]*covered),
		defs:   make(map[string]func(string) *compiled.Traced),
	}
	for _, pack := range slices.Sorted(maps.Keys(set.Scopes)) {
		if err := c.addMacros(src, pack); err != nil {
			return nil, err
		}
	}
	for pack, sc := range set.Scopes {
		lists := sc.Tracer()
		c.defs[pack] = func(name string) *compiled.Traced {
			if u := c.macros[sc.Defs[name]]; u != nil {
				return u.Traced
			}
			return lists(name)
		}
	}
	for _, r := range set.Rules() {
		if r.Mode == "off" {
			continue
		}
		at := r.Place("when", "")
		u, err := cover(set.Scopes[r.Pack], r.ID, r.When.Source, src.Files[r.File], r.File, position{at.Line, at.Column})
		if err != nil {
			return nil, err
		}
		c.rules[r] = &ruleSeen{covered: u}
	}
	return c, nil
}

// addMacros adds the macros of a pack. If pack is "", it adds those of common.yaml.
func (c *coverage) addMacros(src *rules.Source, pack string) error {
	file := rules.CommonFile
	if pack != "" {
		file = pack + "/pack.yaml"
	}
	if _, ok := src.Files[file]; !ok {
		return nil
	}
	var p rules.PackDoc
	dec := rules.Draft{Source: src}
	d := dec.Decode(file, &p)
	if len(dec.Problems) > 0 {
		return dec.Problems
	}
	for _, name := range slices.Sorted(maps.Keys(p.Macros)) {
		at := d.Errorf([]any{"macros", name}, "")
		u, err := cover(c.set.Scopes[pack], "macros."+name, p.Macros[name], src.Files[file], file,
			position{at.Line, at.Column})
		if err != nil {
			return err
		}
		c.macros[c.set.Scopes[pack].Defs["macros."+name]] = u
	}
	return nil
}

func cover(sc *compiled.Scope, name, expr, text, file string, at position) (*covered, error) {
	u := &covered{name: name, file: file, seen: make(map[int64]*[2]bool)}
	t, err := sc.Trace(expr)
	if err != nil {
		return nil, err
	}
	u.parts = compiled.Branches(t.AST.Expr())
	ids := make(map[int64]bool, len(u.parts))
	for _, e := range u.parts {
		ids[e.ID()], u.seen[e.ID()] = true, new([2]bool)
	}
	u.Traced, err = sc.Trace(expr, compiled.WatchOperands(ids, func(id int64, v ref.Val) {
		if b, ok := v.(types.Bool); ok {
			i := 0
			if b {
				i = 1
			}
			u.seen[id][i] = true
		}
	}))
	u.places = align([]rune(text), at, t.Source)
	return u, err
}

// watch returns a function that evaluates every rule of a group on an event and records the values of operands. It does
// so even for rules that the index would leave out.
func (c *coverage) watch(ev *rules.Evaluator) func(*streams.Entry) error {
	every, st := ev.Exhaustive(), index.NewMemStore()
	return func(e *streams.Entry) error {
		_, err := every.Watch(st, e, c)
		return err
	}
}

// Before implements rules.Watcher.
func (*coverage) Before(*rules.Rule) {}

// After implements rules.Watcher.
func (c *coverage) After(act *compiled.Activation, r *rules.Rule, alerts []streams.Alert) {
	u := c.rules[r]
	for _, a := range alerts {
		u.fired = u.fired || a.Error == ""
	}
	items, err := r.Items(act)
	if err != nil {
		return // a rule that fails raises an alert, so the test fails anyway and its coverage does not matter
	}
	for _, it := range items {
		act.It = it
		if v, _, err := u.Program.Eval(&compiled.TracedActivation{Activation: act, Defs: c.defs[r.Pack]}); err == nil &&
			v == types.False {
			u.quiet = true
		}
	}
	act.It = types.NullValue
}

func (c *coverage) report() *Coverage {
	out := &Coverage{Rules: []RuleCoverage{}}
	goal := func(met bool, g Gap) int {
		if out.Goals++; met {
			out.Met++
			return 1
		}
		out.Gaps = append(out.Gaps, g)
		return 0
	}
	for _, r := range c.set.Rules() {
		u := c.rules[r]
		if u == nil {
			continue
		}
		id := r.Place("id", "")
		at := Gap{File: r.File, Line: id.Line, Column: id.Column, Name: r.ID}
		at.What = "no test makes it fire"
		before := out.Met
		goal(u.fired, at)
		at.What = "no test evaluates it without firing"
		goal(u.quiet, at)
		n := u.report(goal)
		out.Rules = append(out.Rules,
			RuleCoverage{Rule: r.ID, Fired: u.fired, Quiet: u.quiet, Goals: 2 + n, Met: out.Met - before})
	}
	for _, u := range c.macros {
		u.report(goal)
	}
	slices.SortFunc(out.Gaps, func(a, b Gap) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column, strings.Compare(a.What, b.What))
	})
	out.Percent = 100
	if out.Goals > 0 {
		out.Percent = 100 * float64(out.Met) / float64(out.Goals)
	}
	return out
}

// report calls goal for each goal of the expression's operands, with whether the goal was reached. It returns the
// number of goals.
func (u *covered) report(goal func(bool, Gap) int) int {
	for _, e := range u.parts {
		lo, _ := u.Span(e)
		at := u.places[lo]
		for i, what := range []string{"never false", "never true"} {
			goal(u.seen[e.ID()][i], Gap{u.file, at.line, at.column, u.name, what, u.Text(e)})
		}
	}
	return 2 * len(u.parts)
}

// align returns the position in the file of each rune of a value. at is the position in the file at which the value
// begins. YAML may have folded, indented and quoted the value, but has not changed it otherwise.
func align(file []rune, at position, value []rune) []position {
	line, col, i := 1, 1, 0
	next := func() {
		if file[i] == '\n' {
			line, col = line+1, 0
		}
		i, col = i+1, col+1
	}
	for i < len(file) && (line < at.line || line == at.line && col < at.column) {
		next()
	}
	switch {
	case i == len(file):
	case file[i] == '>' || file[i] == '|':
		for i < len(file) && line == at.line {
			next()
		}
	case file[i] == '"' || file[i] == '\'':
		next()
	}
	out := make([]position, len(value))
	for j, r := range value {
		for i < len(file) && file[i] != r && !isSpace(r) {
			next()
		}
		out[j] = position{line, col}
		if i < len(file) && !isSpace(r) {
			next()
		}
	}
	return out
}

func isSpace(r rune) bool { return r == ' ' || r == '\n' || r == '\t' }
