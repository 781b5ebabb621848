package policy

import (
	"slices"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/internal/strictyaml"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// Limits of the approval of a source.
const (
	MinSourceLife    = time.Minute
	MaxSourceLife    = 7 * 24 * time.Hour
	MaxSourceActions = 1000
	MaxSourceRules   = 64
)

// sourcesText is the section on the approval of sources. Without it no source can be approved.
type sourcesText struct {
	MaxLife    string   `yaml:"max_life"`
	MaxActions int      `yaml:"max_actions"`
	Rules      []string `yaml:"rules"`
}

// Sources are the limits on approvals of sources that the user named in a session.
type Sources struct {
	MaxLife    time.Duration // maximum life of an approval
	MaxActions int           // maximum number of actions under one approval
	rules      []string      // as group/rule
}

func compileSources(y *strictyaml.Document, t *sourcesText) (*Sources, error) {
	if t == nil {
		return nil, nil
	}
	at := func(key, format string, args ...any) error { return y.Errorf([]any{"sources", key}, format, args...) }
	life, err := duration(t.MaxLife, MinSourceLife, MaxSourceLife)
	if err != nil {
		return nil, at("max_life", "%w", err)
	}
	if t.MaxActions < 1 || t.MaxActions > MaxSourceActions {
		return nil, at("max_actions", "max_actions is %d, want 1 to %d", t.MaxActions, MaxSourceActions)
	}
	if len(t.Rules) > MaxSourceRules {
		return nil, at("rules", "%d rules are too many, at most %d are possible", len(t.Rules), MaxSourceRules)
	}
	for i, r := range t.Rules {
		group, rule, ok := strings.Cut(r, "/")
		if !ok || !streams.ValidID(group) || !streams.ValidID(rule) {
			return nil, y.Errorf([]any{"sources", "rules", i}, "rule %q is not GROUP/RULE", r)
		}
	}
	return &Sources{life, t.MaxActions, t.Rules}, nil
}

// Sources returns the limits on approvals of sources. It returns nil if no source can be approved.
func (p *Policy) Sources() *Sources { return p.sources }

// Covers reports whether the approval of a source removes a reason to hold. It removes the level of
// the action as a reason, and the findings of the rules that the section lists.
func (s *Sources) Covers(r *streams.Reason) bool {
	switch {
	case r.Verdict != streams.Hold:
		return false
	case r.Code == streams.CodeFloor:
		return r.Rule == "" && len(r.Path) == 0
	}
	return r.Code == streams.CodeRule && slices.Contains(s.rules, r.Group+"/"+r.Rule)
}

// Uncovered says why no approval of a source covers an action of this class. It returns "" if an
// approval may cover the action.
func (c Class) Uncovered(tool string) string {
	switch {
	case tool == streams.ApproveTools, tool == streams.RegisterPrompt:
		return "it changes the agent's tools or prompt"
	case c.Level > beliefs.L4:
		return "its level is " + c.Level.String()
	case c.insists:
		return "a policy entry requires a person for it"
	case len(c.Approvers) > 1:
		return "the policy requires more than one role for it"
	}
	for _, e := range []string{EffectPay, EffectSecret, EffectExec, EffectDelete} {
		if c.Has(e) {
			return "its effect is " + e
		}
	}
	for _, r := range c.Reasons {
		if r.Verdict > streams.Allow && r.Code != streams.CodeFloor {
			return "the policy objects to its arguments"
		}
	}
	return ""
}

// Approving returns the roles of which all are required to release an action of a class.
func (p *Policy) Approving(c Class) []keys.Role {
	if len(c.Approvers) > 0 {
		return c.Approvers
	}
	return []keys.Role{p.Approver()}
}

// ShippedSources returns the text of the section sources of the shipped policy.
func ShippedSources() string { return shippedSection("sources") }
