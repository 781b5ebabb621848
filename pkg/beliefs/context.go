package beliefs

import (
	"fmt"
	"time"
)

// The purposes of a recall.
const (
	PurposeExtraction  = "extraction"
	PurposePlanning    = "planning" // that of a recall that names none
	PurposeDecision    = "decision"
	PurposeExplanation = "explanation"
)

// Purposes lists the purposes that an agent's recall may state. A policy may have a context policy for each.
var Purposes = []string{PurposeExtraction, PurposePlanning, PurposeDecision, PurposeExplanation}

// ContextPolicy decides which beliefs may enter a model's context.
type ContextPolicy struct {
	// Purpose is one of Purposes, or audit.
	Purpose string
	// MaxAge is the maximum age of a belief, by ledger time. Zero means no limit.
	MaxAge time.Duration
	// Ceiling is the highest sensitivity that is served.
	Ceiling Sensitivity
	// MaxExternal is the maximum number of admitted entries of external origin.
	MaxExternal int
	// ContextOnly says that restricted and unverified beliefs are served too, in a separate list. The agent may read
	// these beliefs but not act on them.
	ContextOnly bool
	// Privileged serves every belief, for audits.
	Privileged bool
	// Conditions are the operator's conditions. A served belief must meet all of them.
	Conditions []Condition
}

// Condition is an operator's condition on served beliefs.
type Condition struct {
	Name string // an identifier; if a belief fails the condition, the name is part of the reason
	// ContextOnly says that a belief that fails the condition is still served, as context only. If it is not set, such
	// a belief is refused.
	ContextOnly bool
	// Holds reports whether a belief meets the condition. It must be deterministic. If it returns an error, the belief
	// is refused.
	Holds func(Subject) (bool, error)
}

// Subject is the input of a condition.
type Subject struct {
	Candidate
	Purpose string
	Now     time.Time
	// Agent and Session are the agent and the session that the recall is for.
	Agent, Session string
}

// DefaultContext returns the context policy that applies unless a policy file says otherwise. It admits supported,
// normal, clean and fresh beliefs that were confirmed in the last 30 days, with a sensitivity of at most internal. At
// most two of them may be of external origin.
func DefaultContext(purpose string) ContextPolicy {
	return ContextPolicy{Purpose: purpose, MaxAge: 30 * 24 * time.Hour, Ceiling: Internal, MaxExternal: 2,
		ContextOnly: true}
}

// Candidate is a belief that a context policy judges.
type Candidate struct {
	Axes        Axes
	Sensitivity Sensitivity
	Origin      Origin
	At          time.Time // ledger time of its last confirmation
	ValidFrom   time.Time // zero: always
	ValidTo     time.Time // zero: for ever
	// Read is set for content that was observed but never written as a memory. It may be served only as context,
	// also if the user said it.
	Read bool
	// Grade says whether the belief may be used for planning although it is unverified.
	Grade Grade

	// The following fields are for conditions.
	ID, Key, Category, Source string
	Agent, Session            string // of the event that introduced it
	Quality                   Quality
	Confidence                float64
	Score                     float64 // how well the belief matches the query, 0 to 1; -1 means that there is no score
}

// Channel is one of the lists of a recall's answer. A candidate appears in one of them.
type Channel uint8

// The channels.
const (
	Refused Channel = iota
	Admitted
	AsContext     // may be read, not acted on
	Contradiction // listed as contradicting another belief, never served as a fact
)

// Ruling is the decision of a context policy on one candidate.
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
	ReasonCondition   = "condition" // followed by a colon and the condition's name
	ReasonUnknown     = "unknown"   // the id is unknown
	ReasonIntegrity   = "integrity" // the content does not match the ledger
	ReasonFinding     = "finding"   // a sentinel's finding applies to it
)

// Asker is the agent and session that a recall is for.
type Asker struct{ Agent, Session string }

// Judge returns a ruling for each candidate, at ledger time now. The candidates must be in their ranked order.
func (p ContextPolicy) Judge(now time.Time, by Asker, candidates []Candidate) []Ruling {
	out := make([]Ruling, len(candidates))
	external := 0
	for i, c := range candidates {
		r := p.conditions(Subject{c, p.Purpose, now, by.Agent, by.Session}, p.judge(now, c))
		if r.Channel == Admitted && CountsAsExternal(c.Origin, c.Grade) && !p.Privileged {
			if external++; external > p.MaxExternal {
				r = Ruling{Refused, ReasonExternal, fmt.Sprintf("%d entries of external origin are admitted already",
					p.MaxExternal)}
			}
		}
		out[i] = r
	}
	return out
}

// CountsAsExternal reports whether an admitted belief counts toward the limit MaxExternal.
func CountsAsExternal(o Origin, g Grade) bool { return o.External() && g != Record }

func (p ContextPolicy) judge(now time.Time, c Candidate) Ruling {
	if p.Privileged {
		return Ruling{Channel: Admitted}
	}
	refuse := func(reason, format string, args ...any) Ruling {
		return Ruling{Refused, reason, fmt.Sprintf(format, args...)}
	}
	// Beliefs that are in no list.
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
		return refuse(ReasonInvalid, "it is not valid at this time")
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

// conditions applies the operator's conditions to a candidate that would be served with ruling r. They can only make
// the ruling stricter.
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
