package beliefs

import (
	"fmt"
	"time"
)

// ContextPolicy decides which beliefs may enter a model's context.
type ContextPolicy struct {
	// Purpose is extraction, planning, decision or explanation.
	Purpose string
	// MaxAge is how old a belief may be, by ledger time. Zero: no bound.
	MaxAge time.Duration
	// Ceiling is the highest sensitivity that is served.
	Ceiling Sensitivity
	// MaxExternal is how many entries of external origin may be among those
	// admitted.
	MaxExternal int
	// ContextOnly serves what is restricted or unverified in a channel of its
	// own, as material to read and not to act on.
	ContextOnly bool
	// Privileged serves everything, for audit.
	Privileged bool
}

// DefaultContext is the context policy unless a policy file says otherwise:
// supported, normal, clean and fresh beliefs of the last 30 days, sensitivity
// internal at most, no more than two of external origin.
func DefaultContext(purpose string) ContextPolicy {
	return ContextPolicy{Purpose: purpose, MaxAge: 30 * 24 * time.Hour, Ceiling: Internal, MaxExternal: 2, ContextOnly: true}
}

// Candidate is what the policy looks at.
type Candidate struct {
	Axes        Axes
	Sensitivity Sensitivity
	Origin      Origin
	At          time.Time // ledger time of its last confirmation
	ValidFrom   time.Time // zero: always
	ValidTo     time.Time // zero: for ever
}

// Channel is where a candidate goes.
type Channel uint8

// The channels.
const (
	Refused Channel = iota
	Admitted
	AsContext     // to read, not to act on
	Contradiction // surfaced as such, never among facts
)

// Ruling is what the policy says of one candidate.
type Ruling struct {
	Channel Channel
	Reason  string // stable code; empty when admitted
	Text    string
}

// The reasons of a refusal.
const (
	ReasonUnverified  = "unverified"
	ReasonSuperseded  = "superseded"
	ReasonHidden      = "hidden"
	ReasonRestricted  = "restricted"
	ReasonBlocked     = "blocked"
	ReasonPrivileged  = "privileged_only"
	ReasonSecurity    = "security"
	ReasonFreshness   = "freshness"
	ReasonAge         = "age"
	ReasonSensitivity = "sensitivity"
	ReasonExternal    = "external_quota"
	ReasonInvalid     = "not_valid_now"
	ReasonContradict  = "contradicted"
)

// Judge rules on candidates in their order of rank, at ledger time now. Every
// candidate gets a ruling: nothing is passed over in silence.
func (p ContextPolicy) Judge(now time.Time, candidates []Candidate) []Ruling {
	out := make([]Ruling, len(candidates))
	external := 0
	for i, c := range candidates {
		r := p.judge(now, c)
		if r.Channel == Admitted && c.Origin.External() && !p.Privileged {
			if external++; external > p.MaxExternal {
				r = Ruling{Refused, ReasonExternal, fmt.Sprintf("%d entries of external origin are admitted already", p.MaxExternal)}
			}
		}
		out[i] = r
	}
	return out
}

func (p ContextPolicy) judge(now time.Time, c Candidate) Ruling {
	if p.Privileged {
		return Ruling{Channel: Admitted}
	}
	refuse := func(reason, format string, args ...any) Ruling {
		return Ruling{Refused, reason, fmt.Sprintf(format, args...)}
	}
	// What no channel serves.
	switch {
	case c.Axes.Security != Clean:
		return refuse(ReasonSecurity, "it is %s", c.Axes.Security)
	case c.Axes.Retrieval == Blocked:
		return refuse(ReasonBlocked, "it is blocked")
	case c.Axes.Retrieval == Hidden:
		return refuse(ReasonHidden, "it is a candidate that was not admitted")
	case c.Axes.Retrieval == PrivilegedOnly:
		return refuse(ReasonPrivileged, "it is served to audit only")
	case !c.Sensitivity.Within(p.Ceiling):
		return refuse(ReasonSensitivity, "it is %s, the ceiling is %s", c.Sensitivity, p.Ceiling)
	case c.Axes.Freshness == Expired:
		return refuse(ReasonFreshness, "it has expired")
	case !c.ValidFrom.IsZero() && now.Before(c.ValidFrom), !c.ValidTo.IsZero() && !now.Before(c.ValidTo):
		return refuse(ReasonInvalid, "it does not hold at this time")
	case c.Axes.Truth == Contradicted:
		return Ruling{Contradiction, ReasonContradict, "stronger evidence says otherwise"}
	case c.Axes.Truth == Superseded:
		return refuse(ReasonSuperseded, "a newer belief took its place")
	case p.MaxAge > 0 && now.Sub(c.At) > p.MaxAge:
		return refuse(ReasonAge, "nobody confirmed it for %s", now.Sub(c.At).Round(time.Hour))
	}
	aside := func(reason, text string) Ruling {
		if p.ContextOnly {
			return Ruling{AsContext, reason, text}
		}
		return Ruling{Refused, reason, text}
	}
	switch {
	case c.Axes.Truth != Supported:
		return aside(ReasonUnverified, "nobody stronger than its own source vouches for it")
	case c.Axes.Retrieval == Restricted:
		return aside(ReasonRestricted, "it is restricted to context")
	case c.Axes.Freshness == Stale:
		return aside(ReasonFreshness, "it is stale")
	}
	return Ruling{Channel: Admitted}
}
