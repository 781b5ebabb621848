package beliefs

import (
	"fmt"
	"slices"
	"strings"
)

// Axis names one of the four axes.
type Axis uint8

// The axes.
const (
	AxisTruth Axis = iota
	AxisRetrieval
	AxisSecurity
	AxisFreshness
)

var axisNames = enum{"axis", []string{"truth", "retrieval", "security", "freshness"}}

func (a Axis) String() string { return axisNames.name(uint8(a)) }

// MarshalText implements encoding.TextMarshaler.
func (a Axis) MarshalText() ([]byte, error) { return axisNames.marshal(uint8(a)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Axis) UnmarshalText(b []byte) error { return unmarshal(axisNames, b, a) }

func (a Axis) values() enum {
	switch a {
	case AxisTruth:
		return truthNames
	case AxisRetrieval:
		return retrievalNames
	case AxisSecurity:
		return securityNames
	}
	return freshnessNames
}

// Authority is the authority in whose name a belief is changed. The package does not verify the authority; callers must
// authenticate it.
type Authority uint8

// The authorities.
const (
	ByUser            Authority = iota // a person, by a signed attestation
	ByPolicy                           // the operator's configuration
	ByProbe                            // a verification run
	BySentinel                         // a sentinel's rule
	ByReflection                       // a deliberate review with confirming evidence
	ByAutoObservation                  // a logged promotion by independent observations
	ByAdmission                        // the arbiter's verdict on a memory write
	BySystem                           // the passing of ledger time
)

var authorityNames = enum{"authority", []string{"user", "policy", "probe", "sentinel", "reflection",
	"auto_observation", "admission", "system"}}

func (a Authority) String() string { return authorityNames.name(uint8(a)) }

// MarshalText implements encoding.TextMarshaler.
func (a Authority) MarshalText() ([]byte, error) { return authorityNames.marshal(uint8(a)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Authority) UnmarshalText(b []byte) error { return unmarshal(authorityNames, b, a) }

// move is one row of a transition table.
type move struct {
	from, to uint8
	by       []Authority
	// gated lists authorities that may make the move only if Quality.MaySupport is true for the class of the belief's
	// strongest supporting evidence.
	gated []Authority
	// supported is set if the move is allowed only while the belief's truth is supported.
	supported bool
	// successor requires the name of a successor.
	successor bool
}

// transitions has every possible move, by axis.
var transitions = [...][]move{
	AxisTruth: {
		{from: uint8(Unverified), to: uint8(Supported), by: []Authority{ByUser, ByProbe}, gated: []Authority{ByReflection,
			ByAutoObservation}},
		{from: uint8(Unverified), to: uint8(Contradicted), by: []Authority{ByUser, ByProbe, BySentinel, ByReflection}},
		{from: uint8(Supported), to: uint8(Contradicted), by: []Authority{ByUser, ByProbe, BySentinel, ByReflection}},
		{from: uint8(Supported), to: uint8(Superseded), by: []Authority{ByUser, ByReflection}, successor: true},
		{from: uint8(Contradicted), to: uint8(Superseded), by: []Authority{ByUser, ByReflection}, successor: true},
		{from: uint8(Contradicted), to: uint8(Supported), by: []Authority{ByUser, ByProbe}},
	},
	AxisRetrieval: {
		{from: uint8(Hidden), to: uint8(Restricted), by: []Authority{ByUser, ByReflection, ByAdmission}},
		{from: uint8(Hidden), to: uint8(Normal), by: []Authority{ByAdmission}, supported: true},
		{from: uint8(Restricted), to: uint8(Normal), by: []Authority{ByUser, ByProbe}},
		{from: uint8(Normal), to: uint8(PrivilegedOnly), by: []Authority{ByUser, ByPolicy}},
		{from: uint8(PrivilegedOnly), to: uint8(Restricted), by: []Authority{ByUser, ByPolicy}},
		{from: uint8(Normal), to: uint8(Restricted), by: []Authority{ByUser, ByPolicy, BySentinel}},
		{from: uint8(Normal), to: uint8(Hidden), by: []Authority{ByUser, ByPolicy, BySentinel}},
		{from: uint8(Restricted), to: uint8(Hidden), by: []Authority{ByUser, ByPolicy, BySentinel}},
		{from: uint8(Hidden), to: uint8(Blocked), by: []Authority{ByUser, ByPolicy, BySentinel}},
		{from: uint8(Restricted), to: uint8(Blocked), by: []Authority{ByUser, ByPolicy, BySentinel}},
		{from: uint8(Normal), to: uint8(Blocked), by: []Authority{ByUser, ByPolicy, BySentinel}},
		{from: uint8(PrivilegedOnly), to: uint8(Blocked), by: []Authority{ByUser, ByPolicy, BySentinel}},
		{from: uint8(Blocked), to: uint8(Hidden), by: []Authority{ByUser}},
	},
	AxisSecurity: {
		{from: uint8(Clean), to: uint8(Suspicious), by: []Authority{BySentinel, ByProbe, ByUser, ByAdmission}},
		{from: uint8(Clean), to: uint8(Quarantined), by: []Authority{BySentinel, ByProbe, ByUser, ByAdmission}},
		{from: uint8(Suspicious), to: uint8(Quarantined), by: []Authority{BySentinel, ByProbe, ByUser, ByAdmission}},
		{from: uint8(Quarantined), to: uint8(Malicious), by: []Authority{BySentinel, ByUser}},
		{from: uint8(Suspicious), to: uint8(Clean), by: []Authority{ByUser}},
		{from: uint8(Quarantined), to: uint8(Clean), by: []Authority{ByUser}},
	},
	AxisFreshness: {
		{from: uint8(Fresh), to: uint8(Stale), by: []Authority{BySystem}},
		{from: uint8(Stale), to: uint8(Expired), by: []Authority{BySystem}},
		{from: uint8(Stale), to: uint8(Fresh), by: []Authority{ByUser, ByProbe, ByAutoObservation}},
		{from: uint8(Expired), to: uint8(Fresh), by: []Authority{ByUser, ByProbe, ByAutoObservation}},
	},
}

// TransitionError reports a move that does not exist, or that the authority may not make.
type TransitionError struct {
	Axis     Axis
	From, To string
	By       Authority
	// Needed are the authorities that may make the move. If there is no such move, Needed is empty.
	Needed []Authority
	// Why says why the move is forbidden although the authority may normally make it: the evidence is of too weak a
	// class, a successor is missing, or the belief is not supported.
	Why string
}

func (e *TransitionError) Error() string {
	s := fmt.Sprintf("%s cannot go from %s to %s by %s", e.Axis, e.From, e.To, e.By)
	switch {
	case e.Why != "":
		return s + ": " + e.Why
	case len(e.Needed) == 0:
		return s + ": there is no such move"
	}
	names := make([]string, len(e.Needed))
	for i, a := range e.Needed {
		names[i] = a.String()
	}
	return s + ": it takes " + strings.Join(names, " or ")
}

// Change is a requested move on one axis.
type Change struct {
	Axis Axis   `json:"axis"`
	To   string `json:"to"`
	// Successor is the id of the belief that replaces this one, if the change supersedes it.
	Successor string `json:"successor,omitzero"`
}

// Check returns an error if an authority may not make a change to a belief with these axes. quality is the class of the
// belief's strongest supporting evidence. For a forbidden move, the error is a *TransitionError. For a value that does
// not exist, it is another error.
func Check(axes Axes, quality Quality, c Change, by Authority) error {
	if c.Axis > AxisFreshness {
		return fmt.Errorf("%v does not exist", c.Axis)
	}
	to, err := c.Axis.values().parse(c.To)
	if err != nil {
		return err
	}
	from := axes.get(c.Axis)
	refuse := func(needed []Authority, why string) error {
		return &TransitionError{Axis: c.Axis, From: c.Axis.values().name(from), To: c.To, By: by, Needed: needed, Why: why}
	}
	for _, m := range transitions[c.Axis] {
		if m.from != from || m.to != to {
			continue
		}
		gated := slices.Contains(m.gated, by)
		if !gated && !slices.Contains(m.by, by) {
			return refuse(append(slices.Clone(m.by), m.gated...), "")
		}
		if gated && !quality.MaySupport() {
			return refuse(m.by, fmt.Sprintf("its strongest support is %s, which can never support a belief by itself",
				orNone(quality)))
		}
		if m.supported && axes.Truth != Supported {
			return refuse(m.by, "only a supported belief may")
		}
		if m.successor && c.Successor == "" {
			return refuse(m.by, "a successor has to be named")
		}
		return nil
	}
	return refuse(nil, "")
}

func orNone(q Quality) string {
	if q == NoQuality {
		return "none"
	}
	return q.String()
}

// Apply returns the axes after a change, or the error of Check. Only the axis that the change names is changed.
func Apply(axes Axes, quality Quality, c Change, by Authority) (Axes, error) {
	if err := Check(axes, quality, c, by); err != nil {
		return axes, err
	}
	to, err := c.Axis.values().parse(c.To)
	if err != nil {
		return axes, err
	}
	axes.set(c.Axis, to)
	return axes, nil
}

func (a Axes) get(x Axis) uint8 {
	switch x {
	case AxisTruth:
		return uint8(a.Truth)
	case AxisRetrieval:
		return uint8(a.Retrieval)
	case AxisSecurity:
		return uint8(a.Security)
	}
	return uint8(a.Freshness)
}

func (a *Axes) set(x Axis, v uint8) {
	switch x {
	case AxisTruth:
		a.Truth = Truth(v)
	case AxisRetrieval:
		a.Retrieval = Retrieval(v)
	case AxisSecurity:
		a.Security = Security(v)
	case AxisFreshness:
		a.Freshness = Freshness(v)
	}
}

// Restrict makes a belief less available, by the authority of a sentinel and as far as the tables allow. The effect
// restrict leaves the belief as context, and the effect quarantine takes it out of service. Restrict never makes a
// belief more available. If the belief is already at least as strict as the effect, it does not change.
func Restrict(axes Axes, quality Quality, effect string) Axes {
	try := func(x Axis, to string) {
		if next, err := Apply(axes, quality, Change{Axis: x, To: to}, BySentinel); err == nil {
			axes = next
		}
	}
	switch effect {
	case "restrict", "hold":
		if axes.Security == Clean {
			try(AxisSecurity, "suspicious")
		}
		if axes.Retrieval == Normal {
			try(AxisRetrieval, "restricted")
		}
	case "quarantine", "deny":
		if axes.Security < Quarantined {
			try(AxisSecurity, "quarantined")
		}
		if axes.Retrieval != Blocked && axes.Retrieval != Hidden {
			try(AxisRetrieval, "hidden")
		}
		if axes.Retrieval != Blocked && axes.Retrieval != Hidden {
			try(AxisRetrieval, "blocked")
		}
	}
	return axes
}
