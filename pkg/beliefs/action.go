package beliefs

// Sensitivity is how far a belief may travel.
type Sensitivity uint8

// The values of Sensitivity.
const (
	Internal Sensitivity = iota // the default
	Public
	Confidential
	Secret
)

var sensitivityNames = enum{"sensitivity", []string{"internal", "public", "confidential", "secret"}}

func (s Sensitivity) String() string { return sensitivityNames.name(uint8(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s Sensitivity) MarshalText() ([]byte, error) { return sensitivityNames.marshal(uint8(s)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Sensitivity) UnmarshalText(b []byte) error {
	i, err := sensitivityNames.parse(string(b))
	if err == nil {
		*s = Sensitivity(i)
	}
	return err
}

// Within reports whether s does not exceed a ceiling.
func (s Sensitivity) Within(ceiling Sensitivity) bool { return s.rank() <= ceiling.rank() }

func (s Sensitivity) rank() int {
	switch s {
	case Public:
		return 0
	case Internal:
		return 1
	case Confidential:
		return 2
	}
	return 3
}

// Scope is what a served belief may be used for.
type Scope uint8

// The values of Scope.
const (
	ContextOnly Scope = iota // may inform, must not steer
	PlanningAllowed
	ToolActionAllowed
)

var scopeNames = enum{"scope", []string{"context_only", "planning_allowed", "tool_action_allowed"}}

func (s Scope) String() string { return scopeNames.name(uint8(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s Scope) MarshalText() ([]byte, error) { return scopeNames.marshal(uint8(s)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Scope) UnmarshalText(b []byte) error {
	i, err := scopeNames.parse(string(b))
	if err == nil {
		*s = Scope(i)
	}
	return err
}

// BlastRadius is how far an action reaches.
type BlastRadius uint8

// The values of BlastRadius.
const (
	NoBlast BlastRadius = iota // not stated
	BlastSelf
	BlastSession
	BlastProject
	BlastExternal
)

var blastRadiusNames = enum{"blast radius", []string{"", "self", "session", "project", "external"}}

func (r BlastRadius) String() string { return blastRadiusNames.name(uint8(r)) }

// MarshalText implements encoding.TextMarshaler.
func (r BlastRadius) MarshalText() ([]byte, error) { return blastRadiusNames.marshal(uint8(r)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *BlastRadius) UnmarshalText(b []byte) error {
	i, err := blastRadiusNames.parse(string(b))
	if err == nil {
		*r = BlastRadius(i)
	}
	return err
}

// Reversibility is whether an action can be undone.
type Reversibility uint8

// The values of Reversibility.
const (
	NoReversibility Reversibility = iota // not stated
	Reversible
	Compensable // can be made good, not undone
	Irreversible
)

var reversibilityNames = enum{"reversibility", []string{"", "reversible", "compensable", "irreversible"}}

func (r Reversibility) String() string { return reversibilityNames.name(uint8(r)) }

// MarshalText implements encoding.TextMarshaler.
func (r Reversibility) MarshalText() ([]byte, error) { return reversibilityNames.marshal(uint8(r)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Reversibility) UnmarshalText(b []byte) error {
	i, err := reversibilityNames.parse(string(b))
	if err == nil {
		*r = Reversibility(i)
	}
	return err
}

// Level is a step of the trust ladder.
type Level uint8

// The values of Level.
const (
	L0 Level = iota // observe
	L1              // suggest, read
	L2              // isolated
	L3              // local and reversible
	L4              // external or shared: held until a person approves
	L5              // prohibited
)

var levelNames = enum{"level", []string{"L0", "L1", "L2", "L3", "L4", "L5"}}

func (l Level) String() string { return levelNames.name(uint8(l)) }

// MarshalText implements encoding.TextMarshaler.
func (l Level) MarshalText() ([]byte, error) { return levelNames.marshal(uint8(l)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Level) UnmarshalText(b []byte) error {
	i, err := levelNames.parse(string(b))
	if err == nil {
		*l = Level(i)
	}
	return err
}

// Precondition is something that held when an action was proposed and must
// still hold when it is released.
type Precondition struct {
	What   string `json:"what"`   // a resource
	Digest string `json:"digest"` // its content as the proposer saw it
}

// Contract is what an action declares about itself. A contract can ask for
// more than its tool's floor, never for less.
type Contract struct {
	Level         Level          `json:"level"`
	Blast         BlastRadius    `json:"blast_radius,omitzero"`
	Reversibility Reversibility  `json:"reversibility,omitzero"`
	Sensitivity   Sensitivity    `json:"sensitivity,omitzero"`
	Preconditions []Precondition `json:"preconditions,omitzero"`
}

// Action is what an agent wants to do, as far as beliefs and levels go.
type Action struct {
	Tool string `json:"tool"`
	Contract
	// Decision is the id of the decision that it carries out; what that cites,
	// the action rests on.
	Decision   string   `json:"decision,omitzero"`
	Confidence *float64 `json:"confidence,omitzero"` // the agent's own, 0 to 1
	Effects    []string `json:"effects,omitzero"`    // read, write, egress, …, by the policy
}

// Outcome is what came of an action, as its executor says.
type Outcome struct {
	Action string `json:"action,omitzero"` // id
	Status string `json:"status,omitzero"` // ok, error, skipped; answer; cancelled
	Digest string `json:"digest,omitzero"` // of the action, as it was carried out
}

// The statuses of an outcome.
const (
	OutcomeOK    = "ok"
	OutcomeError = "error"
)

// Ran reports whether the action was carried out, with or without success.
func (o *Outcome) Ran() bool { return o.Status == OutcomeOK || o.Status == OutcomeError }
