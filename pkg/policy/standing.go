package policy

import (
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/streams"
)

// MaxStanding is the maximum number of standing permissions in a policy.
const MaxStanding = 256

// standingText is the YAML form of a standing permission. Until a date, it allows those actions of
// named tools for which the level is the only reason to hold. The policy's signature covers it.
type standingText struct {
	Name     string   `yaml:"name"`
	Tools    []string `yaml:"tools"`
	Projects []string `yaml:"projects"`
	Agents   []string `yaml:"agents"`
	When     string   `yaml:"when"`
	Until    string   `yaml:"until"`
	Owner    string   `yaml:"owner"`
	Reason   string   `yaml:"reason"`
}

// Standing is a standing permission that applies to an action.
type Standing struct {
	Name   string
	Owner  string
	Reason string
	Until  time.Time

	projects, agents []string // empty: all
	when             cel.Program
}

// standings are the standing permissions of a policy, in its order.
type standings struct {
	list  []Standing
	index index // only exact names and patterns
}

func compileStanding(y *strictyaml.Document, texts []standingText) (s standings, err error) {
	s.index = newIndex()
	if len(texts) > MaxStanding {
		return s, y.Errorf([]any{"standing"}, "%d standing permissions are too many, at most %d are possible", len(texts),
			MaxStanding)
	}
	for i := range texts {
		t, path := &texts[i], []any{"standing", i}
		at := func(key, format string, args ...any) error {
			return y.Errorf(append(slices.Clip(path), key), format, args...)
		}
		if err := streams.CheckID("name of a standing permission", t.Name); err != nil {
			return s, at("name", "%w", err)
		}
		if slices.ContainsFunc(s.list, func(x Standing) bool { return x.Name == t.Name }) {
			return s, at("name", "standing permission %q is listed twice", t.Name)
		}
		if len(t.Tools) == 0 {
			return s, at("tools", "standing permission %s names no tools", t.Name)
		}
		if strings.TrimSpace(t.Owner) == "" || strings.TrimSpace(t.Reason) == "" {
			return s, at("name", "standing permission %s needs an owner and a reason", t.Name)
		}
		x := Standing{Name: t.Name, Owner: t.Owner, Reason: t.Reason, projects: t.Projects, agents: t.Agents}
		if x.Until, err = time.Parse(time.RFC3339, t.Until); err != nil {
			return s, at("until", "`until` of %s is %q: write the end of the permission, such as 2026-12-31T00:00:00Z",
				t.Name, t.Until)
		}
		if t.When != "" {
			if x.when, err = compileCondition(t.When); err != nil {
				return s, at("when", "condition of %s: %w", t.Name, err)
			}
		}
		for j, tool := range t.Tools {
			if strings.Trim(tool, "*?._-/: ") == "" {
				return s, y.Errorf(append(slices.Clip(path), "tools", j),
					"standing permission %s must not name every tool: list the tools", t.Name)
			}
			if err := s.index.addPattern(tool, i); err != nil {
				return s, y.Errorf(append(slices.Clip(path), "tools", j), "tools of %s: %w", t.Name, err)
			}
		}
		s.list = append(s.list, x)
	}
	return s, nil
}

// Standing returns the standing permission that, at the time now, allows an action which would be
// held because of its level. It returns nil if there is none. There may be other reasons to hold or
// deny the action; the permission does not remove them. A condition whose evaluation fails counts
// as not met.
func (p *Policy) Standing(tool string, args []byte, project, agent string, now time.Time) *Standing {
	if len(p.standing.list) == 0 || len(tool) > MaxTool {
		return nil
	}
	name := parseName(tool, nil, nil)
	if !name.plain {
		return nil // a name that is not ASCII may imitate the name of another tool
	}
	hits := make([]seen, len(p.standing.list))
	p.standing.index.mark(&name, hits)
	c := call{tool: tool, project: project, agent: agent, raw: args}
	for i := range p.standing.list {
		x := &p.standing.list[i]
		if hits[i]&seenTool == 0 || !now.Before(x.Until) ||
			len(x.projects) > 0 && !slices.Contains(x.projects, project) || len(x.agents) > 0 && !slices.Contains(x.agents,
			agent) {
			continue
		}
		if x.when != nil {
			if met, err := c.holds(x.when); err != nil || !met {
				continue
			}
		}
		return x
	}
	return nil
}
