package beliefs

import "slices"

// AsItWas has what a belief was like at a restore point, apart from its axes.
type AsItWas struct {
	Evidence  EvidenceSet `json:"evidence,omitzero"`
	Scope     Scope       `json:"scope,omitzero"`
	Conflicts []string    `json:"conflicts,omitzero"`
	Staged    bool        `json:"staged,omitzero"`
	StagedFor string      `json:"staged_for,omitzero"`
	Signed    string      `json:"signed,omitzero"`
	Flag      string      `json:"flag,omitzero"`
}

// Back moves a belief back to the axes that it had at an earlier time, as far as the transition tables let a person do
// that. evidence is the belief's evidence at that time. Back returns the moves that it made, and the axes that still
// differ from their earlier value.
//
// Back never loosens the belief's security, and a belief that is not clean is not served again. A belief that a newer
// one has replaced stays superseded. A belief that stays supported, because no move leads back, keeps its supporting
// evidence and may only be served as context.
func (s Standing) Back(then Axes, evidence EvidenceSet) (Standing, []Move, []Axis) {
	next := s
	next.Evidence = evidence
	var moves []Move
	var left []Axis
	move := func(x Axis, to uint8) {
		for _, v := range next.Axes.way(x, to) {
			done, m, err := next.make(ByUser, Change{Axis: x, To: x.values().name(v)})
			if err != nil {
				break
			}
			next, moves = done, append(moves, m...)
		}
		if next.Axes.get(x) != to {
			left = append(left, x)
		}
	}
	move(AxisTruth, uint8(then.Truth))
	move(AxisSecurity, uint8(max(then.Security, s.Axes.Security)))
	if then.Security < s.Axes.Security {
		left = append(left, AxisSecurity)
	}
	to := then.Retrieval
	switch {
	case next.Axes.Security != Clean && (to == Normal || to == Restricted):
		// The belief has become suspicious since then, so it may only become less available.
		if to = s.Axes.Retrieval; to == Normal {
			to = Restricted
		}
	case to == Normal && next.Axes.Truth != Supported:
		to = Restricted
	}
	move(AxisRetrieval, uint8(to))
	if next.Axes.Retrieval == Normal && to != Normal { // the tables have no transition to the value of to
		move(AxisRetrieval, uint8(Restricted))
	}
	if to != then.Retrieval {
		left = append(left, AxisRetrieval)
	}
	if then.Freshness == Fresh && s.Axes.Freshness == Stale {
		move(AxisFreshness, uint8(Fresh))
	}
	if next.Axes.Truth == Supported && !evidence.Strongest(Supports).MaySupport() {
		next.Evidence = s.Evidence
	}
	slices.Sort(left)
	return next, moves, slices.Compact(left)
}

// way returns the shortest path between two values of an axis, over transitions that a person may make without naming a
// successor. If there is no such path, way returns nil.
func (a Axes) way(x Axis, to uint8) []uint8 {
	from := a.get(x)
	if from == to {
		return nil
	}
	before := map[uint8]uint8{from: from}
	for level := []uint8{from}; len(level) > 0; {
		var next []uint8
		for _, at := range level {
			for _, m := range transitions[x] {
				if _, seen := before[m.to]; m.from != at || seen || m.successor || !slices.Contains(m.by, ByUser) {
					continue
				}
				before[m.to] = at
				next = append(next, m.to)
			}
		}
		if _, ok := before[to]; ok {
			var out []uint8
			for v := to; v != from; v = before[v] {
				out = append(out, v)
			}
			slices.Reverse(out)
			return out
		}
		level = next
	}
	return nil
}
