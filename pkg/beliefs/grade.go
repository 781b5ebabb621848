package beliefs

// Grade allows an unverified belief to be used for planning. It is set once, when the belief is made, and never makes
// the belief supported. External content has no grade, unless it is the result of a system of record.
type Grade uint8

// The values of Grade.
const (
	NoGrade Grade = iota
	// Own is an agent's note from a session without external content.
	Own
	// Derived is an agent's note whose words all come from the user's words in that session, and none of whose words
	// come from external content.
	Derived
	// Record is the content of a tool that the policy names a system of record. Such content is used as a fact, never
	// as an instruction.
	Record
)

var gradeNames = enum{"grade", []string{"", "own", "derived", "record"}}

func (g Grade) String() string { return gradeNames.name(uint8(g)) }

// MarshalText implements encoding.TextMarshaler.
func (g Grade) MarshalText() ([]byte, error) { return gradeNames.marshal(uint8(g)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *Grade) UnmarshalText(b []byte) error { return unmarshal(gradeNames, b, g) }

// plannable reports whether the grade allows planning with a candidate. The candidate must be unverified, clean and
// fresh, and neither hidden nor blocked. For purpose decision, grades have no effect.
func (c *Candidate) plannable(purpose string) bool {
	if c.Grade == NoGrade || purpose == PurposeDecision {
		return false
	}
	return c.Axes.Truth == Unverified && (c.Axes.Retrieval == Restricted || c.Axes.Retrieval == Normal) &&
		c.Axes.Security == Clean && c.Axes.Freshness == Fresh
}
