package suggest

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Limits of the stored data per tool.
const (
	maxHosts = 64
	maxTools = 2000 // a policy may have 4096 entries
	maxCalls = 1_000_000
)

// Seen collects actions and their verdicts. Entries must be added in ledger order.
type Seen struct {
	Agent string // if set, only actions of this agent

	tools map[string]*tool
	open  map[uint64]*tool    // proposals without a verdict yet
	calls map[[3]string]*tool // by project, agent and id
	hosts map[string]int

	actions, learned int
	first, last      time.Time
	policies         map[string]bool
	dropped          int // number of tools beyond the limit
}

type tool struct {
	name          string
	count         int
	agents        map[string]bool
	would         [3]int
	level         beliefs.Level
	effects       map[string]bool
	blast         beliefs.BlastRadius
	reversibility beliefs.Reversibility
	matched       map[string]bool
	rules, codes  map[string]int

	reaches  map[string]int // addresses, hosts and accounts in arguments → count
	unnamed  int            // calls with a destination that the user had not named
	asked    int            // calls that the user asked for
	outcomes map[string]int // by status
	hinted   bool           // annotations of its server raise its level
	accepted *beliefs.Level // level at which a person accepted the tool; nil: none did
}

// New returns an empty collection.
func New() *Seen {
	return &Seen{tools: make(map[string]*tool), open: make(map[uint64]*tool), calls: make(map[[3]string]*tool),
		hosts: make(map[string]int), policies: make(map[string]bool)}
}

// Actions returns the number of verdicts on actions, and how many of them were made in learn mode.
func (s *Seen) Actions() (all, learned int) { return s.actions, s.learned }

// Add adds a ledger entry. It ignores all but actions and their verdicts.
func (s *Seen) Add(e *streams.Entry) error {
	switch {
	case e.Stage == streams.StageIngest && e.Type == streams.TypeAction:
		a := new(streams.ActionEntry)
		if err := streams.Unmarshal(e.Body, a); err != nil {
			return fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
		}
		if s.Agent != "" && a.Agent != s.Agent {
			return nil
		}
		if t := s.tool(a.Tool); t != nil {
			t.action(a)
			s.open[e.Seq] = t
			if len(s.calls) < maxCalls {
				s.calls[[3]string{e.Project, a.Agent, a.ID}] = t
			}
			if slices.Contains(a.Effects, "egress") {
				s.reaches(a)
			}
		}
	case e.Stage == streams.StageIngest && e.Type == streams.TypeOutcome:
		o := new(streams.OutcomeEntry)
		if err := streams.Unmarshal(e.Body, o); err != nil {
			return fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
		}
		if t := s.calls[[3]string{e.Project, o.Agent, o.Action}]; t != nil && len(t.outcomes) < 8 {
			t.outcomes[o.Status]++
		}
	case e.Stage == streams.StageArbiter && e.Type == streams.TypeVerdict:
		v := new(streams.VerdictEntry)
		if err := streams.Unmarshal(e.Body, v); err != nil {
			return fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
		}
		t := s.open[v.Proposal]
		if v.Type != streams.TypeAction || v.Again || v.Late || v.Resolved != nil || t == nil {
			return nil
		}
		delete(s.open, v.Proposal)
		s.verdict(t, v)
	}
	return nil
}

func (s *Seen) tool(name string) *tool {
	if t := s.tools[name]; t != nil {
		return t
	}
	if name == streams.ApproveTools || name == streams.RegisterPrompt {
		return nil // a tool of the pipeline itself, which only a person may approve
	}
	if len(s.tools) == maxTools {
		s.dropped++
		return nil
	}
	t := &tool{name: name, agents: map[string]bool{}, effects: map[string]bool{}, matched: map[string]bool{},
		rules: map[string]int{}, codes: map[string]int{}, reaches: map[string]int{}, outcomes: map[string]int{}}
	s.tools[name] = t
	return t
}

func (t *tool) action(a *streams.ActionEntry) {
	t.count++
	t.agents[a.Agent] = true
	t.level = max(t.level, a.Level)
	t.blast, t.reversibility = max(t.blast, a.Blast), max(t.reversibility, a.Reversibility)
	t.matched[cmp.Or(a.Matched, "no entry")] = true
	for _, e := range a.Effects {
		t.effects[e] = true
	}
	t.hinted = t.hinted || len(a.Annotations) > 0
	if a.Accepted != nil {
		t.accepted = a.Accepted
	}
	var named []string
	if a.Intent != nil {
		named = a.Intent.Carriers
		if a.Intent.Asked {
			t.asked++
		}
	}
	unnamed := false
	for _, c := range a.Features.Carriers {
		if !c.Kind.Traits().ReachesOut {
			continue
		}
		v := string(c.Kind) + ":" + c.Value
		unnamed = unnamed || !slices.Contains(named, v)
		if len(t.reaches) < maxHosts || t.reaches[v] > 0 {
			t.reaches[v]++
		}
	}
	if unnamed {
		t.unnamed++
	}
}

// minSeen is the minimum number of calls of a tool from which a level is derived.
const minSeen = 3

// grave are effects whose level no number of harmless calls can lower.
var grave = []string{policy.EffectPay, policy.EffectSecret, policy.EffectExec, policy.EffectDelete,
	policy.EffectPublish, policy.EffectEgress}

// propose returns the level that the observed calls of a tool suggest, and the reason. The level is below the
// tool's current level only if the policy chose that one because it did not know the tool's name.
func (t *tool) propose() (l beliefs.Level, because string) {
	failed := t.outcomes["error"] > 0 && t.outcomes["ok"] == 0
	switch {
	case t.accepted != nil:
		return max(*t.accepted, beliefs.L0), "a person accepted the tool at this level"
	case t.level != beliefs.L4:
		return t.level, "the level that the policy gave its calls"
	case len(t.rules) > 0:
		return t.level, "rules objected to its calls"
	case !t.matched[policy.Otherwise] || len(t.matched) > 1:
		return t.level, "the policy knows tools of its name; calls that the user asks for are allowed by delegation"
	case t.hinted:
		return t.level, "its server says that it changes data or reaches other systems"
	case slices.ContainsFunc(grave, func(e string) bool { return t.effects[e] }):
		return t.level, "its effects are too grave for a lower level"
	case len(t.reaches) > 0:
		return t.level, fmt.Sprintf("its arguments name %d addresses and hosts", len(t.reaches))
	case t.count < minSeen:
		return t.level, fmt.Sprintf("it was called only %d times", t.count)
	case failed:
		return t.level, "it never succeeded"
	}
	return beliefs.L3, "only its name was unknown: no call named an address or host, and no rule objected to a call"
}

// Tool returns how often a tool was called, and the level that the calls suggest with its reason.
func (s *Seen) Tool(name string) (count int, l beliefs.Level, because string) {
	t := s.tools[name]
	if t == nil {
		return 0, 0, ""
	}
	l, because = t.propose()
	return t.count, l, because
}

func (s *Seen) reaches(a *streams.ActionEntry) {
	for _, c := range a.Features.Carriers {
		if c.Kind == text.Host && (len(s.hosts) < maxHosts || s.hosts[c.Value] > 0) {
			s.hosts[c.Value]++
		}
	}
}

func (s *Seen) verdict(t *tool, v *streams.VerdictEntry) {
	s.actions++
	s.policies[v.Policy] = true
	if s.first.IsZero() {
		s.first = v.Time
	}
	s.last = v.Time
	would := v.Verdict
	if v.Learn {
		s.learned++
		if v.Would != nil {
			would = *v.Would
		}
	}
	if would > streams.Deny {
		return
	}
	t.would[would]++
	var l beliefs.Level
	if l.UnmarshalText([]byte(v.Level)) == nil {
		t.level = max(t.level, l)
	}
	for _, r := range v.Reasons {
		if r.Verdict == streams.Allow {
			continue
		}
		t.codes[string(r.Code)]++
		if r.Rule != "" {
			t.rules[r.Rule]++
		}
	}
}

// Write writes the policy. The output always compiles.
func (s *Seen) Write(w io.Writer, name string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Suggested from %d actions of %d tools, %d of them in learn mode,\n# %s to %s.\n", s.actions,
		len(s.tools), s.learned, s.first.UTC().Format(time.RFC3339), s.last.UTC().Format(time.RFC3339))
	b.WriteString("# This policy is not active. Read each entry: what an agent did is not what it should\n# do, and an " +
		"agent that was attacked in this time did what the attacker wanted. Then:\n")
	b.WriteString("#   lazaret policy check FILE && lazaret policy activate FILE\n")
	if s.dropped > 0 {
		fmt.Fprintf(&b, "# %d calls of tools beyond the first %d tools are left out.\n", s.dropped, maxTools)
	}
	fmt.Fprintf(&b, "version: 1\nname: %s\nmode: enforce\ngroups: [core]\ndeadline: {default: 2s, L4: "+
		"5s}\non_silent: hold\n", name)
	if len(s.hosts) > 0 {
		b.WriteString("\n# Destinations of the actions. As an allow-list, it holds actions to any other destination.\n# " +
			"egress:\n#   allow:\n")
		for _, h := range slices.SortedFunc(maps.Keys(s.hosts), func(x, y string) int {
			return cmp.Or(s.hosts[y]-s.hosts[x], strings.Compare(x, y))
		}) {
			fmt.Fprintf(&b, "#     - %s # %d\n", strconv.QuoteToASCII(h), s.hosts[h])
		}
	}
	b.WriteString("\n# As in the shipped policy: actions that are allowed although their level would hold them.\n" +
		policy.ShippedDelegation() + "\n" + policy.ShippedSources())
	b.WriteString("\ntools:\n")
	names := make(map[string]bool)
	for _, t := range slices.SortedFunc(maps.Values(s.tools), func(x, y *tool) int {
		return cmp.Or(int(y.level)-int(x.level), y.count-x.count, strings.Compare(x.name, y.name))
	}) {
		t.write(&b, names)
	}
	b.WriteString("\n# Lists of tools of MCP servers, and tools not listed here, wait for a person.\notherwise:\n  " +
		"level: L4\n  effects: [write, egress]\n  blast_radius: external\n  reversibility: irreversible\n")
	if len(s.tools) == 0 {
		b.Reset()
		return fmt.Errorf("the ledger holds no actions to suggest a policy from: run agents in learn mode first " +
			"(mode: learn)")
	}
	if _, err := policy.Compile(name+".yaml", []byte(b.String())); err != nil {
		return fmt.Errorf("the suggested policy is not valid: %w", err)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *tool) write(b *strings.Builder, names map[string]bool) {
	fmt.Fprintf(b, "  # %d times by %d agents; would be: %d allow, %d hold, %d deny. Classified by: %s.\n", t.count,
		len(t.agents),
		t.would[streams.Allow], t.would[streams.Hold], t.would[streams.Deny],
		comment(strings.Join(slices.Sorted(maps.Keys(t.matched)), ", ")))
	if len(t.rules) > 0 {
		fmt.Fprintf(b, "  # Rules that objected to its calls, look at these first: %s.\n", comment(counts(t.rules)))
	}
	level, because := t.propose()
	fmt.Fprintf(b, "  # Asked for by the user %d times; reached %d addresses and hosts; outcomes: %s.\n", t.asked,
		len(t.reaches),
		comment(cmp.Or(counts(t.outcomes), "none reported")))
	if level != t.level {
		fmt.Fprintf(b, "  # %s in place of %s: %s.\n", level, t.level, comment(because))
	} else {
		fmt.Fprintf(b, "  # %s: %s.\n", level, comment(because))
	}
	fmt.Fprintf(b, "  - name: %s\n    tools: [%s]\n    level: %s\n", identifier(t.name, names),
		strconv.QuoteToASCII(pattern(t.name)), level)
	if when := t.condition(); when != "" && level < beliefs.L4 {
		fmt.Fprintf(b, "    when: %s # other calls wait for a person\n", strconv.QuoteToASCII(when))
	}
	if t.would[streams.Deny] > 0 && level < beliefs.L5 && t.would[streams.Deny] == t.count &&
		t.codes[string(streams.CodeUnmatched)] == 0 {
		b.WriteString("    require: deny # every call was denied\n")
	}
	if e := slices.Sorted(maps.Keys(t.effects)); len(e) > 0 {
		fmt.Fprintf(b, "    effects: [%s]\n", strings.Join(e, ", "))
	}
	if t.blast != 0 {
		fmt.Fprintf(b, "    blast_radius: %s\n", t.blast)
	}
	if t.reversibility != 0 {
		fmt.Fprintf(b, "    reversibility: %s\n", t.reversibility)
	}
}

// shippedConditions returns the conditions of the shipped policy's entries by name.
var shippedConditions = sync.OnceValue(func() map[string]string {
	m := make(map[string]string)
	if p, err := policy.Compile(policy.DefaultName, policy.Default); err == nil {
		for _, e := range p.Entries() {
			m[e.Name] = e.When
		}
	}
	return m
})

// condition returns the condition on arguments under which the shipped policy gave the tool its level, or "".
// The suggested entry keeps the condition, because the observed calls all fulfilled it.
func (t *tool) condition() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(t.matched)) {
		if when := shippedConditions()[name]; when != "" {
			all = append(all, "("+when+")")
		}
	}
	return strings.Join(all, " || ")
}

func counts(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s (%d)", k, m[k]))
	}
	return strings.Join(out, ", ")
}

// comment makes untrusted text safe inside a comment of the policy.
func comment(s string) string { return text.InertLine(s, 300) }

// pattern returns a pattern that matches a tool's name. It replaces each character that is not a plain letter,
// digit or common sign by ?, so it may also match similar names.
func pattern(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("_-./: ", r) {
			return r
		}
		return '?'
	}, name)
}

// identifier returns a unique id for an entry, derived from the tool's name.
func identifier(name string, taken map[string]bool) string {
	id := strings.Trim(strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' {
			return r
		}
		return '-'
	}, name), "-")
	id = cmp.Or(id[:min(len(id), 56)], "tool")
	if id == policy.Otherwise {
		id = "tool-" + id
	}
	for base, n := id, 2; taken[id]; n++ {
		id = fmt.Sprintf("%s-%d", base, n)
	}
	taken[id] = true
	return id
}
