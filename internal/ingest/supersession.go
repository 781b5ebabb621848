package ingest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
)

// Supersession is a proposal to a person, computed from beliefs: if two supported beliefs state different objects for
// one subject and predicate, one may be out of date. The proposal takes effect only when a person signs it.
type Supersession struct {
	Belief    string `json:"belief"` // the belief to be superseded
	Says      string `json:"says"`
	Successor string `json:"successor"`
	Instead   string `json:"instead"`
	Subject   string `json:"subject"`
	Predicate string `json:"predicate"`
	Namespace string `json:"namespace,omitzero"`
	// Because is the reason why Belief, and not Successor, is out of date: class, sources or later.
	Because string `json:"because"`
}

// Values of Supersession.Because.
const (
	BecauseClass   = "class"   // the successor has evidence of a stronger class
	BecauseSources = "sources" // the successor has more sources of the same class
	BecauseLater   = "later"   // the successor was confirmed later, and the evidence is equal
)

// Reflect returns the supersessions for the beliefs of a project. It compares beliefs that are supported, clean and not
// superseded, in the same scope, with different objects for a subject and a predicate that has a single object. It
// changes nothing. The result does not depend on the order of items.
func Reflect(items []Belief) []Supersession {
	type statement struct {
		b      *Belief
		object string
		t      beliefs.Triple
	}
	by := make(map[string][]statement)
	for i := range items {
		b := &items[i]
		if !b.Memory || b.Axes.Truth != beliefs.Supported || b.Axes.Security != beliefs.Clean {
			continue
		}
		for _, t := range b.Triples {
			if t.Many {
				continue
			}
			key := b.Namespace.String() + "\x00" + text.Normalize(t.Subject) + "\x00" + text.Normalize(t.Predicate)
			by[key] = append(by[key], statement{b, text.Normalize(t.Object), t})
		}
	}
	out := []Supersession{}
	for _, all := range by {
		// Propose the best statement as the successor of each statement with a different object.
		slices.SortFunc(all, func(x, y statement) int { return better(x.b, y.b) })
		best := all[0]
		for _, s := range all[1:] {
			if s.object == best.object || s.b.ID == best.b.ID {
				continue
			}
			out = append(out, Supersession{Belief: s.b.ID, Says: s.t.Object, Successor: best.b.ID, Instead: best.t.Object,
				Subject: s.t.Subject, Predicate: s.t.Predicate,
				Namespace: s.b.Namespace.String(), Because: because(best.b, s.b)})
		}
	}
	slices.SortFunc(out, func(a, b Supersession) int {
		return cmp.Or(strings.Compare(a.Belief, b.Belief), strings.Compare(a.Predicate, b.Predicate),
			strings.Compare(a.Successor, b.Successor))
	})
	return out
}

// better compares two beliefs for sorting: the one with the stronger evidence comes first.
func better(x, y *Belief) int {
	_, nx := support(x.Evidence)
	_, ny := support(y.Evidence)
	switch {
	case x.Quality.Stronger(y.Quality):
		return -1
	case y.Quality.Stronger(x.Quality):
		return 1
	}
	return cmp.Or(cmp.Compare(ny, nx), y.At.Compare(x.At), strings.Compare(x.ID, y.ID))
}

func because(best, other *Belief) string {
	_, n := support(best.Evidence)
	_, m := support(other.Evidence)
	switch {
	case best.Quality.Stronger(other.Quality):
		return BecauseClass
	case n > m:
		return BecauseSources
	}
	return BecauseLater
}

// String returns the proposal on one line.
func (s Supersession) String() string {
	return fmt.Sprintf("%s %s: %q (%s) instead of %q (%s), %s", s.Subject, s.Predicate, s.Instead, s.Successor, s.Says,
		s.Belief, s.Because)
}
