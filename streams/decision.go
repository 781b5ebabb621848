package streams

import (
	"errors"

	"lazaret/pkg/beliefs"
)

// KindDec is the kind of a decision and of the beliefs that it cites. TypeDecision is the type of
// its entries.
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

// DecisionEntry is the body of a decision, with the cited beliefs as they were then.
type DecisionEntry struct {
	EntryHead
	Summary string      `json:"summary,omitzero"`
	Beliefs []BeliefRef `json:"beliefs,omitzero"`
	// CitesNone is the agent's statement that the decision depends on no belief.
	CitesNone bool `json:"cites_none,omitzero"`
	// Uncited describes the fault of the citations, such as an unknown id. It is set if the policy requires citations.
	Uncited string `json:"uncited,omitzero"`
}
