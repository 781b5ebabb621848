package beliefs

import (
	"fmt"
	"slices"
	"strings"
)

// Standing is the state of a belief: its axes, its evidence and its scope. Only its methods change that state. The
// methods do not modify their receiver. Each returns the new state and the moves that it made or, on an error, the old
// state.
type Standing struct {
	Axes     Axes
	Evidence EvidenceSet
	Scope    Scope
}

// MaxEvidence is the maximum number of pieces of evidence that a belief keeps for each relation. It keeps the best
// piece of each source, strongest classes first. So no dropped piece is of a stronger class than a kept one.
const MaxEvidence = 16

// Quality returns the strongest class of supporting evidence.
func (s Standing) Quality() Quality { return s.Evidence.Strongest(Supports) }

// Confidence returns the strength of the supporting evidence. If it is below MinConfidence or above MaxConfidence, that
// limit is returned instead.
func (s Standing) Confidence() float64 {
	return min(max(s.Evidence.Strength(), MinConfidence), MaxConfidence)
}

// With returns the set with one more piece of evidence. It returns the set unchanged if the set already has evidence of
// the same source and relation, and of the same or a stronger class. So copies of one piece count once. Of each
// relation, With keeps the first MaxEvidence pieces in the order of compareEvidence.
func (s EvidenceSet) With(e Evidence) EvidenceSet {
	for _, have := range s {
		if have.Relation == e.Relation && have.Source == e.Source && !e.Quality.Stronger(have.Quality) {
			return s
		}
	}
	out := slices.DeleteFunc(slices.Clone(s), func(have Evidence) bool {
		return have.Relation == e.Relation && have.Source == e.Source
	})
	out = append(out, e)
	slices.SortStableFunc(out, compareEvidence)
	kept, n, last := out[:0], 0, Relation(0)
	for i, x := range out {
		if i == 0 || x.Relation != last {
			n, last = 0, x.Relation
		}
		if n++; n <= MaxEvidence {
			kept = append(kept, x)
		}
	}
	return kept
}

// compareEvidence orders evidence by relation, then by class, strongest first, then by time, oldest first. If there are
// too many pieces, With drops the last ones in this order. So new evidence cannot displace older evidence of the same
// or a stronger class.
func compareEvidence(a, b Evidence) int {
	if a.Relation != b.Relation {
		return int(a.Relation) - int(b.Relation)
	}
	if d := a.Quality.rank() - b.Quality.rank(); d != 0 {
		return d
	}
	if d := a.At.Compare(b.At); d != 0 {
		return d
	}
	return strings.Compare(a.Source, b.Source)
}

// make applies changes in order, if the authority may make them. It skips a change to a value that the axis already
// has.
func (s Standing) make(by Authority, changes ...Change) (Standing, []Move, error) {
	next := s
	var moves []Move
	for _, c := range changes {
		from := c.Axis.values().name(next.Axes.get(c.Axis))
		if from == c.To {
			continue
		}
		axes, err := Apply(next.Axes, next.Quality(), c, by)
		if err != nil {
			return s, nil, err
		}
		next.Axes = axes
		moves = append(moves, Move{Axis: c.Axis, From: from, To: c.To, Successor: c.Successor})
	}
	return next, moves, nil
}

// Confirm confirms a belief on behalf of a person (ByUser) or a verification run (ByProbe), with e as the evidence. The
// belief becomes supported, served and fresh. A person's confirmation also clears a suspicion. Confirm returns an error
// for a quarantined or blocked belief. Such a belief must be cleared or unblocked first. A belief that a newer one has
// replaced stays superseded.
func (s Standing) Confirm(e Evidence, by Authority) (Standing, []Move, error) {
	if by != ByUser && by != ByProbe {
		return s, nil, &TransitionError{Axis: AxisTruth, From: s.Axes.Truth.String(), To: Supported.String(), By: by,
			Needed: []Authority{ByUser, ByProbe}}
	}
	if s.Axes.Security >= Quarantined {
		return s, nil, fmt.Errorf("it is %s: clear it first", s.Axes.Security)
	}
	if s.Axes.Retrieval == Blocked {
		return s, nil, fmt.Errorf("it is blocked: unblock it first")
	}
	var changes []Change
	if s.Axes.Security == Suspicious {
		changes = append(changes, Change{Axis: AxisSecurity, To: Clean.String()})
	}
	changes = append(changes, Change{Axis: AxisTruth, To: Supported.String()})
	if s.Axes.Retrieval == Hidden {
		changes = append(changes, Change{Axis: AxisRetrieval, To: Restricted.String()})
	}
	if s.Axes.Retrieval != PrivilegedOnly {
		changes = append(changes, Change{Axis: AxisRetrieval, To: Normal.String()})
	}
	changes = append(changes, Change{Axis: AxisFreshness, To: Fresh.String()})
	next, moves, err := s.make(by, changes...)
	if err != nil {
		return s, nil, err
	}
	next.Evidence = s.Evidence.With(e)
	next.Scope = ToolActionAllowed
	return next, moves, nil
}

// Independent reports whether e would corroborate the belief. Its class must be one that may support a belief, and
// stronger than all support that the belief has. Its source must not support the belief yet.
func (s Standing) Independent(e Evidence) bool {
	if e.Relation != Supports || !e.Quality.MaySupport() || !e.Quality.Stronger(s.Quality()) {
		return false
	}
	return !slices.ContainsFunc(s.Evidence, func(have Evidence) bool {
		return have.Relation == Supports && have.Source == e.Source
	})
}

// Corroborate adds evidence. An unverified and clean belief becomes supported if at least the given number of different
// sources support it, each with evidence of a class that may support a belief (Quality.MaySupport). The change is made
// by authority auto_observation. The scope of a belief that becomes supported is at least PlanningAllowed. Its
// retrieval stays; only a person or a verification run can change that. If the same source says the same again, it does
// not count.
func (s Standing) Corroborate(e Evidence, sources int) (Standing, []Move) {
	if !s.Independent(e) && !s.among(e) {
		next := s
		if e.Relation == Supports {
			next.Evidence = s.Evidence.With(e)
		}
		return next, nil
	}
	next := s
	next.Evidence = s.Evidence.With(e)
	if next.Axes.Truth != Unverified || next.Axes.Security != Clean || next.vouching() < sources {
		return next, nil
	}
	done, moves, err := next.make(ByAutoObservation, Change{Axis: AxisTruth, To: Supported.String()})
	if err != nil {
		return next, nil
	}
	done.Scope = max(done.Scope, PlanningAllowed)
	return done, moves
}

// among reports whether e supports the belief, comes from a source that does not support it yet, and is of at least as
// strong a class as the strongest support so far.
func (s Standing) among(e Evidence) bool {
	return e.Relation == Supports && e.Quality.MaySupport() && !s.Quality().Stronger(e.Quality) &&
		!slices.ContainsFunc(s.Evidence, func(have Evidence) bool {
			return have.Relation == Supports && have.Source == e.Source
		})
}

// vouching returns the number of different sources that support the belief with evidence of a class that may support a
// belief.
func (s Standing) vouching() int {
	var from []string
	for _, e := range s.Evidence {
		if e.Relation == Supports && e.Quality.MaySupport() && !slices.Contains(from, e.Source) {
			from = append(from, e.Source)
		}
	}
	return len(from)
}

// Contradict adds contradicting evidence. The belief becomes contradicted if Net is then NetNegative. That needs
// evidence of the strongest class, because a weaker class never outvotes a stronger one, in any number. A tie changes
// nothing. The change is made by authority sentinel, which can only demote.
func (s Standing) Contradict(e Evidence) (Standing, []Move) {
	e.Relation = Contradicts
	next := s
	next.Evidence = s.Evidence.With(e)
	if next.Evidence.Net() != NetNegative {
		return next, nil
	}
	done, moves, err := next.make(BySentinel, Change{Axis: AxisTruth, To: Contradicted.String()})
	if err != nil {
		return next, nil // a superseded belief cannot be demoted further
	}
	return done, moves
}

// Supersede marks the belief as replaced by the named successor.
func (s Standing) Supersede(successor string, by Authority) (Standing, []Move, error) {
	return s.make(by, Change{Axis: AxisTruth, To: Superseded.String(), Successor: successor})
}

// Quarantine takes the belief out of service and keeps it for review. The belief's truth does not change.
func (s Standing) Quarantine(by Authority) (Standing, []Move, error) {
	var changes []Change
	if s.Axes.Security < Quarantined {
		changes = append(changes, Change{Axis: AxisSecurity, To: Quarantined.String()})
	}
	switch s.Axes.Retrieval {
	case Normal, Restricted:
		changes = append(changes, Change{Axis: AxisRetrieval, To: Hidden.String()})
	case PrivilegedOnly:
		changes = append(changes, Change{Axis: AxisRetrieval, To: Blocked.String()})
	}
	return s.make(by, changes...)
}

// Clear removes a suspicion or a quarantine that a person found unfounded. Afterwards the belief may be read only as
// context, until it is confirmed.
func (s Standing) Clear(by Authority) (Standing, []Move, error) {
	changes := []Change{{Axis: AxisSecurity, To: Clean.String()}}
	if s.Axes.Retrieval == Hidden {
		changes = append(changes, Change{Axis: AxisRetrieval, To: Restricted.String()})
	}
	return s.make(by, changes...)
}

// Set makes a single change that has no method of its own, such as blocking, unblocking or marking
// as malicious.
func (s Standing) Set(c Change, by Authority) (Standing, []Move, error) { return s.make(by, c) }
