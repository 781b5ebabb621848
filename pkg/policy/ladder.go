package policy

import (
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Floor is the least verdict for an action of a level: allow up to L3, hold at
// L4, deny at L5 and for any level that does not exist.
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

// meaning is what a level stands for, in the words of verdicts.
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
