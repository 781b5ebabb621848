package beliefs

import (
	"errors"
	"fmt"
	"time"
)

// Decision is what an agent decided, with the beliefs that it cites. A decision either cites
// beliefs or states that it cites none. Thus an agent that looked nothing up says so explicitly.
type Decision struct {
	Summary string   `json:"summary,omitzero"`
	Beliefs []string `json:"beliefs,omitzero"` // ids of the cited beliefs
	// CitesNone is set if the agent says that the decision depends on no belief.
	CitesNone bool `json:"cites_none,omitzero"`
}

// ErrUncited reports a decision that cites no beliefs although CitesNone is not set.
var ErrUncited = errors.New("it cites no belief and does not say so: name beliefs, or set cites_none")

// Check returns ErrUncited if the decision has no citations and does not set CitesNone. It returns another error if it
// has both.
func (d *Decision) Check() error {
	switch {
	case d.CitesNone && len(d.Beliefs) > 0:
		return fmt.Errorf("it cites %d beliefs and says that it cites none", len(d.Beliefs))
	case !d.CitesNone && len(d.Beliefs) == 0:
		return ErrUncited
	}
	return nil
}

// Dependant is an earlier decision or action that cites a belief which is no longer reliable. The pipeline does not
// undo it. A person has to review it.
type Dependant struct {
	Kind  string `json:"kind"` // decision or action
	ID    string `json:"id"`
	Agent string `json:"agent"`
	// Belief is the id of the belief that is no longer reliable. Axes is the belief's state after the change that made
	// it unreliable, and Why is the cause of this change.
	Belief string    `json:"belief"`
	Axes   Axes      `json:"axes"`
	Why    string    `json:"why"`
	At     time.Time `json:"at"` // ledger time
}

// Fell reports whether a change from one state to another made a belief unreliable: it became contradicted, superseded
// or quarantined, or it was reliable and became malicious.
func Fell(from, to Axes) bool {
	down := func(a Axes) bool { return a.Truth >= Contradicted || a.Security >= Quarantined }
	return down(to) && (!down(from) || to.Truth > from.Truth && to.Truth >= Contradicted ||
		to.Security > from.Security && to.Security == Quarantined)
}
