package policy

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/internal/strictyaml"
	"lazaret/streams"
)

// document is the YAML form of a policy.
type document struct {
	Version      int                    `yaml:"version"`
	Name         string                 `yaml:"name"`
	Mode         string                 `yaml:"mode"`
	Groups       *[]groupText           `yaml:"groups"`
	Deadline     map[string]string      `yaml:"deadline"`
	OnSilent     string                 `yaml:"on_silent"`
	HoldExpiry   string                 `yaml:"hold_expiry"`
	Reaudit      string                 `yaml:"reaudit"`
	MaxOpenHolds *int                   `yaml:"max_open_holds"`
	Approval     *approvalText          `yaml:"approval"`
	Standing     []standingText         `yaml:"standing"`
	MaxHoldRate  *int                   `yaml:"max_holds_per_minute"`
	Protected    []protectedText        `yaml:"protected"`
	Egress       *egressText            `yaml:"egress"`
	Tools        []entryText            `yaml:"tools"`
	Otherwise    *outcomeText           `yaml:"otherwise"`
	Context      map[string]contextText `yaml:"context"`
	Memory       *memoryText            `yaml:"memory"`
	Incidents    *incidentsText         `yaml:"incidents"`
	Decisions    *decisionsText         `yaml:"decisions"`
	Delegation   []delegationText       `yaml:"delegation"`
	Profiles     []profileText          `yaml:"profiles"`
	Sources      *sourcesText           `yaml:"sources"`
}

// groupText is the YAML form of a group: its name, or a mapping.
type groupText struct {
	Name     string
	Digest   *string
	Deadline string
	For      string
}

// UnmarshalYAML implements yaml.InterfaceUnmarshaler.
func (t *groupText) UnmarshalYAML(unmarshal func(any) error) error {
	if unmarshal(&t.Name) == nil {
		return nil
	}
	var m struct {
		Name     string  `yaml:"name"`
		Digest   *string `yaml:"digest"`
		Deadline string  `yaml:"deadline"`
		For      string  `yaml:"for"`
	}
	if err := unmarshal(&m); err != nil {
		return err
	}
	*t = groupText(m)
	return nil
}

// entryText is the YAML form of an entry: which calls it matches, and their class.
type entryText struct {
	Name      string   `yaml:"name"`
	Tools     []string `yaml:"tools"`
	Verbs     []string `yaml:"verbs"`
	Ambiguous []string `yaml:"ambiguous"`
	Objects   []string `yaml:"objects"`
	When      string   `yaml:"when"`
	Of        string   `yaml:"of"`
	Fixed     bool     `yaml:"fixed"`

	Groups []string `yaml:"groups"`

	Outcome outcomeText `yaml:",inline"`
}

type outcomeText struct {
	Level         string   `yaml:"level"`
	Require       string   `yaml:"require"`
	Effects       []string `yaml:"effects"`
	Blast         string   `yaml:"blast_radius"`
	Reversibility string   `yaml:"reversibility"`

	Approval *approvalText `yaml:"approval"`
}

// Compile parses a policy. name is the document's name in errors. Every error is an *Error that
// reports the first fault in the text.
func Compile(name string, src []byte) (*Policy, error) {
	y, err := strictyaml.Parse(name, src)
	if err != nil {
		return nil, err
	}
	var doc document
	if err := y.Decode(&doc); err != nil {
		return nil, err
	}
	p := &Policy{Name: doc.Name, Mode: Mode(cmp.Or(doc.Mode, string(Enforce))), Digest: streams.Digest(src),
		HoldExpiry: DefaultHoldExpiry, MaxOpenHolds: DefaultMaxOpenHolds, index: newIndex()}
	if err := p.settings(y, &doc); err != nil {
		return nil, err
	}
	if err := p.compileEntries(y, doc.Tools); err != nil {
		return nil, err
	}
	if err := p.compileContexts(y, doc.Context); err != nil {
		return nil, err
	}
	if err := p.compileMemory(y, doc.Memory); err != nil {
		return nil, err
	}
	if p.standing, err = compileStanding(y, doc.Standing); err != nil {
		return nil, err
	}
	if p.delegated, err = compileDelegation(y, doc.Delegation); err != nil {
		return nil, err
	}
	if p.sources, err = compileSources(y, doc.Sources); err != nil {
		return nil, err
	}
	if p.profiles, err = compileProfiles(y, doc.Profiles); err != nil {
		return nil, err
	}
	if err := p.compileProtected(y, doc.Protected); err != nil {
		return nil, err
	}
	if err := p.compileEgress(y, doc.Egress); err != nil {
		return nil, err
	}
	if doc.Otherwise != nil {
		e, err := compileOutcome(y, []any{Otherwise}, Otherwise, doc.Otherwise)
		if err != nil {
			return nil, err
		}
		if e.level < beliefs.L4 {
			return nil, y.Errorf([]any{Otherwise, "level"},
				"the level of `otherwise` is %s, want at least L4: a tool without an entry must not be allowed", e.level)
		}
		e.reason.Text = fmt.Sprintf("%s: no entry of the policy is for this tool, so the policy's `otherwise` applies",
			e.level)
		p.otherwise = &e
	}
	return p, nil
}

// settings checks and compiles everything but the entries.
func (p *Policy) settings(y *strictyaml.Document, doc *document) error {
	at := func(key string, format string, args ...any) error { return y.Errorf([]any{key}, format, args...) }
	if doc.Version != version {
		return at("version", "version is %d, want %d", doc.Version, version)
	}
	if err := streams.CheckID("name", doc.Name); err != nil {
		return at("name", "%w", err)
	}
	if p.Mode != Enforce && p.Mode != Learn {
		return at("mode", "mode %q is unknown: use enforce or learn", doc.Mode)
	}
	if doc.Groups == nil {
		return at("groups", "`groups` is missing: list the sentinel groups that must assess every proposal")
	}
	if len(*doc.Groups) > MaxGroups {
		return at("groups", "%d groups are too many, at most %d are possible", len(*doc.Groups), MaxGroups)
	}
	for i, t := range *doc.Groups {
		g, err := compileGroup(y, []any{"groups", i}, t)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(p.Groups, func(x Group) bool { return x.Name == g.Name }) {
			return y.Errorf([]any{"groups", i}, "group %q is listed twice", g.Name)
		}
		p.Groups = append(p.Groups, g)
	}
	switch cmp.Or(doc.OnSilent, "hold") {
	case "hold":
		p.OnSilent = streams.Hold
	case "deny":
		p.OnSilent = streams.Deny
	default:
		return at("on_silent", "on_silent is %q: use hold or deny; a silent group never means allow", doc.OnSilent)
	}
	if doc.HoldExpiry != "" {
		d, err := duration(doc.HoldExpiry, MinHoldExpiry, MaxHoldExpiry)
		if err != nil {
			return at("hold_expiry", "%w", err)
		}
		p.HoldExpiry = d
	}
	if doc.Reaudit != "" {
		d, err := duration(doc.Reaudit, MinReaudit, MaxReaudit)
		if err != nil {
			return at("reaudit", "%w", err)
		}
		p.Reaudit = d
	}
	if n := doc.MaxOpenHolds; n != nil {
		if *n < 1 || *n > MaxMaxOpenHolds {
			return at("max_open_holds", "max_open_holds is %d, want 1 to %d", *n, MaxMaxOpenHolds)
		}
		p.MaxOpenHolds = *n
	}
	inc, err := compileIncidents(doc.Incidents)
	if err != nil {
		return at("incidents", "%w", err)
	}
	p.incidents = inc
	if p.uncited, err = compileDecisions(doc.Decisions); err != nil {
		return at("decisions", "%w", err)
	}
	role, err := compileApproval(y, nil, doc.Approval)
	if err != nil {
		return err
	}
	p.approver = role
	if n := doc.MaxHoldRate; n != nil {
		if *n < 1 || *n > MaxMaxHoldRate {
			return at("max_holds_per_minute", "max_holds_per_minute is %d, want 1 to %d; without it there is no limit", *n,
				MaxMaxHoldRate)
		}
		p.MaxHoldsPerMinute = *n
	}
	return p.setDeadlines(y, doc.Deadline)
}

func compileGroup(y *strictyaml.Document, path []any, t groupText) (g Group, err error) {
	g.Name = t.Name
	if err := streams.CheckID("group", g.Name); err != nil {
		return g, y.Errorf(path, "%w", err)
	}
	if t.Digest != nil {
		// A version is required: an operator who replaces the program of this group must sign a
		// policy with another version. So the signature for one program does not cover the next.
		version, ok := strings.CutPrefix(*t.Digest, External)
		if !ok || !streams.ValidID(version) {
			return g, y.Errorf(append(slices.Clip(path), "digest"), "digest of group %s is %q: write %s and a version of 1 to "+
				"%d of A-Z a-z 0-9 _ -, or leave it out for a group of the rule set",
				g.Name, *t.Digest, External, streams.MaxIDLen)
		}
		g.Digest = *t.Digest
	}
	if t.Deadline != "" {
		if g.Deadline, err = duration(t.Deadline, MinDeadline, MaxDeadline); err != nil {
			return g, y.Errorf(append(slices.Clip(path), "deadline"), "deadline of group %s: %w", g.Name, err)
		}
	}
	switch t.For {
	case "", "all":
	case "entries":
		g.OnDemand = true
	default:
		return g, y.Errorf(append(slices.Clip(path), "for"),
			"`for` of group %s is %q: use `all`, or `entries` for only the proposals whose policy entry names the group",
			g.Name, t.For)
	}
	return g, nil
}

func (p *Policy) setDeadlines(y *strictyaml.Document, texts map[string]string) error {
	given := make(map[beliefs.Level]time.Duration)
	fallback := DefaultDeadline
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		path := []any{"deadline", key}
		d, err := duration(texts[key], MinDeadline, MaxDeadline)
		if err != nil {
			return y.Errorf(path, "%w", err)
		}
		if key == "default" {
			fallback = d
			continue
		}
		var l beliefs.Level
		if err := l.UnmarshalText([]byte(key)); err != nil {
			return y.Errorf(path, "deadline for %q: use default or a level L0 to L5", key)
		}
		given[l] = d
	}
	for l := range p.deadlines {
		if d, ok := given[beliefs.Level(l)]; ok {
			p.deadlines[l] = d
		} else {
			p.deadlines[l] = fallback
		}
	}
	return nil
}

func duration(s string, least, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write 500ms, 2s or 24h", s)
	}
	if d < least || d > most {
		return 0, fmt.Errorf("%s is out of range, want %s to %s", s, least, most)
	}
	return d, nil
}

// compileEntries sets entries and index. The order of the entries does not depend on the
// document's.
func (p *Policy) compileEntries(y *strictyaml.Document, texts []entryText) error {
	if len(texts) > MaxEntries {
		return y.Errorf([]any{"tools"}, "%d entries are too many, at most %d are possible", len(texts), MaxEntries)
	}
	names := make(map[string]bool)
	order := make([]int, len(texts)) // indexes in texts
	compiled := make([]entry, len(texts))
	for i := range texts {
		t, path := &texts[i], []any{"tools", i}
		at := func(key string, format string, args ...any) error {
			return y.Errorf(append(slices.Clip(path), key), format, args...)
		}
		if err := streams.CheckID("entry name", t.Name); err != nil {
			return at("name", "%w", err)
		}
		if t.Name == Otherwise {
			return at("name", "an entry cannot be named %s: `otherwise` is a key of its own, next to `tools`", Otherwise)
		}
		if names[t.Name] {
			return at("name", "entry %q is listed twice", t.Name)
		}
		names[t.Name] = true
		e, err := compileOutcome(y, path, t.Name, &t.Outcome)
		if err != nil {
			return err
		}
		hasVerbs := len(t.Verbs)+len(t.Ambiguous) > 0
		if len(t.Objects) > 0 && !hasVerbs {
			return at("objects", "`objects` need `verbs`: add the verbs that the entry is for")
		}
		if len(t.Tools) == 0 && !hasVerbs {
			if t.When == "" {
				return at("name", "entry %q matches no tool: add `tools`, `verbs` or `when`", t.Name)
			}
			e.anyTool = true
		}
		e.needsObject = len(t.Objects) > 0
		if e.fixed = t.Fixed; e.fixed && (len(t.Tools) == 0 || hasVerbs || strings.Contains(strings.Join(t.Tools, ""), "*")) {
			return at("fixed", "entry %q has `fixed: true`: list its tools under `tools` by their names, without `*`, `verbs` "+
				"or `ambiguous`", t.Name)
		}
		if e.of = t.Of; e.of != "" {
			if len(t.Tools) == 0 || hasVerbs {
				return at("of", "entry %q has `of: %s`: list the tools of this catalogue under `tools`, without `verbs` or "+
					"`ambiguous`", t.Name, t.Of)
			}
			if err := streams.CheckID("of", e.of); err != nil {
				return at("of", "%w", err)
			}
		}
		if err := p.entryDemands(y, path, &e, t); err != nil {
			return err
		}
		if t.When != "" {
			if e.when, err = compileCondition(t.When); err != nil {
				return at("when", "condition of %s: %w", t.Name, err)
			}
		}
		e.text = t
		order[i], compiled[i] = i, e
	}
	slices.SortFunc(order, func(a, b int) int {
		x, z := &compiled[a], &compiled[b]
		return cmp.Or(cmp.Compare(z.floor, x.floor), cmp.Compare(z.level, x.level), cmp.Compare(x.name, z.name))
	})
	for place, i := range order {
		p.entries = append(p.entries, compiled[i])
		if err := p.index.add(y, []any{"tools", i}, &texts[i], place); err != nil {
			return err
		}
	}
	return nil
}

// entryDemands compiles the groups that an entry requires.
func (p *Policy) entryDemands(y *strictyaml.Document, path []any, e *entry, t *entryText) error {
	for i, name := range t.Groups {
		at := slices.IndexFunc(p.Groups, func(g Group) bool { return g.Name == name })
		if at < 0 {
			return y.Errorf(append(slices.Clip(path), "groups", i),
				"entry %s requires group %q, which is not in the policy's `groups`", t.Name, name)
		}
		e.groups |= 1 << at
	}
	return nil
}

func compileOutcome(y *strictyaml.Document, path []any, name string, t *outcomeText) (e entry, err error) {
	at := func(key string, format string, args ...any) error {
		return y.Errorf(append(slices.Clip(path), key), format, args...)
	}
	e.name = name
	if e.approver, err = compileApproval(y, path, t.Approval); err != nil {
		return e, err
	}
	if t.Level == "" {
		return e, at("level", "entry %q has no level: add L0 to L5", name)
	}
	if err := e.level.UnmarshalText([]byte(t.Level)); err != nil {
		return e, at("level", "level of %s: %w", name, err)
	}
	e.floor = Floor(e.level)
	why := fmt.Sprintf("%s, %s, by policy entry %s", e.level, meaning(e.level), name)
	if t.Require != "" {
		v, err := streams.ParseVerdict(t.Require)
		if err != nil {
			return e, at("require", "`require` of %s: %w", name, err)
		}
		if v < e.floor {
			return e, at("require",
				"`require` of %s is %s, which is milder than %s, the verdict of its level %s: `require` can only make the verdict "+
					"stricter", name, v, e.floor, e.level)
		}
		if v > e.floor {
			why = fmt.Sprintf("policy entry %s (%s) requires %s", name, e.level, v)
		}
		e.floor, e.insists = v, true
	}
	if e.floor > streams.Allow {
		e.reason = streams.Reason{Code: streams.CodeFloor, Verdict: e.floor, Text: why}
	}
	for i, s := range t.Effects {
		bit, err := parseEffect(s)
		if err != nil {
			return e, y.Errorf(append(slices.Clip(path), "effects", i), "effects of %s: %w", name, err)
		}
		e.effects |= bit
	}
	if t.Blast != "" {
		if err := e.blast.UnmarshalText([]byte(t.Blast)); err != nil {
			return e, at("blast_radius", "blast_radius of %s: %w", name, err)
		}
	}
	if t.Reversibility != "" {
		if err := e.reversibility.UnmarshalText([]byte(t.Reversibility)); err != nil {
			return e, at("reversibility", "reversibility of %s: %w", name, err)
		}
	}
	return e, nil
}

// add indexes an entry's words and patterns. place is the entry's index in Policy.entries.
func (x *index) add(y *strictyaml.Document, path []any, t *entryText, place int) error {
	for _, list := range []struct {
		key   string
		words []string
		into  map[string][]int
	}{{"verbs", t.Verbs, x.verbs}, {"ambiguous", t.Ambiguous, x.ambiguous}, {"objects", t.Objects, x.objects}} {
		for i, w := range list.words {
			if err := checkWord(w); err != nil {
				return y.Errorf(append(slices.Clip(path), list.key, i), "%s of %s: %w", list.key, t.Name, err)
			}
			if !slices.Contains(list.into[w], place) {
				list.into[w] = append(list.into[w], place)
			}
		}
	}
	for i, text := range t.Tools {
		if err := x.addPattern(text, place); err != nil {
			return y.Errorf(append(slices.Clip(path), "tools", i), "tools of %s: %w", t.Name, err)
		}
	}
	return nil
}

// checkWord returns an error if w cannot be one word of a name.
func checkWord(w string) error {
	n := parseName(w, nil, nil)
	if len(n.words) != 1 || string(n.norm) != w || !n.plain || strings.ContainsAny(w, "*?") {
		return fmt.Errorf("%q is not a single word: names are compared word by word, in lower case, "+
			"and digits are words of their own", w)
	}
	return nil
}

func (x *index) addPattern(text string, place int) error {
	if len(text) > MaxTool {
		return fmt.Errorf("the pattern has %d bytes, at most %d are possible", len(text), MaxTool)
	}
	for _, r := range text {
		if r < 0x80 && classOf(byte(r)) == separator && !strings.ContainsRune("._-/: ", r) {
			return fmt.Errorf("pattern %q: %q is not allowed, the wildcards are * and ?", text, r)
		}
	}
	n := parseName(text, nil, nil)
	if len(n.words) == 0 {
		return fmt.Errorf("pattern %q has no letters or digits", text)
	}
	p := pattern{string(n.norm), place}
	first := string(n.text(n.words[0]))
	switch {
	case !strings.ContainsAny(p.text, "*?"):
		if !slices.Contains(x.exact[p.text], place) {
			x.exact[p.text] = append(x.exact[p.text], place)
		}
	case len(n.words) > 1 && !strings.ContainsAny(first, "*?"):
		x.byWord[first] = append(x.byWord[first], p)
	default:
		x.patterns = append(x.patterns, p)
	}
	return nil
}
