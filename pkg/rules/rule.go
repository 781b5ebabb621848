package rules

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"

	"cel.dev/cel-go/cel"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/streams"
)

// Rule is a compiled rule.
type Rule struct {
	ID       string
	Title    string
	Severity string
	Status   string
	Tags     []string
	Pack     string
	On       []string
	Effect   string
	OnError  string
	Mode     string
	Subject  string
	Digest   string // of its own text
	File     string
	FalsePos string

	condition
	subjectID, message *expr
	exceptions         []*exception
	doc                ruleDoc
	place              func(field string, format string, args ...any) *strictyaml.Error
}

// Set is a compiled rule set. It is safe for concurrent use.
type Set struct {
	digest   string
	rules    []*Rule
	groups   map[string]*Evaluator
	vars     *varTable
	declared []*declared
	scopes   map[string]*scope // by pack; "" is what all know
	excepted []*exception
	places   map[string]func(format string, args ...any) *strictyaml.Error // of exceptions
}

// Digest names the rule set.
func (s *Set) Digest() string { return s.digest }

// Rules lists all rules by id.
func (s *Set) Rules() []*Rule { return s.rules }

// Rule is the rule of an id, or nil.
func (s *Set) Rule(id string) *Rule {
	i, ok := slices.BinarySearchFunc(s.rules, id, func(r *Rule, id string) int { return strings.Compare(r.ID, id) })
	if !ok {
		return nil
	}
	return s.rules[i]
}

// Groups lists the sentinel groups in order.
func (s *Set) Groups() []string { return slices.Sorted(maps.Keys(s.groups)) }

// Group is the evaluator of a sentinel group, or nil if the set knows none of
// that name.
func (s *Set) Group(name string) *Evaluator { return s.groups[name] }

// compiler gathers a rule set.
type compiler struct {
	src  *Source
	set  *Set
	bad  Problems
	seen map[string]string // rule → file
	// written is the rules that there are, those that do not compile included.
	written map[string]bool
}

// Compile checks a rule set as a whole. Its error is Problems: everything that
// is wrong, each with its place.
func Compile(src *Source) (*Set, error) {
	c, err := compile(src)
	if err != nil {
		return nil, err
	}
	if len(c.bad) > 0 {
		return nil, c.bad
	}
	for _, sc := range c.set.scopes {
		sc.used = nil
	}
	for _, ev := range c.set.groups {
		ev.build(c.set)
	}
	return c.set, nil
}

// compile is what can be compiled of a rule set, and what cannot.
func compile(src *Source) (*compiler, error) {
	env, err := baseEnv()
	if err != nil {
		return nil, err
	}
	vars := &varTable{vars: slices.Clone(baseVars().vars), index: maps.Clone(baseVars().index)}
	c := &compiler{src: src, seen: make(map[string]string), written: make(map[string]bool), set: &Set{digest: src.digest, groups: make(map[string]*Evaluator), vars: vars,
		scopes: make(map[string]*scope), places: make(map[string]func(string, ...any) *strictyaml.Error)}}
	common := &scope{env: env, vars: vars, defs: make(map[string]*cel.Ast), used: &usage{make(map[*cel.Ast]bool), make(map[string]bool)}}
	c.set.scopes[""] = common
	if _, ok := src.files[commonFile]; ok {
		var p packDoc
		d := c.decode(commonFile, &p)
		if p.Name != "" || p.Title != "" {
			c.bad.note(commonFile, d.Errorf([]any{"name"}, "%s is no pack: it has lists, macros and signals only", commonFile))
		}
		c.names(common, d, commonFile, &p)
	}
	byPack := make(map[string][]*Rule)
	var packs []string
	for name := range src.files {
		if path.Base(name) == "pack.yaml" && strings.Count(name, "/") == 1 {
			packs = append(packs, path.Dir(name))
		}
	}
	sort.Strings(packs)
	for _, pack := range packs {
		byPack[pack] = c.pack(pack, common.clone())
	}
	sort.Slice(c.set.rules, func(i, j int) bool { return c.set.rules[i].ID < c.set.rules[j].ID })
	c.exceptions(common)
	c.groups(packs, byPack)
	return c, nil
}

// commonFile holds the names that every pack knows, and exceptionsFile the
// exceptions.
const (
	commonFile     = "common.yaml"
	exceptionsFile = "exceptions.yaml"
	groupsFile     = "groups.yaml"
)

func (c *compiler) decode(name string, v any) *strictyaml.Document {
	text, ok := c.src.files[name]
	if !ok {
		c.bad.note(name, fmt.Errorf("the file is missing"))
		return nil
	}
	d, err := strictyaml.Parse(name, []byte(text))
	if err == nil {
		if unknown := d.Unknown(v); len(unknown) > 0 {
			for _, e := range unknown {
				var u *strictyaml.UnknownField
				if errors.As(e, &u) {
					e.Msg += suggest(u.Name, u.Known)
				}
				c.bad.note(name, e)
			}
			return nil
		}
		err = d.Decode(v)
	}
	if err != nil {
		c.bad.note(name, err)
		return nil
	}
	return d
}

// pack compiles the rules of one pack.
func (c *compiler) pack(pack string, sc *scope) (rules []*Rule) {
	file := pack + "/pack.yaml"
	var p packDoc
	if d := c.decode(file, &p); d != nil {
		if p.Name != pack {
			c.bad.note(file, d.Errorf([]any{"name"}, "the pack is named %q, its folder %q", p.Name, pack))
		}
		c.names(sc, d, file, &p)
	}
	c.set.scopes[pack] = sc
	for _, name := range c.src.names(pack, ".yaml") {
		if path.Base(name) == "pack.yaml" || strings.HasSuffix(name, ".test.yaml") {
			continue
		}
		var rd rulesDoc
		d := c.decode(name, &rd)
		for i := range rd.Rules {
			c.written[rd.Rules[i].ID] = true
			r := compileRule(sc, d, name, i, &rd.Rules[i], &c.bad)
			if r == nil {
				continue
			}
			if first, ok := c.seen[r.ID]; ok {
				c.bad.note(name, d.Errorf([]any{"rules", i, "id"}, "rule %q is defined in %s already", r.ID, first))
			}
			c.seen[r.ID] = name
			r.Pack = pack
			rules = append(rules, r)
			c.set.rules = append(c.set.rules, r)
		}
	}
	return rules
}

// names adds lists, macros and signals to a scope. Macros may name others, in
// any order but a circle.
func (c *compiler) names(sc *scope, d *strictyaml.Document, file string, p *packDoc) {
	for _, name := range slices.Sorted(maps.Keys(p.Lists)) {
		if !validName(name) {
			c.bad.note(file, d.Errorf([]any{"lists", name}, "the name %q of a list has other characters than a-z, 0-9 and _", name))
			continue
		}
		lit, err := streams.Marshal(append([]string{}, p.Lists[name]...))
		if err == nil {
			err = sc.define("lists."+name, string(lit), cel.ListType(cel.StringType))
		}
		if err != nil {
			c.bad.note(file, d.Errorf([]any{"lists", name}, "%w", err))
		}
	}
	todo := slices.Sorted(maps.Keys(p.Macros))
	for len(todo) > 0 {
		var left []string
		errs := make(map[string]error)
		for _, name := range todo {
			if !validName(name) {
				c.bad.note(file, d.Errorf([]any{"macros", name}, "the name %q of a macro has other characters than a-z, 0-9 and _", name))
				continue
			}
			if err := sc.define("macros."+name, p.Macros[name], nil); err != nil {
				left = append(left, name)
				errs[name] = err
			}
		}
		if len(left) == len(todo) {
			for _, name := range left {
				c.bad.note(file, d.Errorf([]any{"macros", name}, "%w", errs[name]))
			}
			break
		}
		todo = left
	}
	for i := range p.Signals {
		if s := sc.compileSignal(d, file, i, &p.Signals[i], &c.bad); s != nil {
			c.set.declared = append(c.set.declared, s)
		}
	}
}

func validName(s string) bool {
	if s == "" || len(s) > 64 || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' })
}

// groups compiles groups.yaml.
func (c *compiler) groups(packs []string, byPack map[string][]*Rule) {
	var groups groupsDoc
	doc := c.decode(groupsFile, &groups)
	if groups.Extends != "" {
		c.bad.note(groupsFile, doc.Errorf([]any{"extends"}, "a bundle extends nothing: the lazaret command resolves extends when it reads the folder"))
	}
	for _, g := range slices.Sorted(maps.Keys(groups.Groups)) {
		if !streams.ValidID(g) {
			c.bad.note("groups.yaml", doc.Errorf([]any{"groups", g}, "%v", streams.CheckID("group", g)))
			continue
		}
		ev := &Evaluator{group: g}
		for i, pack := range groups.Groups[g] {
			if !slices.Contains(packs, pack) {
				c.bad.note("groups.yaml", doc.Errorf([]any{"groups", g, i}, "there is no pack %q%s", pack, suggest(pack, packs)))
				continue
			}
			ev.rules = append(ev.rules, byPack[pack]...)
		}
		c.set.groups[g] = ev
	}
}

// compileRule checks one rule. It returns nil if anything is wrong with it.
func compileRule(sc *scope, d *strictyaml.Document, name string, i int, rd *ruleDoc, bad *Problems) *Rule {
	n := len(*bad)
	place := func(field, format string, args ...any) *strictyaml.Error {
		return d.Errorf([]any{"rules", i, field}, format, args...)
	}
	at := func(field, format string, args ...any) { bad.note(name, place(field, format, args...)) }
	oneOf := func(field, v string, known []string, deflt string) string {
		if v == "" && deflt != "" {
			return deflt
		}
		if !slices.Contains(known, v) {
			at(field, "%s %q is unknown: use one of %s%s", field, v, strings.Join(known, ", "), suggest(v, known))
		}
		return v
	}
	if !streams.ValidID(rd.ID) {
		at("id", "%v", streams.CheckID("rule id", rd.ID))
	}
	if rd.Title == "" {
		at("title", "rule %q needs a title", rd.ID)
	}
	r := &Rule{ID: rd.ID, Title: rd.Title, Tags: rd.Tags, On: rd.On, File: name, FalsePos: rd.FalsePos, doc: *rd, place: place,
		Severity: oneOf("severity", rd.Severity, severities, ""),
		Status:   oneOf("status", rd.Status, statuses, "stable"),
		Mode:     oneOf("mode", rd.Mode, modes, "enforce"),
		Effect:   oneOf("effect", rd.Effect, effects, ""),
		Subject:  oneOf("subject", rd.Subject, subjects, ""),
		OnError:  rd.OnError}
	if r.Effect != "alert" && rd.OnError == "" && slices.Contains(effects, r.Effect) {
		at("effect", "rule %q has the effect %s and so needs on_error: what it does when it fails", rd.ID, r.Effect)
	}
	if rd.OnError == "" {
		r.OnError = "alert"
	}
	oneOf("on_error", r.OnError, effects, "")
	for field, effect := range map[string]string{"effect": r.Effect, "on_error": r.OnError} {
		if k := slices.IndexFunc(rd.On, func(k string) bool { return !slices.Contains(textKinds, k) }); k >= 0 && streams.IsTextEffect(effect) {
			at(field, "%s %s changes a text that is handed out, and %s has none: it goes with on: [%s] only", field, effect, rd.On[k], strings.Join(textKinds, ", "))
		}
	}
	if len(rd.On) == 0 {
		at("on", "rule %q needs on: the kinds of events that it looks at", rd.ID)
	}
	for j, k := range rd.On {
		if !slices.Contains(kinds, k) {
			bad.note(name, d.Errorf([]any{"rules", i, "on", j}, "event kind %q is unknown: use one of %s%s", k, strings.Join(kinds, ", "), suggest(k, kinds)))
		}
	}
	compile := func(field, src string, want *cel.Type, required bool) *expr {
		if src == "" {
			if required {
				at(field, "rule %q needs %s", rd.ID, field)
			}
			return nil
		}
		x, err := sc.compile(src, want)
		if err != nil {
			at(field, "%s of rule %q: %w", field, rd.ID, err)
			return nil
		}
		return x
	}
	r.condition = newCondition(sc.vars, compile("when", rd.When, cel.BoolType, true), compile("for_each", rd.ForEach, cel.ListType(cel.DynType), false))
	r.subjectID = compile("subject_id", rd.SubjectID, cel.StringType, false)
	r.message = compile("message", rd.Message, cel.StringType, true)
	raw, err := streams.Marshal(rd)
	if err != nil {
		at("id", "%v", err)
	}
	r.Digest = streams.Digest(raw)
	if len(*bad) > n {
		return nil
	}
	return r
}
