package detection

import (
	"fmt"

	"lazaret/pkg/position"
	"lazaret/streams"
)

// Joiner assigns ledger entries to cases. Entries must be added in order.
type Joiner struct {
	byProject map[string]*Case
	content   map[uint64]*Case // by ledger sequence of the content
	health    Health
}

// Health counts problems that distort the figures. All should be zero.
type Health struct {
	Rejected int      `json:"rejected_events"`
	Unjudged int      `json:"unjudged_lines"`    // lines whose content is not in the ledger
	Open     int      `json:"undecided_actions"` // actions without a verdict
	Degraded int      `json:"degraded_verdicts"` // a sentinel group did not answer
	Failed   int      `json:"failed_rules"`      // alerts for rules that could not be evaluated
	Unnamed  []string `json:"unnamed_tools"`     // tools in no list of the policy
}

// Any reports whether there is any problem.
func (h *Health) Any() bool {
	return h.Rejected+h.Unjudged+h.Open+h.Degraded+h.Failed+len(h.Unnamed) > 0
}

// NewJoiner returns a joiner for cases.
func NewJoiner(cases []*Case) *Joiner {
	j := &Joiner{byProject: make(map[string]*Case, len(cases)), content: make(map[uint64]*Case)}
	for _, c := range cases {
		j.byProject[c.Script.Project] = c
	}
	return j
}

// Add adds one ledger entry.
func (j *Joiner) Add(e *streams.Entry) error {
	c := j.byProject[e.Project]
	if c == nil {
		return nil
	}
	if err := j.add(c, e); err != nil {
		return fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
	}
	return nil
}

func (j *Joiner) add(c *Case, e *streams.Entry) error {
	switch e.Type {
	case streams.TypeRejected:
		j.health.Rejected++
	case streams.TypeObservation, streams.TypeMemory:
		var h streams.EntryHead
		if err := streams.Unmarshal(e.Body, &h); err != nil {
			return err
		}
		if c.content != "" && h.ID == c.content {
			c.judged = true
			j.content[e.Position()] = c
		}
	case streams.TypeAction:
		var x streams.ActionEntry
		if err := streams.Unmarshal(e.Body, &x); err != nil {
			return err
		}
		if a := c.action(x.ID); a != nil {
			a.level, a.entry = x.Level, x.Matched
		}
	case streams.TypeAlerts, streams.TypeAssessment:
		var x streams.AlertsEntry // an assessment has these fields too
		if err := streams.Unmarshal(e.Body, &x); err != nil {
			return err
		}
		for _, al := range x.Alerts {
			if al.Error != "" {
				j.health.Failed++
			}
			if j.content[e.Src] == c && textRule(&al) {
				c.flagged = note(c.flagged, al.Rule, al.Message)
			}
		}
	case streams.TypeVerdict:
		var v streams.VerdictEntry
		if err := streams.Unmarshal(e.Body, &v); err != nil {
			return err
		}
		if v.Type != streams.TypeAction || v.Again || v.Late {
			return nil // a later verdict; the agent has acted on the first
		}
		if len(v.Degraded) > 0 {
			j.health.Degraded++
		}
		if a := c.action(v.ID); a != nil {
			a.decided, a.held = true, sentinels(&v)
		}
	}
	return nil
}

func (c *Case) action(id string) *Action {
	for _, a := range c.Actions {
		if a.ID == id {
			return a
		}
	}
	return nil
}

// textRule reports whether an alert on a content's entry classifies the text as an attack.
func textRule(al *streams.Alert) bool {
	return al.Mode != "shadow" && (al.Severity == "high" || al.Severity == "critical")
}

// sentinels returns the findings of rules that made a verdict stricter. The policy's floor, the host, a
// missing answer and similar reasons are not findings.
func sentinels(v *streams.VerdictEntry) []finding {
	var out []finding
	for _, r := range v.Reasons {
		found := r.Code == streams.CodeRule || r.Code == streams.CodeBelief && r.Rule != ""
		if found && r.Verdict > streams.Allow {
			out = note(out, r.Rule, r.Text)
		}
	}
	return out
}
