package arbiter

import (
	"fmt"
	"time"

	"lazaret/pkg/policy"
	"lazaret/streams"
)

// applyStanding allows an action that is held only because of its level, if the signed policy has a standing permission
// for it. If there is another reason, such as a finding, a silent group, a belief or the host's verdict, the action
// stays held.
func applyStanding(p *proposal, pol *policy.Policy, v *streams.VerdictEntry, now time.Time) {
	if pol == nil || p.Type != streams.TypeAction || v.Verdict != streams.Hold || p.Withdrawn {
		return
	}
	if !byLevelAlone(v) {
		return
	}
	s := pol.Standing(p.Tool, []byte(p.Body), p.Project, p.Agent, now)
	if s == nil {
		return
	}
	v.Verdict = streams.Allow
	v.Reasons = append(v.Reasons, streams.Reason{Code: streams.CodeStanding, Verdict: streams.Allow,
		Text: streams.Clip(fmt.Sprintf("standing permission %s of %s until %s: %s", s.Name, s.Owner,
			s.Until.Format(time.RFC3339), s.Reason), maxReasonText)})
}
