package streams

import (
	"errors"

	"lazaret/pkg/beliefs"
)

// KindDec is the kind of an event that reports a decision and the beliefs that the decision cites. TypeDecision is the
// type of the entries for such events.
const (
	KindDec      Kind = "dec"
	TypeDecision Type = "decision"
)

func init() {
	register[Decision](EventKind{
		Kind: KindDec, Type: TypeDecision, Order: 6,
		Title:  "a decision",
		Fields: "`summary`, `beliefs` (ids), or `cites_none`",
	})
}

// Decision (kind dec) is what the agent decided, and the beliefs that it cites for it.
type Decision struct {
	Head
	beliefs.Decision
}

func (e *Decision) check(Address) error {
	if err := e.Check(); err != nil && !errors.Is(err, beliefs.ErrUncited) {
		return rejectf(CodeInvalid, "the decision is not valid: %v", err)
	}
	return refs("beliefs", e.Beliefs)
}

// DecisionEntry is the body of a decision's entry. It has the cited beliefs as they were when ingest admitted the
// decision.
type DecisionEntry struct {
	EntryHead
	Summary string      `json:"summary,omitzero"`
	Beliefs []BeliefRef `json:"beliefs,omitzero"`
	// CitesNone is set if the agent says that the decision depends on no belief.
	CitesNone bool `json:"cites_none,omitzero"`
	// Uncited says what is wrong with the citations, such as an unknown id. It is empty if the policy allows such
	// decisions.
	Uncited string `json:"uncited,omitzero"`
}
