package beliefs

import "time"

// Move is a change that was made on one axis.
type Move struct {
	Axis      Axis   `json:"axis"`
	From      string `json:"from"`
	To        string `json:"to"`
	Successor string `json:"successor,omitzero"` // of a superseded belief
}

// Revision is a change of one belief: its moves, the authority and its name, and the evidence.
// A revision may have no moves and only add evidence or set a flag.
type Revision struct {
	Belief string    `json:"belief"`
	Moves  []Move    `json:"moves,omitzero"`
	By     Authority `json:"by"`
	// Who is the name of the authority: a key, a rule, a policy, or the part of the program
	// that acts when time passes.
	Who string `json:"who,omitzero"`
	Why string `json:"why,omitzero"`
	// Evidence is the evidence that the revision adds to the belief's own.
	Evidence EvidenceSet `json:"evidence,omitzero"`
	// Scope is what it may be used for from now on, where that is more.
	Scope Scope `json:"scope,omitzero"`
	// Other is the belief on the other side: what contradicts it, took its
	// place, or is what it rested on.
	Other string `json:"other,omitzero"`
	// Restored is set where a rollback put it back: what else of it is as it was.
	Restored *AsItWas `json:"restored,omitzero"`
	// Anew is the belief that a rollback states this one anew in the place of,
	// because a newer one had taken that one's place, which is final.
	Anew string    `json:"anew,omitzero"`
	At   time.Time `json:"at"` // ledger time
}

// With returns the axes after a move that was checked when it was made.
func (a Axes) With(m Move) (Axes, error) {
	to, err := m.Axis.values().parse(m.To)
	if err != nil {
		return a, err
	}
	a.set(m.Axis, to)
	return a, nil
}
