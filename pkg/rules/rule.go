package rules

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"cel.dev/cel-go/cel"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/streams"
)

// ruleDoc is a rule as it is written.
type ruleDoc struct {
	ID          string   `yaml:"id"`
	Title       string   `yaml:"title"`
	Description string   `yaml:"description"`
	Severity    string   `yaml:"severity"`
	Status      string   `yaml:"status"`
	Tags        []string `yaml:"tags"`
	On          []string `yaml:"on"`
	When        string   `yaml:"when"`
	ForEach     string   `yaml:"for_each"`
	Effect      string   `yaml:"effect"`
	Subject     string   `yaml:"subject"`
	SubjectID   string   `yaml:"subject_id"`
	OnError     string   `yaml:"on_error"`
	Message     string   `yaml:"message"`
	Mode        string   `yaml:"mode"`
	FalsePos    string   `yaml:"false_positives"`
}

// rulesDoc is a rule file.
type rulesDoc struct {
	Rules []ruleDoc `yaml:"rules"`
}

// packDoc is a pack's pack.yaml.
type packDoc struct {
	Name        string              `yaml:"name"`
	Title       string              `yaml:"title"`
	Description string              `yaml:"description"`
	Lists       map[string][]string `yaml:"lists"`
}

// groupsDoc is groups.yaml.
type groupsDoc struct {
	Groups map[string][]string `yaml:"groups"`
}

// What rules may say.
var (
	severities = []string{"info", "low", "medium", "high", "critical"}
	statuses   = []string{"stable", "test", "experimental", "deprecated"}
	modes      = []string{"enforce", "shadow", "off"}
	effects    = []string{"alert", "hold", "deny", "restrict", "quarantine"}
	subjects   = []string{"action", "belief", "decision", "session", "source", "memory", "observation"}
	kinds      = []string{"observation", "memory", "recall", "tools", "session", "decision", "action", "outcome"}
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

	when, forEach, subjectID, message cel.Program
	lists                             map[string][]string
	wants                             wants
}

// Set is a compiled rule set. It is safe for concurrent use.
type Set struct {
	digest string
	rules  []*Rule
	groups map[string]*Evaluator
}

// Digest names the rule set.
func (s *Set) Digest() string { return s.digest }

// Rules lists all rules by id.
func (s *Set) Rules() []*Rule { return s.rules }

// Groups lists the sentinel groups in order.
func (s *Set) Groups() []string {
	var out []string
	for g := range s.groups {
		out = append(out, g)
	}
	sort.Strings(out)
	return out
}

// Group is the evaluator of a sentinel group, or nil if the set knows none of
// that name.
func (s *Set) Group(name string) *Evaluator { return s.groups[name] }

// Compile checks a rule set as a whole. Its error is Problems: everything that
// is wrong, each with its place.
func Compile(src *Source) (*Set, error) {
	var bad Problems
	env, err := environment()
	if err != nil {
		return nil, err
	}
	set := &Set{digest: src.digest, groups: make(map[string]*Evaluator)}
	var groups groupsDoc
	doc := decode(src, "groups.yaml", &groups, &bad)
	byPack := make(map[string][]*Rule)
	seen := make(map[string]string)
	var packs []string
	for name := range src.files {
		if path.Base(name) == "pack.yaml" && strings.Count(name, "/") == 1 {
			packs = append(packs, path.Dir(name))
		}
	}
	sort.Strings(packs)
	for _, pack := range packs {
		var p packDoc
		pd := decode(src, pack+"/pack.yaml", &p, &bad)
		if pd != nil && p.Name != pack {
			bad.note(pack+"/pack.yaml", pd.Errorf([]any{"name"}, "the pack is named %q, its folder %q", p.Name, pack))
		}
		for _, name := range src.names(pack, ".yaml") {
			if path.Base(name) == "pack.yaml" || strings.HasSuffix(name, ".test.yaml") {
				continue
			}
			var rd rulesDoc
			d := decode(src, name, &rd, &bad)
			for i := range rd.Rules {
				r := compileRule(env, d, name, i, &rd.Rules[i], &bad)
				if r == nil {
					continue
				}
				if first, ok := seen[r.ID]; ok {
					bad.note(name, d.Errorf([]any{"rules", i, "id"}, "rule %q is defined in %s already", r.ID, first))
				}
				seen[r.ID] = name
				r.Pack, r.lists = pack, p.Lists
				byPack[pack] = append(byPack[pack], r)
				set.rules = append(set.rules, r)
			}
		}
	}
	sort.Slice(set.rules, func(i, j int) bool { return set.rules[i].ID < set.rules[j].ID })
	var names []string
	for g := range groups.Groups {
		names = append(names, g)
	}
	sort.Strings(names)
	for _, g := range names {
		if !streams.ValidID(g) {
			bad.note("groups.yaml", doc.Errorf([]any{"groups", g}, "%v", streams.CheckID("group", g)))
			continue
		}
		ev := newEvaluator(g)
		for i, pack := range groups.Groups[g] {
			if !slices.Contains(packs, pack) {
				bad.note("groups.yaml", doc.Errorf([]any{"groups", g, i}, "there is no pack %q", pack))
				continue
			}
			for _, r := range byPack[pack] {
				ev.add(r)
			}
		}
		ev.sort()
		set.groups[g] = ev
	}
	if len(bad) > 0 {
		return nil, bad
	}
	return set, nil
}

func decode(src *Source, name string, v any, bad *Problems) *strictyaml.Document {
	text, ok := src.files[name]
	if !ok {
		bad.note(name, fmt.Errorf("the file is missing"))
		return nil
	}
	d, err := strictyaml.Parse(name, []byte(text))
	if err == nil {
		err = d.Decode(v)
	}
	if err != nil {
		bad.note(name, err)
		return nil
	}
	return d
}

// compileRule checks one rule. It returns nil if anything is wrong with it.
func compileRule(env *cel.Env, d *strictyaml.Document, name string, i int, rd *ruleDoc, bad *Problems) *Rule {
	n := len(*bad)
	at := func(field string, format string, args ...any) {
		bad.note(name, d.Errorf([]any{"rules", i, field}, format, args...))
	}
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
	r := &Rule{ID: rd.ID, Title: rd.Title, Tags: rd.Tags, On: rd.On, File: name,
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
	if len(rd.On) == 0 {
		at("on", "rule %q needs on: the kinds of events that it looks at", rd.ID)
	}
	for j, k := range rd.On {
		if !slices.Contains(kinds, k) {
			bad.note(name, d.Errorf([]any{"rules", i, "on", j}, "event kind %q is unknown: use one of %s%s", k, strings.Join(kinds, ", "), suggest(k, kinds)))
		}
	}
	compile := func(field, src string, want *cel.Type, required bool) cel.Program {
		if src == "" {
			if required {
				at(field, "rule %q needs %s", rd.ID, field)
			}
			return nil
		}
		p, w, err := program(env, src, want)
		if err != nil {
			at(field, "%s of rule %q: %w", field, rd.ID, err)
			return nil
		}
		r.wants |= w
		return p
	}
	r.when = compile("when", rd.When, cel.BoolType, true)
	r.forEach = compile("for_each", rd.ForEach, cel.ListType(cel.DynType), false)
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

// suggest names the known word that a wrong one is nearest to.
func suggest(s string, known []string) string {
	best, at := "", 3
	for _, k := range known {
		if d := distance(s, k); d < at {
			best, at = k, d
		}
	}
	if best == "" || s == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// distance is the Levenshtein distance of two short words.
func distance(a, b string) int {
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		cur := make([]int, len(b)+1)
		cur[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			cur[j+1] = min(prev[j+1]+1, cur[j]+1, prev[j]+cost)
		}
		prev = cur
	}
	return prev[len(b)]
}
