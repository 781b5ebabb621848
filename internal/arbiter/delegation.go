package arbiter

import (
	"fmt"
	"slices"
	"strings"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// delegated returns the ground in the signed policy for allowing an action that would be held only because of its
// level, or "". It returns "" if the action has its level because the agent declared it. It also returns "" if the
// sensitivity of the data that the action carries, cites or declares is above internal.
func delegated(pol *policy.Policy, k policy.Call, c policy.Class, a *streams.ActionEntry) string {
	if a.Shown == nil || a.Shown.Marked || !a.Sensitivity.Within(beliefs.Internal) {
		return ""
	}
	if classify(pol, k, a.Annotations, beliefs.L0).Level != c.Level {
		return ""
	}
	ev := policy.Evidence{User: true, Foreign: a.Shown.Foreign, Order: a.Shown.Order, Unread: a.Shown.Unread,
		Leans: a.Shown.Leans}
	var named []string
	files := true // the user named all files that the action sends
	if r := a.Intent; r != nil {
		files = r.Attached == ""
		ev.Asked, ev.Values, named = r.Asked && files, len(r.Values)+len(r.Carriers), r.Carriers
	}
	ev.Named = files && !slices.ContainsFunc(a.Features.Carriers, func(c text.Carrier) bool {
		return party(c, a.Features.Carriers, named)
	})
	ground, ok := pol.Delegated(k, c, ev)
	if !ok {
		return ""
	}
	return fmt.Sprintf("delegated by %s: %s", ground, ev)
}

// party reports whether a carrier is a recipient or a destination that the user did not name. `all` has the action's
// carriers. The host of an e-mail address or URL among them does not count as a destination of its own.
func party(c text.Carrier, all []text.Carrier, named []string) bool {
	if !c.Kind.Traits().ReachesOut || c.Kind == text.Host && slices.ContainsFunc(all, func(o text.Carrier) bool {
		return o.Kind == text.Email && strings.HasSuffix(o.Value, "@"+c.Value) ||
			o.Kind == text.URL && strings.Contains(o.Value, c.Value)
	}) {
		return false
	}
	return !slices.Contains(named, string(c.Kind)+":"+c.Value)
}

// delegate allows an action that is held only because of its level, if p.Delegated is set. The action stays held if
// there is another reason to hold it.
func delegate(p *proposal, v *streams.VerdictEntry) {
	if p.Delegated == "" || v.Verdict != streams.Hold || p.Withdrawn || !byLevelAlone(v) {
		return
	}
	v.Verdict = streams.Allow
	v.Reasons = append(v.Reasons, streams.Reason{Code: streams.CodeDelegated, Verdict: streams.Allow,
		Text: streams.Clip(p.Delegated, maxReasonText)})
}

// byLevelAlone reports whether all reasons to hold or deny are the policy's floor for the action's level.
func byLevelAlone(v *streams.VerdictEntry) bool {
	return !slices.ContainsFunc(v.Reasons, func(r streams.Reason) bool {
		return r.Verdict > streams.Allow && r.Code != streams.CodeFloor
	})
}
