package beliefs

// Grade is what lets an unverified belief be used for planning, though nobody
// vouches for it. It is decided once, when the belief is made, and never makes it
// supported. Nothing foreign has a grade except for what systems of record return.
type Grade uint8

// The values of Grade.
const (
	NoGrade Grade = iota
	// Own is an agent's note from a session that held nothing foreign.
	Own
	// Derived is an agent's note whose words are all the user's of that session,
	// and none foreign.
	Derived
	// Record is content of a tool that the policy names a system of record: fact,
	// never instruction.
	Record
)

var gradeNames = enum{"grade", []string{"", "own", "derived", "record"}}

func (g Grade) String() string { return gradeNames.name(uint8(g)) }

// MarshalText implements encoding.TextMarshaler.
func (g Grade) MarshalText() ([]byte, error) { return gradeNames.marshal(uint8(g)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *Grade) UnmarshalText(b []byte) error {
	i, err := gradeNames.parse(string(b))
	if err == nil {
		*g = Grade(i)
	}
	return err
}

// plannable reports whether the grade lets a candidate be planned with: it is
// unverified, restricted, clean and fresh as when it was made. Decisions need more.
func (c *Candidate) plannable(purpose string) bool {
	if c.Grade == NoGrade || purpose == "decision" {
		return false
	}
	return c.Axes.Truth == Unverified && (c.Axes.Retrieval == Restricted || c.Axes.Retrieval == Normal) &&
		c.Axes.Security == Clean && c.Axes.Freshness == Fresh
}
