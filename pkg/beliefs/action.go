package beliefs

// Sensitivity is how confidential data is. Only callers that may see this sensitivity are served
// the data.
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
func (s *Sensitivity) UnmarshalText(b []byte) error { return unmarshal(sensitivityNames, b, s) }

// Within reports whether sensitivity s is at most ceiling, so that a caller with this ceiling may see the data.
func (s Sensitivity) Within(ceiling Sensitivity) bool { return s.rank() <= ceiling.rank() }

// Join returns the higher one of the sensitivities s and t.
func (s Sensitivity) Join(t Sensitivity) Sensitivity {
	if s.Within(t) {
		return t
	}
	return s
}

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

// Scope says for what a served belief may be used.
type Scope uint8

// The values of Scope.
const (
	ContextOnly Scope = iota // may inform, must not cause actions
	PlanningAllowed
	ToolActionAllowed
)

var scopeNames = enum{"scope", []string{"context_only", "planning_allowed", "tool_action_allowed"}}

func (s Scope) String() string { return scopeNames.name(uint8(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s Scope) MarshalText() ([]byte, error) { return scopeNames.marshal(uint8(s)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Scope) UnmarshalText(b []byte) error { return unmarshal(scopeNames, b, s) }

// BlastRadius says how far the effects of an action reach.
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
func (r *BlastRadius) UnmarshalText(b []byte) error { return unmarshal(blastRadiusNames, b, r) }

// Reversibility says whether an action can be undone.
type Reversibility uint8

// The values of Reversibility.
const (
	NoReversibility Reversibility = iota // not stated
	Reversible
	Compensable // can be compensated, but not undone
	Irreversible
)

var reversibilityNames = enum{"reversibility", []string{"", "reversible", "compensable", "irreversible"}}

func (r Reversibility) String() string { return reversibilityNames.name(uint8(r)) }

// MarshalText implements encoding.TextMarshaler.
func (r Reversibility) MarshalText() ([]byte, error) { return reversibilityNames.marshal(uint8(r)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Reversibility) UnmarshalText(b []byte) error { return unmarshal(reversibilityNames, b, r) }

// Level is a level of the trust ladder, L0 to L5. It says how much an action can change.
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
func (l *Level) UnmarshalText(b []byte) error { return unmarshal(levelNames, b, l) }

// Precondition is a condition for the release of an action: a resource must have the same content as when the action
// was proposed.
type Precondition struct {
	What   string `json:"what"`   // a resource
	Digest string `json:"digest"` // digest of the resource's content when the action was proposed
}

// Contract is what the proposer of an action declares about it. It can raise the level that the policy gives the tool,
// but never lower it.
type Contract struct {
	Level         Level          `json:"level"`
	Blast         BlastRadius    `json:"blast_radius,omitzero"`
	Reversibility Reversibility  `json:"reversibility,omitzero"`
	Sensitivity   Sensitivity    `json:"sensitivity,omitzero"`
	Preconditions []Precondition `json:"preconditions,omitzero"`
}

// Action is a proposed action.
type Action struct {
	Tool string `json:"tool"`
	Contract
	// Decision is the id of the decision that the action carries out. The action depends on the
	// beliefs that the decision cites.
	Decision   string   `json:"decision,omitzero"`
	Confidence *float64 `json:"confidence,omitzero"` // the agent's confidence, 0 to 1
	Effects    []string `json:"effects,omitzero"`    // read, write, egress, …, according to the policy
}

// Outcome is the result of an action, as its executor reports it.
type Outcome struct {
	Action string `json:"action,omitzero"` // id of the action
	Status string `json:"status,omitzero"` // ok, error, skipped, answer, cancelled
	Digest string `json:"digest,omitzero"` // digest of the executed action
}

// The statuses of an outcome.
const (
	OutcomeOK        = "ok"
	OutcomeError     = "error"
	OutcomeSkipped   = "skipped"   // the action was not executed
	OutcomeAnswer    = "answer"    // the agent's answer, not an action
	OutcomeCancelled = "cancelled" // the agent withdrew a held proposal
)

// OutcomeStatuses lists the statuses that an outcome may have.
var OutcomeStatuses = []string{OutcomeOK, OutcomeError, OutcomeSkipped, OutcomeAnswer, OutcomeCancelled}

// Ran reports whether the action was executed, successfully or not. Old ledgers have outcomes with statuses that are
// not in OutcomeStatuses. An action with such an outcome counts as executed, so that an unknown status does not hide an
// execution.
func (o *Outcome) Ran() bool {
	switch o.Status {
	case OutcomeSkipped, OutcomeAnswer, OutcomeCancelled:
		return false
	}
	return true
}
