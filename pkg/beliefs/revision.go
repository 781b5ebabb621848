package beliefs

import "time"

// Move is a change that was made on one axis.
type Move struct {
	Axis      Axis   `json:"axis"`
	From      string `json:"from"`
	To        string `json:"to"`
	Successor string `json:"successor,omitzero"` // id of the belief that replaced it
}

// Revision is a change of one belief. It has the moves, the authority that made them, the authority's name, and the
// evidence. A revision may also have no moves, and only add evidence or set a flag.
type Revision struct {
	Belief string    `json:"belief"`
	Moves  []Move    `json:"moves,omitzero"`
	By     Authority `json:"by"`
	// Who is the name of the authority: a key, a rule, a policy, or the part of the program
	// that acts when time passes.
	Who string `json:"who,omitzero"`
	Why string `json:"why,omitzero"`
	// Evidence is the evidence that the revision adds to the evidence that the belief has already.
	Evidence EvidenceSet `json:"evidence,omitzero"`
	// Scope is the belief's new scope, if the revision widens the scope.
	Scope Scope `json:"scope,omitzero"`
	// Other is another belief because of which this one changes: it contradicts this belief, it replaced it, or this
	// belief depended on it.
	Other string `json:"other,omitzero"`
	// Restored is set if the revision is part of a rollback. It has the restored state, apart from the axes.
	Restored *AsItWas `json:"restored,omitzero"`
	// Anew is set by a rollback that cannot restore a superseded belief, because superseding is final. The rollback
	// then makes a new belief, this one, as a copy. Anew is the id of the superseded original.
	Anew string    `json:"anew,omitzero"`
	At   time.Time `json:"at"` // ledger time
}

// With returns the axes after a move. It does not check again whether the move is allowed.
func (a Axes) With(m Move) (Axes, error) {
	to, err := m.Axis.values().parse(m.To)
	if err != nil {
		return a, err
	}
	a.set(m.Axis, to)
	return a, nil
}
