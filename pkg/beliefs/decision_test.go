package beliefs

import (
	"errors"
	"testing"
)

func TestADecisionCitesBeliefsOrSaysThatItCitesNone(t *testing.T) {
	for _, c := range []struct {
		d   Decision
		err error
		ok  bool
	}{
		{Decision{Beliefs: []string{"b1"}}, nil, true},
		{Decision{CitesNone: true}, nil, true},
		{Decision{}, ErrUncited, false},
		{Decision{Summary: "go on"}, ErrUncited, false},
		{Decision{Beliefs: []string{"b1"}, CitesNone: true}, nil, false},
	} {
		if err := c.d.Check(); (err == nil) != c.ok || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%+v: %v", c.d, err)
		}
	}
}

// TestABeliefFallsOnceInEachRespect tries every pair of states.
func TestABeliefFallsOnceInEachRespect(t *testing.T) {
	for from := range 16 {
		for to := range 16 {
			a, b := Axes{Truth: Truth(from / 4), Security: Security(from % 4)}, Axes{Truth: Truth(to / 4),
				Security: Security(to % 4)}
			fell := Fell(a, b)
			if a == b && fell || b.Truth < Contradicted && b.Security < Quarantined && fell {
				t.Errorf("the change from %+v to %+v counts as making the belief unreliable", a, b)
			}
			if a.Truth < Contradicted && a.Security < Quarantined && (b.Truth >= Contradicted || b.Security >= Quarantined) &&
				!fell {
				t.Errorf("the change from %+v to %+v does not count as making the belief unreliable", a, b)
			}
		}
	}
}
