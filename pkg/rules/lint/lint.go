package lint

import (
	"cmp"
	"errors"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/pkg/rules"
	"lazaret/pkg/rules/compiled"
	"lazaret/pkg/rules/ruletest"
	"lazaret/streams"
)

// Levels of findings. A finding is an error if the rule set does not load because of it, if a rule has no effect, or if
// a regular expression is extremely large.
const (
	LevelError   = "error"
	LevelWarning = "warning"
	LevelNote    = "note"
)

// Finding is something that a lint found.
type Finding struct {
	Rule    string `json:"rule"` // id of the lint
	Level   string `json:"level"`
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`   // counted from 1; 0 if the finding concerns the whole file
	Column  int    `json:"column,omitempty"` // from 1, in characters
	Message string `json:"message"`
	Source  string `json:"source,omitempty"` // text of the line
}

// All returns all lints.
func All() []Info { return slices.Clone(lints) }

const (
	maxRegexProgram = 2000 // instructions
	// worstRegexProgram is the size of a regular expression's program from which a finding is an error. With this size,
	// one search of a text of 140 KB took 0.6 s.
	worstRegexProgram = 4 * maxRegexProgram
	soon              = 30 * 24 * time.Hour // an exception that expires within this time is reported
	lintCost          = compiled.CostLimit / 2
)

// tagForm is the form of a tag that names an entry of a public list, such as owasp, atlas or cwe.
var tagForm = regexp.MustCompile(`^(?:(?:owasp|atlas|arxiv)\.[a-z0-9]+(?:[.-][a-z0-9]+)*|cwe-[0-9]+)$`)

// kindsOfRoot gives, for the first part of a qualified name, the kinds of events that have these fields. Names that are
// not in it are available for all kinds.
var kindsOfRoot = map[string][]string{
	"content":  {"observation", "memory", "action", "outcome"},
	"memory":   {"memory"},
	"decision": {"decision"},
	"action":   {"action"},
	"recall":   {"recall"},
	"outcome":  {"outcome"},
	"tools":    {"tools"},
}

// linter collects findings.
type linter struct {
	c       *rules.Draft
	now     time.Time
	out     []Finding
	regexes map[string]bool // regular expressions found in macros
	untold  bool            // some tests could not be read
}

// Run checks a rule set. A problem that prevents the set from loading is also a finding. If Run returns an error, this
// program has a fault.
func Run(src *rules.Source, now time.Time) ([]Finding, error) {
	c, err := rules.Check(src)
	if err != nil {
		return nil, err
	}
	l := &linter{c: c, now: now, regexes: make(map[string]bool)}
	fired, named := l.tests()
	for _, p := range c.Problems {
		l.problem(p)
	}
	l.files()
	l.names()
	l.signals()
	l.exceptions()
	l.rules(fired)
	if len(c.Problems) == 0 { // if there are problems, a test may be missing only because its file could not be read
		l.unknownRules(named)
		l.packs()
	}
	slices.SortStableFunc(l.out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Rule, b.Rule))
	})
	return slices.Compact(l.out), nil
}

// problem converts a problem of Compile to findings, one for each fault of an expression.
func (l *linter) problem(p *strictyaml.Error) {
	var fs *compiled.Faults
	if !errors.As(p, &fs) {
		l.add("compile", p)
		return
	}
	before := strings.TrimSuffix(p.Msg, fs.Error())
	for _, f := range fs.All {
		e := p.Within(f.Line, f.Column)
		e.Msg = before + f.Msg
		l.add("compile", e)
	}
}

func (l *linter) add(id string, e *strictyaml.Error) {
	i := slices.IndexFunc(lints, func(x Info) bool { return x.ID == id })
	l.out = append(
		l.out,
		Finding{
			Rule:    id,
			Level:   lints[i].Level,
			File:    e.File,
			Line:    e.Line,
			Column:  e.Column,
			Message: e.Msg,
			Source:  e.Source,
		},
	)
}

// note is like add, but the finding has the lowest level.
func (l *linter) note(id string, e *strictyaml.Error) {
	l.add(id, e)
	l.out[len(l.out)-1].Level = LevelNote
}

// decode decodes a file of the rule set once more. It reports no problems of the file, because Run has reported them.
func (l *linter) decode(name string, v any) *strictyaml.Document {
	c := rules.Draft{Source: l.c.Source}
	return c.Decode(name, v)
}

// spot is a value in a file.
type spot struct {
	d    *strictyaml.Document
	path []any
}

func (s spot) under(path ...any) spot { return spot{s.d, append(slices.Clone(s.path), path...)} }

func (s spot) errorf(format string, args ...any) *strictyaml.Error {
	return s.d.Errorf(s.path, format, args...)
}

// at returns an error about the part of the expression with the given id. Its place is in the file in which the
// expression is.
func (s spot) at(a *ast.AST, id int64, msg string) *strictyaml.Error {
	loc := a.SourceInfo().GetStartLocation(id)
	return s.errorf("%w", &remark{msg, loc.Line(), loc.Column()})
}

// remark is a message about a place in an expression.
type remark compiled.Fault

func (r *remark) Error() string      { return r.Msg }
func (r *remark) Within() (int, int) { return r.Line, r.Column }

// tests reads the tests of the rule set. fired has the rules that some test expects to fire. named has, for each rule,
// the places at which tests name it.
func (l *linter) tests() (fired map[string]bool, named map[string][]spot) {
	fired, named = make(map[string]bool), make(map[string][]spot)
	for _, name := range slices.Sorted(maps.Keys(l.c.Source.Files)) {
		if !strings.HasSuffix(name, ".test.yaml") {
			continue
		}
		var td ruletest.TestDoc
		d := l.c.Decode(name, &td)
		if d == nil {
			l.untold = true
			continue
		}
		for i, tc := range td.Tests {
			at := spot{d, []any{"tests", i}}
			for _, r := range slices.Sorted(maps.Keys(tc.Fires)) {
				for i := range tc.Fires[r] {
					fired[r] = fired[r] || tc.Fires[r][i].Wanted() > 0
				}
				named[r] = append(named[r], at.under("fires", r))
			}
			for j, r := range tc.Silent {
				named[r] = append(named[r], at.under("silent", j))
			}
		}
	}
	return fired, named
}

func (l *linter) unknownRules(named map[string][]spot) {
	for _, r := range slices.Sorted(maps.Keys(named)) {
		if l.c.Set.Rule(r) != nil {
			continue
		}
		for _, s := range named[r] {
			l.add(
				"unknown-rule",
				s.errorf("the test names rule %q, which the set does not have%s", r,
					rules.Suggest(r, slices.Sorted(maps.Keys(l.c.FileOf)))),
			)
		}
	}
}

// files reports files that are not used.
func (l *linter) files() {
	for _, name := range slices.Sorted(maps.Keys(l.c.Source.Files)) {
		dir, why := path.Dir(name), ""
		switch {
		case dir == ".":
			if known := []string{"groups.yaml", rules.CommonFile, rules.ExceptionsFile}; !slices.Contains(known, name) &&
				!strings.HasSuffix(name, ".test.yaml") {
				why = "next to the packs only groups.yaml, common.yaml and exceptions.yaml are read" + rules.Suggest(name,
					known)
			}
		case strings.HasSuffix(name, ".test.yaml"):
		case l.c.Set.Scopes[dir] == nil:
			why = "its folder is not a pack: it has no pack.yaml, or is more than one level deep"
		}
		if why != "" {
			l.add("unread-file", &strictyaml.Error{File: name, Msg: why})
		}
	}
}

// packs reports packs that belong to no group, so that their rules are never evaluated.
func (l *linter) packs() {
	var g rules.GroupsDoc
	l.decode("groups.yaml", &g)
	for _, pack := range slices.Sorted(maps.Keys(l.c.Set.Scopes)) {
		in := false
		for _, packs := range g.Groups {
			in = in || slices.Contains(packs, pack)
		}
		if file := pack + "/pack.yaml"; pack != "" && !in {
			var p rules.PackDoc
			l.add("ungrouped-pack", spot{l.decode(file, &p), []any{"name"}}.errorf("pack %q is in no group", pack))
		}
	}
}

// names reports faults of lists and macros, and of the names of signals.
func (l *linter) names() {
	common := l.c.Set.Scopes[""]
	for _, pack := range slices.Sorted(maps.Keys(l.c.Set.Scopes)) {
		file, sc := path.Join(pack, "pack.yaml"), l.c.Set.Scopes[pack]
		if pack == "" {
			file = rules.CommonFile
		}
		if _, ok := l.c.Source.Files[file]; !ok {
			continue
		}
		var p rules.PackDoc
		d := l.decode(file, &p)
		if d == nil {
			continue
		}
		look := func(kind, name string) *cel.Ast {
			def, at := sc.Defs[kind+"."+name], spot{d, []any{kind, name}}
			if def == nil {
				return nil
			}
			if !sc.Used.Defs[def] && len(l.c.Problems) == 0 {
				l.add("unused", at.errorf("nothing mentions %s.%s", kind, name))
			}
			if pack != "" && common.Defs[kind+"."+name] != nil {
				l.add("shadowed-name", at.errorf("%s.%s hides that of %s", kind, name, rules.CommonFile))
			}
			return def
		}
		for _, name := range slices.Sorted(maps.Keys(p.Lists)) {
			look("lists", name)
		}
		for _, name := range slices.Sorted(maps.Keys(p.Macros)) {
			if def := look("macros", name); def != nil {
				at, a := spot{d, []any{"macros", name}}, def.NativeRep()
				l.loops(at, a)
				l.capitals(at, a)
				for _, re := range l.regexesOf(at, a, false) {
					l.regexes[re] = true
				}
			}
		}
		for i, s := range p.Signals {
			if !sc.Used.Vars["signal."+s.Name] && len(l.c.Problems) == 0 {
				l.add("unused", d.Errorf([]any{"signals", i, "name"}, "nothing mentions signal.%s", s.Name))
			}
		}
	}
}

// signals checks the expressions of signals.
func (l *linter) signals() {
	byName := make(map[string]*rules.DeclaredSignal)
	for _, s := range l.c.Set.Declared {
		byName[s.Name] = s
	}
	for _, pack := range slices.Sorted(maps.Keys(l.c.Set.Scopes)) {
		file := path.Join(pack, "pack.yaml")
		if pack == "" {
			file = rules.CommonFile
		}
		if _, ok := l.c.Source.Files[file]; !ok {
			continue
		}
		var p rules.PackDoc
		d := l.decode(file, &p)
		for i, doc := range p.Signals {
			s := byName["signal."+doc.Name]
			if s == nil {
				continue
			}
			at := spot{d, []any{"signals", i}}
			form := "count"
			switch {
			case doc.Distinct != nil:
				form = "distinct"
			case doc.Sequence != nil:
				form = "sequence"
			}
			on := slices.Sorted(maps.Keys(s.On))
			l.expr(at.under(form, "key"), s.KeyExpr, on)
			l.expr(at.under(form, "value"), s.ValueExpr, on)
			l.absent(at.under(form, "when"), s.WhenExpr)
			l.absent(at.under(form, "value"), s.ValueExpr, s.WhenExpr)
			if l.expr(at.under(form, "when"), s.WhenExpr, on); s.WhenExpr != nil {
				l.neverTrue(at.under(form, "when"), s.WhenExpr, on, "the signal never counts anything")
			}
			for j, when := range s.StepExprs {
				at := at.under(form, "steps", j, "when")
				l.expr(at, when, s.Steps[j].On)
				l.neverTrue(at, when, s.Steps[j].On, "the sequence is never completed")
			}
		}
	}
}

// exceptions checks exceptions and their dates.
func (l *linter) exceptions() {
	if len(l.c.Set.Exceptions) == 0 {
		return
	}
	var ed rules.ExceptionsDoc
	d := l.decode(rules.ExceptionsFile, &ed)
	for i, doc := range ed.Exceptions {
		j := slices.IndexFunc(l.c.Set.Exceptions, func(x *rules.Exception) bool { return x.Id == doc.ID })
		if j < 0 {
			continue
		}
		x, at := l.c.Set.Exceptions[j], spot{d, []any{"exceptions", i}}
		switch left := x.Expires.Sub(l.now); {
		case left <= 0:
			l.add("expired-exception",
				at.under("expires").errorf("exception %q has expired: its rules apply again; ask %s", x.Id, x.Owner))
		case left <= soon:
			l.add("exception-soon", at.under("expires").errorf("exception %q expires in %d days: ask %s whether it is still "+
				"needed", x.Id, int(left.Hours()/24), x.Owner))
		}
		var on []string
		for _, id := range x.Rules {
			if r := l.c.Set.Rule(id); r != nil {
				on = append(on, r.On...)
			}
		}
		l.expr(at.under("when"), x.When, on)
		l.neverTrue(at.under("when"), x.When, on, "the exception never applies")
	}
}

// rules checks each rule.
func (l *linter) rules(fired map[string]bool) {
	for _, pack := range slices.Sorted(maps.Keys(l.c.Set.Scopes)) {
		if pack == "" {
			continue
		}
		for _, name := range l.c.Source.Names(pack, ".yaml") {
			if path.Base(name) == "pack.yaml" || strings.HasSuffix(name, ".test.yaml") {
				continue
			}
			var rd rules.FileDoc
			d := l.decode(name, &rd)
			for i := range rd.Rules {
				if r := l.c.Set.Rule(rd.Rules[i].ID); r != nil && r.File == name {
					l.rule(spot{d, []any{"rules", i}}, r, fired[r.ID])
				}
			}
		}
	}
}

func (l *linter) rule(at spot, r *rules.Rule, tested bool) {
	id, when := at.under("id"), at.under("when")
	if !tested && !l.untold && r.Mode != "off" {
		l.add("missing-test", id.errorf("no test expects rule %q to fire", r.ID))
	}
	if r.FalsePos == "" {
		l.add("no-false-positives", id.errorf("rule %q has no false_positives", r.ID))
	}
	if r.Status == "deprecated" && r.Mode == "enforce" {
		l.add("deprecated-enforced", at.under("status").errorf("rule %q is deprecated and in mode enforce", r.ID))
	}
	if r.Status == "experimental" && r.Mode == "enforce" && slices.ContainsFunc(r.On, func(k string) bool {
		v, _ := (&streams.Alert{Effect: r.Effect}).Asks(streams.Type(k))
		return v != streams.Allow
	}) {
		l.add("experimental-enforced",
			at.under("status").errorf("rule %q is experimental, and its effect %s is enforced", r.ID, r.Effect))
	}
	for i, tag := range r.Tags {
		if !tagForm.MatchString(tag) {
			l.add("tag-form", at.under("tags", i).errorf("the tag %q is not one of owasp.*, atlas.*, cwe-* and arxiv.*", tag))
		}
	}
	l.expr(at.under("for_each"), r.ForEach, r.On)
	l.expr(at.under("subject_id"), r.SubjectID, r.On)
	l.expr(at.under("message"), r.Message, r.On)
	l.absent(when, r.When)
	l.absent(at.under("for_each"), r.ForEach)
	l.absent(at.under("subject_id"), r.SubjectID, r.When)
	l.absent(at.under("message"), r.Message, r.When)
	l.common(when, r.When, r.On)
	rd := compiled.NewPrefilterReader(l.c.Set.Vars)
	n := r.Prefilter(rd)
	_, cost := compiled.Access(n, make([]int, len(rd.Atoms)))
	l.regexesOf(when, r.When.AST, cost >= 0)
	never := l.neverTrue(when, r.When, r.On, "the rule never fires")
	if _, canFail := compiled.Outcomes(l.c.Set.Vars, r.When.AST, r.On); !canFail && !never {
		l.add("always-matches",
			when.errorf("the condition is always true: rule %q fires for every %s", r.ID, strings.Join(r.On, " and ")))
	} else if cost < 0 {
		l.add("unindexed", when.errorf("rule %q has no condition that the index can use: it is evaluated for every %s",
			r.ID, strings.Join(r.On, " and ")))
	}
}
