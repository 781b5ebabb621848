package beliefs

import (
	"errors"
	"fmt"
	"time"
)

// Decision is what an agent decided, and what it says that it rests on. A
// decision cites beliefs, or says that it cites none: an agent that looked
// nothing up says so, rather than nothing.
type Decision struct {
	Summary string   `json:"summary,omitzero"`
	Beliefs []string `json:"beliefs,omitzero"` // ids of what it cites
	// CitesNone says that it rests on nothing that is believed.
	CitesNone bool `json:"cites_none,omitzero"`
}

// ErrUncited is of a decision that neither cites beliefs nor says that it cites
// none.
var ErrUncited = errors.New("it cites no belief and does not say so: name beliefs, or set cites_none")

// Check returns ErrUncited, or another error where the decision contradicts
// itself.
func (d *Decision) Check() error {
	switch {
	case d.CitesNone && len(d.Beliefs) > 0:
		return fmt.Errorf("it cites %d beliefs and says that it cites none", len(d.Beliefs))
	case !d.CitesNone && len(d.Beliefs) == 0:
		return ErrUncited
	}
	return nil
}

// Dependant is a decision or an action of the past that cites a belief which
// fell since. Nothing that was done is undone by that: somebody has to look.
type Dependant struct {
	Kind  string `json:"kind"` // decision, action
	ID    string `json:"id"`
	Agent string `json:"agent"`
	// Belief is the one that fell, Axes how it stands now, and Why what led to it.
	Belief string    `json:"belief"`
	Axes   Axes      `json:"axes"`
	Why    string    `json:"why"`
	At     time.Time `json:"at"` // ledger time
}

// Fell reports whether a belief that stood at one place and stands at another
// ceased to be something to rest on: it was contradicted, superseded, or
// quarantined in between.
func Fell(from, to Axes) bool {
	down := func(a Axes) bool { return a.Truth >= Contradicted || a.Security >= Quarantined }
	return down(to) && (!down(from) || to.Truth > from.Truth && to.Truth >= Contradicted ||
		to.Security > from.Security && to.Security == Quarantined)
}
