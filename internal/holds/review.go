package holds

import (
	"fmt"
	"slices"
	"strings"

	"lazaret/internal/arbiter"
	"lazaret/internal/suggest"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// Review is a list of tools to be accepted, with a proposed level for each.
type Review struct {
	Hold    string           `json:"hold"`
	Project string           `json:"project"`
	Agent   string           `json:"agent"`
	Server  string           `json:"server"`
	Command []string         `json:"command,omitzero"`
	Profile string           `json:"profile,omitzero"`
	Known   bool             `json:"profile_known,omitzero"` // the server's command names the profile's package
	Tools   []Reviewed       `json:"tools"`
	Alerts  []streams.Reason `json:"alerts,omitzero"`
	Notes   []string         `json:"notes,omitzero"`
}

// Reviewed is a tool with its proposed level and the reason.
type Reviewed struct {
	policy.Proposal
	Accept  beliefs.Level `json:"accept"`           // the level to be signed
	Changed bool          `json:"changed,omitzero"` // a person chose a level other than the proposed one
	Seen    string        `json:"seen,omitzero"`
}

// NewReview proposes a level for each tool of a held list. seen may be nil.
func NewReview(pol *policy.Policy, h *arbiter.Hold, seen *suggest.Seen) (*Review, error) {
	args := new(streams.ApproveToolsArgs)
	if err := streams.Unmarshal([]byte(h.Body), args); err != nil {
		return nil, fmt.Errorf("reading the list of tools of hold %s: %w", h.ID, err)
	}
	r := &Review{Hold: h.ID, Project: h.Project, Agent: h.Agent, Server: args.Server,
		Command: args.Command}
	if h.Verdict.Policy != "" && h.Verdict.Policy != pol.Digest {
		r.Notes = append(r.Notes,
			"these levels are not proposed by the policy in force; give its file with --policy")
	}
	profile := pol.ProfileOf(args.Server, args.Command)
	if profile != nil {
		r.Profile, r.Known = profile.Name, profile.Known
	}
	for _, x := range h.Verdict.Reasons {
		if x.Rule != "" {
			r.Alerts = append(r.Alerts, x)
		}
	}
	for _, t := range h.Tools {
		x := Reviewed{Proposal: pol.Propose(policy.Offered{Name: t.Name, Description: t.Description, Schema: t.InputSchema,
			Annotations: t.Annotations}, profile)}
		if seen != nil {
			if n, l, why := seen.Tool(t.Name); n > 0 {
				x.Seen = fmt.Sprintf("seen %d times, which suggests %s: %s", n, l, why)
				if x.From == "nothing" && l < x.Level {
					x.Level, x.From, x.Because = l, "seen", why
				}
			}
		}
		x.Accept = x.Level
		r.Tools = append(r.Tools, x)
	}
	slices.SortStableFunc(r.Tools, func(x, y Reviewed) int { return int(y.Level) - int(x.Level) })
	return r, nil
}

// Change sets the level of one tool, given as TOOL=LEVEL.
func (r *Review) Change(s string) error {
	tool, level, ok := strings.Cut(s, "=")
	var l beliefs.Level
	if !ok || l.UnmarshalText([]byte(level)) != nil || l > beliefs.L4 {
		return fmt.Errorf("%q does not set the level of a tool: write TOOL=L0 to TOOL=L4", s)
	}
	for i := range r.Tools {
		if x := &r.Tools[i]; x.Tool == tool {
			x.Accept, x.Changed = l, l != x.Level
			return nil
		}
	}
	return fmt.Errorf("the list has no tool %q", tool)
}
