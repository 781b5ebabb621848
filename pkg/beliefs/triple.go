package beliefs

import "fmt"

// Triple is a statement in three parts. The writer supplies it; Lazaret does not extract triples
// from sentences.
type Triple struct {
	Subject   string `json:"subject"`
	Predicate string `json:"predicate"`
	Object    string `json:"object"`
	// Many is set if a subject may have several objects for this predicate at once. A different object is then not a
	// contradiction.
	Many bool `json:"many,omitzero"`
}

// Limits of triples.
const (
	MaxTriples    = 32
	MaxTriplePart = 512 // bytes
)

// Check returns an error if a part of the triple is missing or too long.
func (t Triple) Check() error {
	for _, p := range [...][2]string{{"subject", t.Subject}, {"predicate", t.Predicate}, {"object", t.Object}} {
		if p[1] == "" || len(p[1]) > MaxTriplePart {
			return fmt.Errorf("the %s of a triple has %d bytes, want 1 to %d", p[0], len(p[1]), MaxTriplePart)
		}
	}
	return nil
}
