package rules

import (
	"errors"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"

	"cel.dev/cel-go/cel"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/pkg/rules/compiled"
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
	Digest   string // digest of the rule's own text
	File     string
	FalsePos string

	compiled.Condition
	SubjectID, Message *compiled.Expr
	exceptions         []*Exception
	doc                RuleDoc
	// Place makes an error that names the line of a field of the rule.
	Place func(field string, format string, args ...any) *strictyaml.Error
}

// Set is a compiled rule set. It is safe for concurrent use.
type Set struct {
	digest   string
	rules    []*Rule
	groups   map[string]*Evaluator
	Vars     *compiled.Vars
	Declared []*DeclaredSignal
	// The names that each pack may use, by pack; under "", the names that all packs may use.
	Scopes     map[string]*compiled.Scope
	Exceptions []*Exception
	places     map[string]func(format string, args ...any) *strictyaml.Error // positions of exceptions
}

// Digest returns the digest of the rule set.
func (s *Set) Digest() string { return s.digest }

// Rules returns all rules, ordered by id.
func (s *Set) Rules() []*Rule { return s.rules }

// Rule returns the rule with the given id. If there is none, it returns nil.
func (s *Set) Rule(id string) *Rule {
	i, ok := slices.BinarySearchFunc(s.rules, id, func(r *Rule, id string) int { return strings.Compare(r.ID, id) })
	if !ok {
		return nil
	}
	return s.rules[i]
}

// Groups returns the names of the sentinel groups in alphabetical order.
func (s *Set) Groups() []string { return slices.Sorted(maps.Keys(s.groups)) }

// Group returns the evaluator of a sentinel group, or nil if the set has no such group.
func (s *Set) Group(name string) *Evaluator { return s.groups[name] }

// Draft is a rule set that is being compiled, with the problems that were found until now.
type Draft struct {
	Source   *Source
	Set      *Set
	Problems Problems
	FileOf   map[string]string // rule → file
	signalAt map[string]string // declared signal → place
	// written has the ids of all rules in the files, including rules that do not compile.
	written map[string]bool
}

// CompileBundle parses, checks and compiles the rule set of a bundle.
func CompileBundle(bundle []byte) (*Set, error) {
	src, err := Open(bundle)
	if err != nil {
		return nil, err
	}
	return Compile(src)
}

// Compile checks and compiles a rule set. An error is of type Problems, and lists everything that is wrong with the
// set, with its places.
func Compile(src *Source) (*Set, error) {
	c, err := Check(src)
	if err != nil {
		return nil, err
	}
	if len(c.Problems) > 0 {
		return nil, c.Problems
	}
	for _, sc := range c.Set.Scopes {
		sc.Used = nil
	}
	for _, ev := range c.Set.groups {
		ev.build(c.Set)
	}
	return c.Set, nil
}

// Check compiles as much of a rule set as possible. The draft lists the problems.
func Check(src *Source) (*Draft, error) {
	env, err := compiled.BaseEnv()
	if err != nil {
		return nil, err
	}
	vars := compiled.NewVars()
	c := &Draft{
		Source:   src,
		FileOf:   make(map[string]string),
		written:  make(map[string]bool),
		signalAt: make(map[string]string),
		Set: &Set{digest: src.digest, groups: make(map[string]*Evaluator), Vars: vars,
			Scopes: make(map[string]*compiled.Scope), places: make(map[string]func(string, ...any) *strictyaml.Error)},
	}
	common := compiled.NewScope(env, vars)
	c.Set.Scopes[""] = common
	if _, ok := src.Files[CommonFile]; ok {
		var p PackDoc
		d := c.Decode(CommonFile, &p)
		if p.Name != "" || p.Title != "" {
			c.Problems.note(CommonFile,
				d.Errorf([]any{"name"}, "%s is not a pack: it may have lists, macros and signals only", CommonFile))
		}
		c.names(common, d, CommonFile, &p)
	}
	byPack := make(map[string][]*Rule)
	var packs []string
	for name := range src.Files {
		if path.Base(name) == "pack.yaml" && strings.Count(name, "/") == 1 {
			packs = append(packs, path.Dir(name))
		}
	}
	sort.Strings(packs)
	for _, pack := range packs {
		byPack[pack] = c.pack(pack, common.Clone())
	}
	sort.Slice(c.Set.rules, func(i, j int) bool { return c.Set.rules[i].ID < c.Set.rules[j].ID })
	c.exceptions(common)
	c.groups(packs, byPack)
	return c, nil
}

// CommonFile is the file with the names that every pack may use. ExceptionsFile is the file with the exceptions.
// groupsFile is the file that lists the packs of each group.
const (
	CommonFile     = "common.yaml"
	ExceptionsFile = "exceptions.yaml"
	groupsFile     = "groups.yaml"
)

// Decode decodes a file of the rule set to v. If the file is missing or not valid, Decode records that as a problem of
// the draft and returns nil.
func (c *Draft) Decode(name string, v any) *strictyaml.Document {
	text, ok := c.Source.Files[name]
	if !ok {
		if name == groupsFile {
			c.Problems.note(name, errors.New("the file is missing: write it with the packs of each group, as in "+
				"`groups: {core: [mypack]}`; add `extends: shipped` to use the shipped packs too"))
			return nil
		}
		c.Problems.note(name, errors.New("the file is missing"))
		return nil
	}
	d, err := strictyaml.Parse(name, []byte(text))
	if err == nil {
		if unknown := d.Unknown(v); len(unknown) > 0 {
			for _, e := range unknown {
				var u *strictyaml.UnknownField
				if errors.As(e, &u) {
					e.Msg += Suggest(u.Name, u.Known)
				}
				c.Problems.note(name, e)
			}
			return nil
		}
		err = d.Decode(v)
	}
	if err != nil {
		c.Problems.note(name, err)
		return nil
	}
	return d
}

// pack compiles the rules of one pack.
func (c *Draft) pack(pack string, sc *compiled.Scope) (rules []*Rule) {
	file := pack + "/pack.yaml"
	var p PackDoc
	if d := c.Decode(file, &p); d != nil {
		if p.Name != pack {
			c.Problems.note(file, d.Errorf([]any{"name"}, "the pack is named %q, its folder %q", p.Name, pack))
		}
		c.names(sc, d, file, &p)
	}
	c.Set.Scopes[pack] = sc
	for _, name := range c.Source.Names(pack, ".yaml") {
		if path.Base(name) == "pack.yaml" || strings.HasSuffix(name, ".test.yaml") {
			continue
		}
		var rd FileDoc
		d := c.Decode(name, &rd)
		for i := range rd.Rules {
			c.written[rd.Rules[i].ID] = true
			r := compileRule(sc, d, name, i, &rd.Rules[i], &c.Problems)
			if r == nil {
				continue
			}
			if first, ok := c.FileOf[r.ID]; ok {
				c.Problems.note(name, d.Errorf([]any{"rules", i, "id"}, "rule %q is defined in %s already", r.ID, first))
			}
			c.FileOf[r.ID] = name
			r.Pack = pack
			rules = append(rules, r)
			c.Set.rules = append(c.Set.rules, r)
		}
	}
	return rules
}

// names adds lists, macros and signals to a scope. A macro may use macros that are defined later, but macros must not
// use each other in a cycle.
func (c *Draft) names(sc *compiled.Scope, d *strictyaml.Document, file string, p *PackDoc) {
	for _, name := range slices.Sorted(maps.Keys(p.Lists)) {
		if !validName(name) {
			c.Problems.note(file,
				d.Errorf([]any{"lists", name}, "the name %q of a list has other characters than a-z, 0-9 and _", name))
			continue
		}
		lit, err := streams.Marshal(append([]string{}, p.Lists[name]...))
		if err == nil {
			err = sc.Define("lists."+name, string(lit), cel.ListType(cel.StringType))
		}
		if err != nil {
			c.Problems.note(file, d.Errorf([]any{"lists", name}, "%w", err))
		}
	}
	todo := slices.Sorted(maps.Keys(p.Macros))
	for len(todo) > 0 {
		var left []string
		errs := make(map[string]error)
		for _, name := range todo {
			if !validName(name) {
				c.Problems.note(file,
					d.Errorf([]any{"macros", name}, "the name %q of a macro has other characters than a-z, 0-9 and _", name))
				continue
			}
			if err := sc.Define("macros."+name, p.Macros[name], nil); err != nil {
				left = append(left, name)
				errs[name] = err
			}
		}
		if len(left) == len(todo) {
			for _, name := range left {
				c.Problems.note(file, d.Errorf([]any{"macros", name}, "%w", errs[name]))
			}
			break
		}
		todo = left
	}
	for i := range p.Signals {
		if s := compileSignal(sc, d, file, i, &p.Signals[i], c.signalAt, &c.Problems); s != nil {
			c.Set.Declared = append(c.Set.Declared, s)
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
func (c *Draft) groups(packs []string, byPack map[string][]*Rule) {
	var groups GroupsDoc
	doc := c.Decode(groupsFile, &groups)
	if groups.Extends != "" {
		c.Problems.note(groupsFile, doc.Errorf([]any{"extends"},
			"a bundle has no extends: the lazaret command resolves extends when it reads the folder"))
	}
	for _, g := range slices.Sorted(maps.Keys(groups.Groups)) {
		if !streams.ValidID(g) {
			c.Problems.note("groups.yaml", doc.Errorf([]any{"groups", g}, "%v", streams.CheckID("group", g)))
			continue
		}
		ev := &Evaluator{Group: g}
		for i, pack := range groups.Groups[g] {
			if !slices.Contains(packs, pack) {
				c.Problems.note("groups.yaml",
					doc.Errorf([]any{"groups", g, i}, "there is no pack %q%s", pack, Suggest(pack, packs)))
				continue
			}
			ev.rules = append(ev.rules, byPack[pack]...)
		}
		c.Set.groups[g] = ev
	}
}

// compileRule checks and compiles one rule. If the rule has a problem, it records the problem in bad and returns nil.
func compileRule(sc *compiled.Scope, d *strictyaml.Document, name string, i int, rd *RuleDoc, bad *Problems) *Rule {
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
			at(field, "%s %q is unknown: use one of %s%s", field, v, strings.Join(known, ", "), Suggest(v, known))
		}
		return v
	}
	if !streams.ValidID(rd.ID) {
		at("id", "%v", streams.CheckID("rule id", rd.ID))
	}
	if rd.Title == "" {
		at("title", "rule %q needs a title", rd.ID)
	}
	r := &Rule{
		ID:       rd.ID,
		Title:    rd.Title,
		Tags:     rd.Tags,
		On:       rd.On,
		File:     name,
		FalsePos: rd.FalsePos,
		doc:      *rd,
		Place:    place,
		Severity: oneOf("severity", rd.Severity, Severities, ""),
		Status:   oneOf("status", rd.Status, Statuses, "stable"),
		Mode:     oneOf("mode", rd.Mode, Modes, "enforce"),
		Effect:   oneOf("effect", rd.Effect, Effects, ""),
		Subject:  oneOf("subject", rd.Subject, Subjects, ""),
		OnError:  rd.OnError,
	}
	if r.Effect != "alert" && rd.OnError == "" && slices.Contains(Effects, r.Effect) {
		at("effect", "rule %q has the effect %s, so it needs `on_error`: the effect if its evaluation fails", rd.ID, r.Effect)
	}
	if rd.OnError == "" {
		r.OnError = "alert"
	}
	oneOf("on_error", r.OnError, Effects, "")
	for field, effect := range map[string]string{"effect": r.Effect, "on_error": r.OnError} {
		if k := slices.IndexFunc(rd.On, func(k string) bool { return !slices.Contains(textKinds, k) }); k >= 0 &&
			streams.IsTextEffect(effect) {
			at(field, "`%s: %s` changes a text that is returned, but %s has no such text: use it with `on: [%s]` only", field,
				effect, rd.On[k], strings.Join(textKinds, ", "))
		}
	}
	if len(rd.On) == 0 {
		at("on", "rule %q needs `on`: the kinds of events that it is evaluated for", rd.ID)
	}
	for j, k := range rd.On {
		if !slices.Contains(Kinds, k) {
			bad.note(name, d.Errorf([]any{"rules", i, "on", j}, "event kind %q is unknown: use one of %s%s", k,
				strings.Join(Kinds, ", "), Suggest(k, Kinds)))
		}
	}
	compile := func(field, src string, want *cel.Type, required bool) *compiled.Expr {
		if src == "" {
			if required {
				at(field, "rule %q needs `%s`", rd.ID, field)
			}
			return nil
		}
		x, err := sc.Compile(src, want)
		if err != nil {
			at(field, "%s of rule %q: %w", field, rd.ID, err)
			return nil
		}
		return x
	}
	r.Condition = compiled.NewCondition(sc.Vars, compile("when", rd.When, cel.BoolType, true),
		compile("for_each", rd.ForEach, cel.ListType(cel.DynType), false))
	r.SubjectID = compile("subject_id", rd.SubjectID, cel.StringType, false)
	r.Message = compile("message", rd.Message, cel.StringType, true)
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
