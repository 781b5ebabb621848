package streams

import (
	"slices"
	"strings"
)

// The effects that an alert may ask for.
const (
	EffectAlert      = "alert" // only raises the alert
	EffectHold       = "hold"
	EffectDeny       = "deny"
	EffectRestrict   = "restrict"
	EffectQuarantine = "quarantine"
	// EffectMask, EffectAnnotate and EffectSpotlight change a recalled text before it is returned. They are applied in
	// this order.
	EffectMask      = "mask"      // sensitive parts are removed
	EffectAnnotate  = "annotate"  // the alert's message is put before the text
	EffectSpotlight = "spotlight" // the text is wrapped in markers that say that it is data, not instructions
)

// textEffects are the effects on text in the order of application. EffectSpotlight is last, so that its markers also
// enclose the message that EffectAnnotate adds.
var textEffects = []string{EffectMask, EffectAnnotate, EffectSpotlight}

// TextEffects returns the effects on text in the order of application.
func TextEffects() []string { return slices.Clone(textEffects) }

// IsTextEffect reports whether an effect changes a text instead of a verdict.
func IsTextEffect(effect string) bool { return slices.Contains(textEffects, effect) }

// Asks returns the verdict that the alert asks for on an entry of the given type. binding is false if the alert asks
// for nothing: its effect is alert, it is in shadow mode, or an exception cancels its effect.
//
// Rules, ingest and arbiter all use this method, so that a group and the arbiter read the group's alerts in the same
// way. On every proposal, restrict means hold and quarantine means deny. An effect on text does not change the verdict
// of a recall. For an action or memory write, no text is returned that the effect could change, so there it means hold.
// An unknown effect may be a stricter effect of a later version, so it means hold too.
func (a *Alert) Asks(on Type) (v Verdict, binding bool) {
	if a.Mode == "shadow" || a.Exception != "" {
		return Allow, false
	}
	switch a.Effect {
	case EffectAlert:
		return Allow, false
	case EffectDeny, EffectQuarantine:
		return Deny, true
	case EffectMask, EffectAnnotate, EffectSpotlight:
		if on != TypeAction && on != TypeMemory {
			return Allow, false
		}
	}
	return Hold, true
}

// MaxReasonText is the maximum length in bytes of a reason's text and of its rule name.
const MaxReasonText = 500

// FindingKey identifies a finding by its subject, by the group and rule that made it, by the verdict that it asks for,
// and by its text. text is the message of the alert, or the text of the reason that the arbiter made from the alert.
// subject is in the form in which the arbiter stores it; for a belief, BeliefSubject returns this form. If subject,
// group, rule, v or text differs, the key differs.
func FindingKey(subject, group, rule string, v Verdict, text string) string {
	return Digest([]byte(strings.Join([]string{subject, group, Clip(rule, MaxReasonText), v.String(),
		Clip(text, MaxReasonText)}, "\x00")))
}

// BeliefSubject returns the subject of findings on the belief with the given id, in the form that FindingKey takes.
func BeliefSubject(id string) string { return "b:" + id }
