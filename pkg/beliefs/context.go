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
	// Conditions are the operator's own; each has to hold of what is served.
	Conditions []Condition
}

// Condition is a condition of an operator's on what a recall serves.
type Condition struct {
	Name string // an identifier; it is the reason of a refusal
	// ContextOnly lets what fails it be read in a channel of its own; otherwise
	// it is refused.
	ContextOnly bool
	// Holds evaluates it, deterministically. An error counts as failed and
	// refuses: an operator who cannot say what he wants has not allowed it.
	Holds func(Subject) (bool, error)
}

// Subject is what a condition may look at beyond what the policy itself does.
type Subject struct {
	Candidate
	Purpose string
	Now     time.Time
	// Agent and Session ask.
	Agent, Session string
}

// DefaultContext is the context policy unless a policy file says otherwise:
// supported, normal, clean and fresh beliefs of the last 30 days, sensitivity
// internal at most, no more than two of external origin.
func DefaultContext(purpose string) ContextPolicy {
	return ContextPolicy{Purpose: purpose, MaxAge: 30 * 24 * time.Hour, Ceiling: Internal, MaxExternal: 2,
		ContextOnly: true}
}

// Candidate is what the policy looks at.
type Candidate struct {
	Axes        Axes
	Sensitivity Sensitivity
	Origin      Origin
	At          time.Time // ledger time of its last confirmation
	ValidFrom   time.Time // zero: always
	ValidTo     time.Time // zero: for ever
	// Read is set of what was read or said, and never asked to be remembered:
	// it may inform and never be more, whoever said it.
	Read bool
	// Grade lets it be admitted for planning though it is unverified.
	Grade Grade

	// For conditions.
	ID, Key, Category, Source string
	Agent, Session            string // that introduced it
	Quality                   Quality
	Confidence                float64
	Score                     float64 // of the query, 0 to 1; -1 for none
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
	ReasonRead        = "not_remembered"
	ReasonCondition   = "condition" // and, after a colon, its name
	ReasonUnknown     = "unknown"   // an id that nobody knows
	ReasonIntegrity   = "integrity" // it is not what the ledger says of it
)

// Asker is whom a recall is answered to.
type Asker struct{ Agent, Session string }

// Judge rules on candidates in their order of rank, at ledger time now. Every
// candidate gets a ruling: nothing is passed over in silence.
func (p ContextPolicy) Judge(now time.Time, by Asker, candidates []Candidate) []Ruling {
	out := make([]Ruling, len(candidates))
	external := 0
	for i, c := range candidates {
		r := p.conditions(Subject{c, p.Purpose, now, by.Agent, by.Session}, p.judge(now, c))
		if r.Channel == Admitted && c.Origin.External() && c.Grade != Record && !p.Privileged {
			if external++; external > p.MaxExternal {
				r = Ruling{Refused, ReasonExternal, fmt.Sprintf("%d entries of external origin are admitted already",
					p.MaxExternal)}
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
	// Beliefs that no channel serves.
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
	case c.plannable(p.Purpose):
	case c.Axes.Truth != Supported:
		return aside(ReasonUnverified, "nobody stronger than its own source vouches for it")
	case c.Axes.Retrieval == Restricted:
		return aside(ReasonRestricted, "it is restricted to context")
	case c.Axes.Freshness == Stale:
		return aside(ReasonFreshness, "it is stale")
	case c.Read:
		return aside(ReasonRead, "it was read or said, and nobody asked for it to be remembered")
	}
	return Ruling{Channel: Admitted}
}

// conditions holds what would be served against the operator's conditions. They
// only ever tighten.
func (p ContextPolicy) conditions(s Subject, r Ruling) Ruling {
	if p.Privileged {
		return r
	}
	for _, c := range p.Conditions {
		if r.Channel == Refused {
			break
		}
		ok, err := c.Holds(s)
		switch {
		case err != nil:
			return Ruling{Refused, ReasonCondition + ":" + c.Name, fmt.Sprintf("condition %s of the context policy failed: %v",
				c.Name, err)}
		case ok:
		case c.ContextOnly && p.ContextOnly:
			if r.Channel == Admitted {
				r = Ruling{AsContext, ReasonCondition + ":" + c.Name,
					fmt.Sprintf("condition %s of the context policy does not hold", c.Name)}
			}
		default:
			return Ruling{Refused, ReasonCondition + ":" + c.Name,
				fmt.Sprintf("condition %s of the context policy does not hold", c.Name)}
		}
	}
	return r
}
