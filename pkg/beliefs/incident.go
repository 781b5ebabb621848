package beliefs

import (
	"fmt"
	"slices"
	"time"
)

// Severity says how severe a finding or an incident is. The sentinels' alerts use the same scale.
type Severity uint8

// The values of Severity, lowest first.
const (
	Info Severity = iota
	Low
	Medium
	High
	Critical
)

var severityNames = enum{"severity", []string{"info", "low", "medium", "high", "critical"}}

func (s Severity) String() string { return severityNames.name(uint8(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return severityNames.marshal(uint8(s)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Severity) UnmarshalText(b []byte) error { return unmarshal(severityNames, b, s) }

// ParseSeverity parses the name of a severity.
func ParseSeverity(name string) (s Severity, err error) { return s, s.UnmarshalText([]byte(name)) }

// IncidentState is the state of an incident.
type IncidentState uint8

// The values of IncidentState.
const (
	IncidentOpen        IncidentState = iota // somebody must look at it
	IncidentQuarantined                      // affected beliefs are quarantined
	IncidentRepaired                         // beliefs with independent support are back in service
	IncidentClosed                           // final; a later finding opens another incident
)

var incidentStateNames = enum{"incident state", []string{"open", "quarantined", "repaired", "closed"}}

func (s IncidentState) String() string { return incidentStateNames.name(uint8(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s IncidentState) MarshalText() ([]byte, error) { return incidentStateNames.marshal(uint8(s)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *IncidentState) UnmarshalText(b []byte) error { return unmarshal(incidentStateNames, b, s) }

// IncidentEvent is something that happens to an incident, such as its closing. Each event is an entry in the ledger.
type IncidentEvent string

// The events of an incident.
const (
	IncidentOpened   IncidentEvent = "opened"
	IncidentEvidence IncidentEvent = "evidence"   // another finding was added
	IncidentContain  IncidentEvent = "quarantine" // beliefs were quarantined
	IncidentRepair   IncidentEvent = "repair"     // beliefs with independent support were restored
	IncidentClose    IncidentEvent = "close"
)

// incidentMoves says for each event in which states of an incident it is possible, and which state follows. In any
// other state, the event is an error.
var incidentMoves = map[IncidentEvent]struct {
	from []IncidentState
	to   IncidentState
}{
	IncidentContain: {[]IncidentState{IncidentOpen, IncidentQuarantined, IncidentRepaired}, IncidentQuarantined},
	IncidentRepair:  {[]IncidentState{IncidentQuarantined, IncidentRepaired}, IncidentRepaired},
	// An open incident can be closed without a quarantine, for example after a false alarm.
	IncidentClose: {[]IncidentState{IncidentOpen, IncidentQuarantined, IncidentRepaired}, IncidentClosed},
}

// IncidentError reports an event that is not possible in the incident's state.
type IncidentError struct {
	Incident string
	State    IncidentState
	Event    IncidentEvent
}

func (e *IncidentError) Error() string {
	switch {
	case e.State == IncidentClosed:
		return fmt.Sprintf("incident %s is closed: open another one", e.Incident)
	case e.Event == IncidentRepair:
		return fmt.Sprintf("incident %s is %s: first quarantine the beliefs that it touched", e.Incident, e.State)
	}
	return fmt.Sprintf("incident %s is %s: the event %q is not possible in this state", e.Incident, e.State, e.Event)
}

// Limits of an incident's record. Evidence beyond the limit is only counted in the record. The ledger has all evidence.
const (
	MaxIncidentEvidence = 32  // the record lists the first ones
	MaxIncidentTitle    = 200 // bytes
	MaxIncidentReport   = 500 // bytes
)

// IncidentFinding is one piece of an incident's evidence.
type IncidentFinding struct {
	// Kind is alert, or the kind of thing that a person or a service reports: belief, session,
	// source, agent, action, observation, probe, note.
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Rule string `json:"rule,omitzero"` // the rule of an alert
	Text string `json:"text,omitzero"`
	// Entry is the ledger sequence of the entry with the alert, if Kind is alert.
	Entry uint64    `json:"entry,omitzero"`
	At    time.Time `json:"at,omitzero"` // ledger time
}

// FindingAlert is the kind of a finding that comes from an alert of a sentinel or the arbiter. Only ingest makes such
// findings. A signed order must not contain one.
const FindingAlert = "alert"

// IncidentScope says which beliefs an incident concerns. It selects beliefs that match every field that is set.
type IncidentScope struct {
	Beliefs []string  `json:"beliefs,omitzero"`
	Agent   string    `json:"agent,omitzero"`
	Session string    `json:"session,omitzero"`
	Source  string    `json:"source,omitzero"`
	Tool    string    `json:"tool,omitzero"`
	Since   time.Time `json:"since,omitzero"` // earliest ledger time at which a selected belief was recorded
	Until   time.Time `json:"until,omitzero"` // first ledger time that is too late
	// If Descendants is set, beliefs that derive from the selected ones are quarantined too, except those that have
	// support of their own. If All is set, all beliefs that derive from the selected ones are quarantined, even those
	// with support of their own.
	Descendants bool `json:"descendants,omitzero"`
	All         bool `json:"all,omitzero"`
}

// Empty reports whether a scope selects nothing.
func (s *IncidentScope) Empty() bool {
	return s == nil || len(s.Beliefs) == 0 && s.Agent+s.Session+s.Source+s.Tool == "" && s.Since.IsZero()
}

// IncidentReport counts the effects of an incident on beliefs.
type IncidentReport struct {
	// Found counts the beliefs that the scope selects, and Descendants those that derive from them.
	Found       int `json:"found"`
	Descendants int `json:"descendants"`
	// Quarantined counts the beliefs that were quarantined. Served counts those quarantined beliefs that had been
	// served in recalls for planning before.
	Quarantined int `json:"quarantined"`
	Served      int `json:"served"`
	// Spared counts matching beliefs and descendants that the quarantine left as they were. A spared belief has other
	// evidence of a class that may support a belief: evidence that comes neither from selected beliefs nor from their
	// descendants.
	Spared int `json:"spared"`
	// Recovered counts descendants that were quarantined or marked as suspicious, and that the repair lets be served
	// again because they now have such other evidence.
	Recovered int `json:"recovered"`
	// Collateral counts descendants that the quarantine withheld or made stale, and that had been served in recalls for
	// planning before. Nobody had reported these beliefs themselves as wrong.
	Collateral int `json:"collateral"`
}

// Incident is the record of an incident: its evidence, and how many beliefs were quarantined
// and recovered. A finding, a person or a service opens an incident. A person closes it.
type Incident struct {
	ID       string        `json:"id"`
	State    IncidentState `json:"state"`
	Severity Severity      `json:"severity"`
	Title    string        `json:"title"`
	// Key is the same for findings that belong together. While the incident is open, a finding with the same key does
	// not open another incident, but is added to this one as evidence.
	Key string `json:"key,omitzero"`
	// By is the authority that opened the incident: sentinel for a finding, probe for a
	// service, user for a person.
	By     Authority `json:"by"`
	Who    string    `json:"who"`    // name of the rule or key that opened it
	Opened time.Time `json:"opened"` // ledger time
	// Evidence has the first findings, up to a limit. Findings is the number of all findings.
	Evidence []IncidentFinding `json:"evidence,omitzero"`
	Findings uint64            `json:"findings"`
	Report   IncidentReport    `json:"report,omitzero"`
	// Closed, Closer and Outcome are set once the incident is closed: the time, the name of the
	// signing key, and the signer's text.
	Closed  time.Time `json:"closed,omitzero"`
	Closer  string    `json:"closer,omitzero"`
	Outcome string    `json:"outcome,omitzero"`
}

// With returns the incident with one more finding. It returns an error if the incident is closed.
func (i Incident) With(f IncidentFinding) (Incident, error) {
	if i.State == IncidentClosed {
		return i, &IncidentError{i.ID, i.State, IncidentEvidence}
	}
	i.Findings++
	if len(i.Evidence) < MaxIncidentEvidence {
		i.Evidence = append(slices.Clip(i.Evidence), f)
	}
	return i, nil
}

// After returns the incident after event e. If e is not possible in the incident's state, After returns an
// *IncidentError.
func (i Incident) After(e IncidentEvent) (Incident, error) {
	m, ok := incidentMoves[e]
	if !ok || !slices.Contains(m.from, i.State) {
		return i, &IncidentError{i.ID, i.State, e}
	}
	i.State = m.to
	return i, nil
}
