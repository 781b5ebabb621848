package arbiter

import (
	"cmp"
	"slices"

	"lazaret/pkg/position"
	"lazaret/streams"
)

// This file defines how verdicts are combined. It uses no state, no clock and no policy: a verdict depends only on the
// set of reasons. The verdict of a reason is the mildest one that is possible with this reason. A reason may come from
// the level's floor, the host's verdict, a finding, a silent group or a rejected observation.
//
// Verdicts with their reasons form a bounded join semilattice, and so do the answers of a group: joining is
// commutative, associative and idempotent. So the order of reasons, their repetition and how they were joined before
// make no difference. A join is never milder than its parts.

// Limits on the parts of a group's answer that a verdict repeats. A group may be any program, and a verdict that is too
// large for the ledger would stop the partition.
const (
	maxReasons    = 32 // per answer
	maxRests      = 16 // per answer
	maxReasonText = streams.MaxReasonText
	maxPath       = 8   // steps
	maxStep       = 160 // bytes of a step of a path, or of a field of a dependency
)

// judge returns the verdict of a set of reasons. It also returns the reasons without duplicates, the strictest first.
func judge(facts ...[]streams.Reason) (streams.Verdict, []streams.Reason) {
	all := slices.Concat(facts...)
	slices.SortFunc(all, compareReasons)
	all = slices.CompactFunc(all, func(a, b streams.Reason) bool { return compareReasons(a, b) == 0 })
	v := streams.Allow
	for _, r := range all {
		v = v.Join(r.Verdict)
	}
	return v, all
}

// joinReasons returns the first n reasons of the union of two sets. The strictest come first, so dropping the others
// does not change the verdict.
func joinReasons(n int, a, b []streams.Reason) []streams.Reason {
	_, all := judge(a, b)
	return all[:min(len(all), n):min(len(all), n)]
}

// compareReasons orders reasons by verdict, strictest first, and then by the other fields. It
// returns 0 only if all fields are equal.
func compareReasons(a, b streams.Reason) int {
	return cmp.Or(
		-cmp.Compare(a.Verdict, b.Verdict),
		cmp.Compare(a.Code, b.Code),
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Rule, b.Rule),
		cmp.Compare(a.Alert, b.Alert),
		cmp.Compare(a.Digest, b.Digest),
		cmp.Compare(a.Text, b.Text),
		slices.Compare(a.Path, b.Path),
		position.Compare(a.Entry, b.Entry),
	)
}

// answer is the join of one group's assessments of a proposal.
type answer struct {
	Group string `json:"group"`
	// Judged is set if the group has answered under the digest that the policy requires. Otherwise the group counts as
	// silent.
	Judged bool `json:"judged,omitzero"`
	// Other is a digest under which the group answered, but that the policy does not require. If there are several, it is
	// the first in byte order. Mute is set if the group answered without a verdict or without a digest. Other and Mute
	// only say why a group counts as silent.
	Other string `json:"other,omitzero"`
	Mute  bool   `json:"mute,omitzero"`
	// Failed is set if a finding is from a rule that could not be evaluated. Then no approval of a source covers the
	// action.
	Failed  bool             `json:"failed,omitzero"`
	Verdict streams.Verdict  `json:"verdict"`
	Reasons []streams.Reason `json:"reasons,omitzero"`
	// Rests are dependencies that the group found in the arguments.
	Rests []streams.Rest `json:"rests,omitzero"`
}

// join returns the join of two answers of one group.
func (a answer) join(b answer) answer {
	other := a.Other
	if other == "" || b.Other != "" && b.Other < other {
		other = b.Other
	}
	return answer{Group: a.Group, Judged: a.Judged || b.Judged, Other: other, Mute: a.Mute || b.Mute,
		Failed: a.Failed || b.Failed, Verdict: a.Verdict.Join(b.Verdict),
		Reasons: joinReasons(maxReasons, a.Reasons, b.Reasons), Rests: joinRests(maxRests, a.Rests, b.Rests)}
}

// joinRests returns the first n dependencies of the union of two sets.
func joinRests(n int, a, b []streams.Rest) []streams.Rest {
	all := slices.Concat(a, b)
	for i := range all {
		r := &all[i]
		for _, s := range []*string{&r.Agent, &r.Observation, &r.Belief, &r.Source, &r.By, &r.Value} {
			*s = streams.Clip(*s, maxStep)
		}
	}
	slices.SortFunc(all, compareRests)
	all = slices.Compact(all)
	return all[:min(len(all), n):min(len(all), n)]
}

func compareRests(a, b streams.Rest) int {
	return cmp.Or(cmp.Compare(a.Observation, b.Observation), cmp.Compare(a.Agent, b.Agent),
		cmp.Compare(a.Belief, b.Belief),
		cmp.Compare(a.Source, b.Source), cmp.Compare(a.By, b.By), cmp.Compare(a.Value, b.Value))
}

func (a answer) equal(b answer) bool {
	return a.Group == b.Group && a.Judged == b.Judged && a.Other == b.Other && a.Mute == b.Mute &&
		a.Failed == b.Failed &&
		a.Verdict == b.Verdict &&
		slices.EqualFunc(a.Reasons, b.Reasons, func(x, y streams.Reason) bool { return compareReasons(x, y) == 0 }) &&
		slices.Equal(a.Rests, b.Rests)
}

// joinAnswer joins an answer into said, which is sorted by group. It reports whether said changed.
func joinAnswer(said []answer, a answer) ([]answer, bool) {
	i, ok := slices.BinarySearchFunc(said, a.Group, func(x answer, g string) int { return cmp.Compare(x.Group, g) })
	if !ok {
		return slices.Insert(said, i, answer{Group: a.Group}.join(a)), true
	}
	next := said[i].join(a)
	if next.equal(said[i]) {
		return said, false
	}
	said[i] = next
	return said, true
}
