package policy

import (
	"fmt"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Entry describes an entry of a policy for people.
type Entry struct {
	Name          string                `json:"name"`
	Level         beliefs.Level         `json:"level"`
	Verdict       streams.Verdict       `json:"verdict"` // the entry's floor
	Effects       []string              `json:"effects,omitzero"`
	Blast         beliefs.BlastRadius   `json:"blast_radius,omitzero"`
	Reversibility beliefs.Reversibility `json:"reversibility,omitzero"`
	Groups        []string              `json:"groups,omitzero"`
	Tools         []string              `json:"tools,omitzero"`
	Verbs         []string              `json:"verbs,omitzero"`
	Ambiguous     []string              `json:"ambiguous,omitzero"`
	Objects       []string              `json:"objects,omitzero"`
	When          string                `json:"when,omitzero"`
}

func (e *entry) info() Entry {
	x := Entry{Name: e.name, Level: e.level, Verdict: e.floor, Effects: e.effects.names(), Blast: e.blast,
		Reversibility: e.reversibility}
	if t := e.text; t != nil {
		x.Groups, x.Tools, x.Verbs = t.Groups, t.Tools, t.Verbs
		x.Ambiguous, x.Objects, x.When = t.Ambiguous, t.Objects, t.When
	}
	return x
}

// Entries returns the policy's entries, strictest first, with otherwise at the end if there is one.
func (p *Policy) Entries() []Entry {
	var out []Entry
	for i := range p.entries {
		out = append(out, p.entries[i].info())
	}
	if p.otherwise != nil {
		out = append(out, p.otherwise.info())
	}
	return out
}

// Match is the result of an entry for a call whose tool it names.
type Match struct {
	Entry   string          `json:"entry"`
	Level   beliefs.Level   `json:"level"`
	Verdict streams.Verdict `json:"verdict"`
	Because string          `json:"because"`       // the part of the name that matched
	When    string          `json:"when,omitzero"` // the entry's condition
	Met     bool            `json:"met"`           // the entry applies
	Error   string          `json:"error,omitzero"`
}

// Explanation explains how a policy classified a call.
type Explanation struct {
	Tool    string   `json:"tool"`
	Words   []string `json:"words"`
	Matches []Match  `json:"matches"`
	Class   Class    `json:"-"` // with annotations and arguments applied
}

// Explain classifies a call as the arbiter does, and lists all entries that name the tool,
// including those that do not apply.
func (p *Policy) Explain(tool string, args, annotations []byte, project, agent string) Explanation {
	x := Explanation{Tool: tool, Class: p.Guard(p.Classify(tool, args, project, agent).RaiseByAnnotations(annotations),
		args)}
	if len(tool) > MaxTool {
		return x
	}
	name := parseName(tool, nil, nil)
	for _, w := range name.words {
		x.Words = append(x.Words, string(name.text(w)))
	}
	hits := make([]seen, len(p.entries))
	p.index.mark(&name, hits)
	c := call{tool: tool, project: project, agent: agent, raw: args}
	for i := range p.entries {
		e := &p.entries[i]
		if hits[i]&^seenObject == 0 && !e.anyTool {
			continue
		}
		m := Match{Entry: e.name, Level: e.level, Verdict: e.floor, Because: e.because(hits[i], name.plain),
			Met: e.matches(hits[i], name.plain)}
		if e.when != nil && m.Met {
			m.When = e.text.When
			met, err := c.holds(e.when)
			if m.Met = met || err != nil; err != nil {
				m.Level = max(m.Level, beliefs.L4)
				m.Verdict = m.Verdict.Join(Floor(m.Level))
				m.Error = "counts as met, because it cannot be evaluated: " + err.Error()
			}
		}
		x.Matches = append(x.Matches, m)
	}
	if len(x.Matches) == 0 && p.otherwise != nil {
		x.Matches = append(x.Matches, Match{Entry: Otherwise, Level: p.otherwise.level, Verdict: p.otherwise.floor,
			Because: "no entry of the policy is for this tool", Met: true})
	}
	return x
}

// because returns which part of a name an entry matched, or why the entry does not apply.
func (e *entry) because(s seen, plain bool) string {
	switch {
	case e.anyTool:
		return "it is for every tool"
	case s&seenTool != 0 && e.fixed:
		return "a pattern fits the name; the arguments do not raise the level (fixed), unless another entry with such a " +
			"pattern is not fixed"
	case s&seenTool != 0:
		return "a pattern fits the name"
	case e.needsObject && s&seenObject == 0:
		return "the name has a verb of the entry, but none of its objects"
	case s&seenVerb != 0 && !plain && e.floor == streams.Allow:
		return "the name has a verb of the entry, but also characters beyond ASCII, so the entry does not allow it"
	case s&seenVerb != 0:
		return "the name has a verb of the entry"
	case e.floor == streams.Allow:
		return "the name has an ambiguous word of the entry, but not at its beginning, where the entry would allow it"
	}
	return fmt.Sprintf("the name has an ambiguous word of the entry, which is enough for %s", e.floor)
}
