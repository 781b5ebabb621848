package policy

import (
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Floor returns the floor for a level: allow up to L3, hold for L4, deny for L5 and for unknown
// levels.
func Floor(l beliefs.Level) streams.Verdict {
	switch {
	case l <= beliefs.L3:
		return streams.Allow
	case l == beliefs.L4:
		return streams.Hold
	default:
		return streams.Deny
	}
}

// meaning describes a level in the text of a verdict.
func meaning(l beliefs.Level) string {
	switch l {
	case beliefs.L0:
		return "observe"
	case beliefs.L1:
		return "suggest"
	case beliefs.L2:
		return "isolated"
	case beliefs.L3:
		return "local and reversible"
	case beliefs.L4:
		return "external or shared, a person must approve"
	default:
		return "prohibited"
	}
}
