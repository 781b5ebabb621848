package streams

import (
	"slices"
	"strings"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
)

// KindOut is the kind of an event with the result of an action. TypeOutcome is the type of the entries for such events.
const (
	KindOut     Kind = "out"
	TypeOutcome Type = "outcome"
)

func init() {
	register[Outcome](EventKind{
		Kind: KindOut, Type: TypeOutcome, Order: 8,
		Required: []string{"status"},
		Title:    "an outcome or answer",
		Fields: "`action`, `status` (one of ok, error, skipped, answer, cancelled; cancelled withdraws a held action), " +
			"`content`, `digest` (that of the action in its verdict), `sources` (ids; only with status answer)",
	})
}

// Outcome (kind out) is the result of an action, or the agent's answer.
type Outcome struct {
	Head
	Action string `json:"action,omitzero"` // id of the action
	// Status is ok, error, skipped, cancelled or answer. "cancelled" withdraws a held proposal. "answer" marks the
	// agent's answer.
	Status  string `json:"status,omitzero"`
	Content string `json:"content,omitzero"`
	// Sources are what the agent's answer is based on: ids of the agent's observations and recalls, or of beliefs.
	Sources []string `json:"sources,omitzero"`
	// Digest is the digest of the executed action. The executor copies it from the action's verdict. If it differs from
	// the digest in the verdict, the arbiter raises an incident.
	Digest string `json:"digest,omitzero"`
}

// StatusAnswer is the status of an outcome that is the agent's answer.
const StatusAnswer = beliefs.OutcomeAnswer

func (e *Outcome) check(Address) error {
	if !slices.Contains(beliefs.OutcomeStatuses, e.Status) {
		return rejectf(CodeInvalid, "the status of the outcome is %q, use one of %s", clip(e.Status),
			strings.Join(beliefs.OutcomeStatuses, ", "))
	}
	if len(e.Sources) > 0 && e.Status != StatusAnswer {
		return rejectf(CodeInvalid, "only an outcome of status %q may have sources, but this outcome's status is %q",
			StatusAnswer, clip(e.Status))
	}
	if err := refs("sources", e.Sources); err != nil {
		return err
	}
	return names(e.Action, "action", e.Status, "status", e.Digest, "digest")
}

// OutcomeEntry is the body of an outcome.
type OutcomeEntry struct {
	EntryHead
	beliefs.Outcome
	Content  string        `json:"content,omitzero"`
	Features text.Features `json:"features,omitzero"`
	// Sources are the sources that an answer names. Grounding says from 0 to 1 how far these sources support the
	// answer. If the answer names no source, Grounding is nil.
	Sources   []string `json:"sources,omitzero"`
	Grounding *float64 `json:"grounding,omitzero"`
	Missing   []string `json:"missing,omitzero"` // sources that are unknown or were removed
	Unread    []string `json:"unread,omitzero"`  // sources that were too large to compare completely
}
