package beliefs

import (
	"sort"
	"time"
)

// Relation says whether a piece of evidence supports or contradicts a claim.
type Relation uint8

// The relations.
const (
	Supports Relation = iota
	Contradicts
	Contextualizes // relevant, but neither for nor against
)

var relationNames = enum{"relation", []string{"supports", "contradicts", "contextualizes"}}

func (r Relation) String() string { return relationNames.name(uint8(r)) }

// MarshalText implements encoding.TextMarshaler.
func (r Relation) MarshalText() ([]byte, error) { return relationNames.marshal(uint8(r)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Relation) UnmarshalText(b []byte) error { return unmarshal(relationNames, b, r) }

// Evidence is one piece of evidence.
type Evidence struct {
	Observation string    `json:"observation"`
	Relation    Relation  `json:"relation"`
	Quality     Quality   `json:"quality"`
	Source      string    `json:"source"` // identity of the source; several pieces of evidence from one source count once
	Freshness   Freshness `json:"freshness"`
	At          time.Time `json:"at"`
}

// EvidenceSet is all evidence that relates to one claim. The results of its methods do not depend on the order of the
// evidence.
type EvidenceSet []Evidence

// MaxConfidence and MinConfidence are the limits of every confidence. No belief is certain, so the confidence is never
// 1. No recorded belief has confidence 0.
const (
	MaxConfidence = 0.95
	MinConfidence = 0.10
	// AdoptStrength is the minimum strength of the evidence that makes a new belief supported. Besides,
	// Quality.MaySupport must be true for the class of that evidence.
	AdoptStrength = 0.7
)

// Strongest returns the strongest class among the evidence with the given relation.
func (s EvidenceSet) Strongest(r Relation) Quality {
	var q Quality
	for _, e := range s {
		if e.Relation == r && e.Quality.Stronger(q) {
			q = e.Quality
		}
	}
	return q
}

// Strength returns the strength of the supporting evidence, from 0 to MaxConfidence. The weight of a piece of evidence
// is the weight of its quality times that of its freshness (1 fresh, 0.6 stale, 0.5 expired). Each source counts once,
// with its best evidence. The strength is the noisy-or of these weights: 1 minus the product of all (1 - weight).
// Strength is used for ranking and display. A high strength alone never makes a belief supported.
func (s EvidenceSet) Strength() float64 { return s.strength(Supports) }

func (s EvidenceSet) strength(r Relation) float64 {
	best := make(map[string]float64)
	for _, e := range s {
		if e.Relation == r {
			best[e.Source] = max(best[e.Source], e.Quality.Weight()*freshnessWeight(e.Freshness))
		}
	}
	// Sum in a fixed order, because floating-point addition is not associative. So the sum is the same on every
	// machine.
	ws := make([]float64, 0, len(best))
	for _, w := range best {
		ws = append(ws, w)
	}
	sort.Float64s(ws)
	none := 1.0
	for _, w := range ws {
		none *= 1 - w
	}
	return min(1-none, MaxConfidence)
}

func freshnessWeight(f Freshness) float64 {
	switch f {
	case Fresh:
		return 1
	case Stale:
		return 0.6
	}
	return 0.5
}

// Net is the result of weighing support against contradiction. The strongest class that has evidence decides, and
// weaker classes cannot outvote it. Within that class, support and contradiction are compared by strength, and the
// stronger one decides. If both are equally strong, the result is NetTied, which does not count as positive.
type Net uint8

// The outcomes of Net.
const (
	NoEvidence Net = iota
	NetPositive
	NetNegative
	NetTied
)

// Net weighs the supporting evidence against the contradicting evidence, as type Net describes.
func (s EvidenceSet) Net() Net {
	sup, con := s.Strongest(Supports), s.Strongest(Contradicts)
	switch {
	case sup.rank() > int(SyntheticProbe) && con.rank() > int(SyntheticProbe):
		return NoEvidence
	case sup.Stronger(con):
		return NetPositive
	case con.Stronger(sup):
		return NetNegative
	}
	var class EvidenceSet
	for _, e := range s {
		if e.Quality == sup {
			class = append(class, e)
		}
	}
	switch p, n := class.strength(Supports), class.strength(Contradicts); {
	case p > n:
		return NetPositive
	case n > p:
		return NetNegative
	}
	return NetTied
}

// Adoption is the initial state of a new belief.
type Adoption struct {
	Adopted    bool // Net is NetPositive
	Axes       Axes
	Quality    Quality
	Confidence float64
	Scope      Scope
	// Staged is set if the belief may be read only as context until a person confirms it or independent evidence
	// supports it. Procedure is set if the belief is hidden until a person signs it.
	Staged    bool `json:",omitzero"`
	Procedure bool `json:",omitzero"`
}

// Adopt returns the initial state of a belief with this evidence. The belief is supported if three conditions hold: Net
// is NetPositive; Quality.MaySupport is true for the strongest class of its supporting evidence; and the support of
// that class alone has at least the strength AdoptStrength. Otherwise the belief is unverified and restricted to
// context.
func (s EvidenceSet) Adopt() Adoption {
	a := Adoption{Quality: s.Strongest(Supports), Adopted: s.Net() == NetPositive}
	a.Confidence = min(max(s.Strength(), MinConfidence), MaxConfidence)
	a.Axes.Retrieval = Restricted
	var strongest EvidenceSet
	for _, e := range s {
		if e.Relation == Supports && e.Quality == a.Quality {
			strongest = append(strongest, e)
		}
	}
	if a.Adopted && a.Quality.MaySupport() && strongest.Strength() >= AdoptStrength {
		a.Axes.Truth, a.Axes.Retrieval, a.Scope = Supported, Normal, ToolActionAllowed
	} else if a.Quality == ModelInference {
		a.Scope = PlanningAllowed
	}
	return a
}

// Admit returns the axes of a candidate after the verdict on its memory write. verdict is allow, hold or deny. After
// allow, the axes follow from the candidate's evidence, unless the candidate is staged or a procedure. After hold, the
// candidate is restricted and suspicious until a person decides. After deny, and after any other value, it is
// quarantined and kept for review.
func (a Adoption) Admit(verdict string) Axes {
	axes := Axes{Truth: a.Axes.Truth, Freshness: a.Axes.Freshness}
	move := func(x Axis, to string) {
		if next, err := Apply(axes, a.Quality, Change{Axis: x, To: to}, ByAdmission); err == nil {
			axes = next
		}
	}
	switch verdict {
	case "allow":
		if a.Staged || a.Procedure {
			axes.Truth = Unverified
		}
		switch {
		case a.Procedure:
		case a.Staged:
			move(AxisRetrieval, "restricted")
		default:
			move(AxisRetrieval, a.Axes.Retrieval.String())
		}
	case "hold":
		axes.Truth = Unverified
		move(AxisRetrieval, "restricted")
		move(AxisSecurity, "suspicious")
	default:
		axes.Truth = Unverified
		move(AxisSecurity, "quarantined")
	}
	return axes
}
