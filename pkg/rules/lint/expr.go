package lint

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"lazaret/pkg/rules/compiled"
)

// expr checks an expression of any kind.
func (l *linter) expr(at spot, x *compiled.Expr, on []string) {
	if x != nil {
		l.common(at, x, on)
		l.regexesOf(at, x.AST, false)
	}
}

// common makes the checks that apply to every kind of expression.
func (l *linter) common(at spot, x *compiled.Expr, on []string) {
	if x.Cost > lintCost && !compiled.Dynamic(x.AST) {
		l.add("over-budget", at.errorf("the expression may cost %d, which is more than %d, half of the limit", x.Cost,
			lintCost))
	}
	l.loops(at, x.AST)
	l.capitals(at, x.AST)
	l.fieldsOfOtherKinds(at, x, on)
}

// neverTrue reports a condition that is never true for events of the kinds in on. so says what follows from that.
// neverTrue returns whether it reported the condition.
func (l *linter) neverTrue(at spot, x *compiled.Expr, on []string, so string) bool {
	can, _ := compiled.Outcomes(l.c.Set.Vars, x.AST, on)
	if can && compiled.NewPrefilterReader(l.c.Set.Vars).Of(x.AST.Expr(), nil).Op != compiled.OpNever {
		return false
	}
	l.add("never-matches", at.errorf("the condition is never true: %s", so))
	return true
}

// fieldsOfOtherKinds reports fields that no event of the given kinds has.
func (l *linter) fieldsOfOtherKinds(at spot, x *compiled.Expr, on []string) {
	ast.PreOrderVisit(x.AST.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		q := compiled.QualifiedName(e)
		v, ok := l.c.Set.Vars.Number[q]
		if !ok || l.c.Set.Vars.List[v].Signal != nil && strings.HasPrefix(q, "signal.") {
			return
		}
		root, _, _ := strings.Cut(q, ".")
		if ks, ok := kindsOfRoot[root]; ok &&
			!slices.ContainsFunc(on, func(k string) bool { return slices.Contains(ks, k) }) {
			l.add(
				"foreign-field",
				at.at(
					x.AST,
					e.ID(),
					fmt.Sprintf("%s is always empty here: only events of kind %s have it, and this is for %s", q,
						strings.Join(ks, ", "), strings.Join(on, ", ")),
				),
			)
		}
	}))
}

// loops reports loop variables that shadow other names. If a macro was expanded to such a loop, the finding is reported
// at the macro's name.
func (l *linter) loops(at spot, a *ast.AST) {
	roots := map[string]bool{"it": true, "lists": true, "macros": true}
	for name := range l.c.Set.Vars.Number {
		root, _, _ := strings.Cut(name, ".")
		roots[root] = true
	}
	var walk func(e ast.Expr, outer []string)
	walk = func(e ast.Expr, outer []string) {
		if e.Kind() == ast.ComprehensionKind {
			c := e.AsComprehension()
			walk(c.IterRange(), outer)
			names := []string{c.IterVar()}
			if c.HasIterVar2() {
				names = append(names, c.IterVar2())
			}
			for _, n := range names {
				if (roots[n] || slices.Contains(outer, n)) && a.SourceInfo().GetStartLocation(e.ID()).Line() > 0 {
					l.add("shadowed-name",
						at.at(a, e.ID(), fmt.Sprintf("the loop's variable %s hides another variable of that name", n)))
				}
			}
			inner := append(slices.Clone(outer), names...)
			walk(c.LoopStep(), inner)
			walk(c.Result(), inner)
			return
		}
		for _, k := range children(e) {
			walk(k, outer)
		}
	}
	walk(a.Expr(), nil)
}

// capitals reports literals with a capital letter that are searched in views. Views are in lower case, so such a
// literal is never found.
func (l *linter) capitals(at spot, a *ast.AST) {
	var walk func(e ast.Expr, views []string)
	walk = func(e ast.Expr, views []string) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			if compiled.QualifiedName(c.IterRange()) == "content.views" {
				views = append(slices.Clone(views), c.IterVar())
			}
			walk(c.LoopStep(), views)
			return
		case ast.CallKind:
			c := e.AsCall()
			if !c.IsMemberFunction() || !slices.Contains(views, compiled.QualifiedName(c.Target())) ||
				a.SourceInfo().GetStartLocation(e.ID()).Line() <= 0 {
				break
			}
			for _, arg := range c.Args() {
				for _, s := range compiled.Constants(arg, nil) {
					if hasCapital(s, c.FunctionName() == "matches") {
						l.add("capital-in-view", at.at(a, e.ID(), fmt.Sprintf("%q has a capital letter, and views are in lower case", s)))
					}
				}
			}
		}
		for _, k := range children(e) {
			walk(k, views)
		}
	}
	walk(a.Expr(), nil)
}

// hasCapital reports whether a text has a capital letter. For a regular expression, only literals count that do not
// ignore case.
func hasCapital(s string, regex bool) bool {
	if !regex {
		return strings.ContainsFunc(s, unicode.IsUpper)
	}
	p, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return false
	}
	var has func(r *syntax.Regexp) bool
	has = func(r *syntax.Regexp) bool {
		if r.Op == syntax.OpLiteral && r.Flags&syntax.FoldCase == 0 && slices.ContainsFunc(r.Rune, unicode.IsUpper) {
			return true
		}
		return slices.ContainsFunc(r.Sub, has)
	}
	return has(p)
}

// absent reports arguments of an action that an expression reads although the action may lack them. An argument is safe
// to read if has() tests it before, in the expression or in a condition that is evaluated earlier. If a macro was
// expanded to such a read, the finding is reported at the macro's name.
func (l *linter) absent(at spot, x *compiled.Expr, before ...*compiled.Expr) {
	if x == nil {
		return
	}
	asked := make(map[string]bool)
	for _, y := range append(before, x) {
		if y == nil {
			continue
		}
		ast.PreOrderVisit(y.AST.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
			if name, asks := argument(e); asks {
				asked[name] = true
			}
		}))
	}
	ast.PreOrderVisit(x.AST.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		name, asks := argument(e)
		if name != "" && !asks && !asked[name] && x.AST.SourceInfo().GetStartLocation(e.ID()).Line() > 0 {
			l.add("absent-argument", at.at(x.AST, e.ID(), fmt.Sprintf("an action without the argument %q makes this an error: "+
				"write '%s' in action.args && …", name, name)))
		}
	}))
}

// argument returns the name of the action's argument that an expression reads or tests. asks is set if the expression
// is a test with has().
func argument(e ast.Expr) (name string, asks bool) {
	of, key := ast.Expr(nil), ast.Expr(nil)
	switch e.Kind() {
	case ast.SelectKind:
		if s := e.AsSelect(); compiled.QualifiedName(s.Operand()) == "action.args" {
			return s.FieldName(), s.IsTestOnly()
		}
		return "", false
	case ast.CallKind:
		switch args := e.AsCall().Args(); e.AsCall().FunctionName() {
		case operators.Index:
			of, key = args[0], args[1]
		case operators.In:
			key, of, asks = args[0], args[1], true
		}
	}
	if of == nil || compiled.QualifiedName(of) != "action.args" {
		return "", false
	}
	if names := compiled.Constants(key, nil); len(names) == 1 {
		return names[0], asks
	}
	return "", false
}

// children returns the direct operands of an expression that is not a loop.
func children(e ast.Expr) (out []ast.Expr) {
	switch e.Kind() {
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			out = append(out, e.AsCall().Target())
		}
		out = append(out, e.AsCall().Args()...)
	case ast.SelectKind:
		out = append(out, e.AsSelect().Operand())
	case ast.ListKind:
		out = e.AsList().Elements()
	case ast.MapKind:
		for _, x := range e.AsMap().Entries() {
			out = append(out, x.AsMapEntry().Key(), x.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, x := range e.AsStruct().Fields() {
			out = append(out, x.AsStructField().Value())
		}
	}
	return out
}

// regexesOf returns the regular expressions of an expression. It reports large ones, and those that require no literal
// which the index can search, so that every text must be searched with them. If indexed is set, another part of the
// condition keeps the expression from being evaluated for every event; the second kind of finding is then only a note.
func (l *linter) regexesOf(at spot, a *ast.AST, indexed bool) (out []string) {
	lists := make(map[string][]string) // loop variable → constants
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind && e.AsComprehension().IterRange().Kind() == ast.ListKind {
			c := e.AsComprehension()
			for _, x := range c.IterRange().AsList().Elements() {
				lists[c.IterVar()] = append(lists[c.IterVar()], compiled.Constants(x, nil)...)
			}
		}
	}))
	ast.PreOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "matches" {
			return
		}
		args := e.AsCall().Args()
		for _, re := range compiled.Constants(args[len(args)-1], lists) {
			out = append(out, re)
			if l.regexes[re] {
				continue
			}
			p, err := syntax.Parse(re, syntax.Perl)
			if err != nil {
				continue
			}
			prog, err := syntax.Compile(p.Simplify())
			if err != nil {
				continue
			}
			switch n := len(prog.Inst); {
			case n > maxRegexProgram:
				l.add(
					"giant-regex",
					at.at(
						a,
						e.ID(),
						fmt.Sprintf("a regular expression of %d instructions: more than %d are slow on every text", n,
							maxRegexProgram),
					),
				)
				if n > worstRegexProgram {
					l.out[len(l.out)-1].Level = LevelError
				}
			case compiled.RequiredLiterals(re) == nil && prog.StartCond()&syntax.EmptyBeginText == 0:
				add := l.add
				if indexed {
					add = l.note
				}
				add(
					"giant-regex",
					at.at(
						a,
						e.ID(),
						fmt.Sprintf(
							"the regular expression %q has neither a literal of %d letters that every match contains nor ^ at its start: it "+
								"is tried at every place of every text",
							re,
							compiled.MinLiteral,
						),
					),
				)
			}
		}
	}))
	return out
}
