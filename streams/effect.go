package streams

import "slices"

// The effects that an alert may ask for.
const (
	EffectAlert      = "alert" // says it only
	EffectHold       = "hold"
	EffectDeny       = "deny"
	EffectRestrict   = "restrict"
	EffectQuarantine = "quarantine"
	// These change a recalled text before it is handed out, in this order.
	EffectMask      = "mask"      // what leaks is taken out
	EffectAnnotate  = "annotate"  // the alert's message is put before it
	EffectSpotlight = "spotlight" // it is wrapped in markers as data
)

// textEffects are the effects on text in the order in which they are applied:
// the marker of the last is outermost, and its tag is that of all within.
var textEffects = []string{EffectMask, EffectAnnotate, EffectSpotlight}

// TextEffects lists the effects on text in the order in which they are applied.
func TextEffects() []string { return slices.Clone(textEffects) }

// IsTextEffect reports whether an effect changes a text instead of a verdict.
func IsTextEffect(effect string) bool { return slices.Contains(textEffects, effect) }

// Asks is what the alert asks for of the verdict on an entry of a type; not
// binding are alerts that say something only, those in shadow mode and those
// that an exception takes the effect away from.
//
// It is the one reading of effects that rules, ingest and arbiter share, so
// that a group's own verdict and what the arbiter makes of its alerts agree:
// restrict is hold and quarantine is deny on every proposal, not only on a
// memory write. An effect on text changes no verdict of a recall. On an action
// or a memory write there is no text that anybody hands out: what was asked for
// cannot be done, and that is hold, as is an effect that this version does not
// know, which may be a stricter one.
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
