package console

import (
	"slices"
	"time"

	"lazaret/streams"
)

// maxRuleCounts is the maximum number of rules for which the index counts effects. Third-party groups may name any
// number of rules, so a limit is needed.
const maxRuleCounts = 50_000

// ruleCount counts the effects of one rule in a project, in the entries that the index has read.
type ruleCount struct {
	Fired, Shadow, Excepted int // numbers of alerts: with an effect, in shadow mode, and under an exception
	Last                    time.Time

	// Held is the number of proposals that were held or denied with this rule among the reasons. The other fields count
	// only proposals for which this rule was the only reason. These were denied, or they were held and then rejected,
	// approved, or neither (Others).
	Held                               int
	Denied, Rejected, Approved, Others int
}

// Alone returns the number of proposals that were held or denied only because of this rule.
func (n *ruleCount) Alone() int { return n.Denied + n.Rejected + n.Approved + n.Others }

// Caught returns how many of the proposals that Alone counts were denied, or were rejected by a person.
func (n *ruleCount) Caught() int { return n.Denied + n.Rejected }

func (n *ruleCount) add(m *ruleCount) {
	n.Fired, n.Shadow, n.Excepted, n.Held = n.Fired+m.Fired, n.Shadow+m.Shadow, n.Excepted+m.Excepted, n.Held+m.Held
	n.Denied, n.Rejected = n.Denied+m.Denied, n.Rejected+m.Rejected
	n.Approved, n.Others = n.Approved+m.Approved, n.Others+m.Others
	if m.Last.After(n.Last) {
		n.Last = m.Last
	}
}

// counted returns the counts of a rule in a project. If there are none, it creates them. The caller holds mu.
func (x *index) counted(project, rule string) *ruleCount {
	k := [2]string{project, rule}
	n := x.rules[k]
	if n == nil {
		if n = new(ruleCount); len(x.rules) < maxRuleCounts {
			x.rules[k] = n
		}
	}
	return n
}

// countAlert counts an alert for its rule. The caller holds mu.
func (x *index) countAlert(project string, a *streams.Alert) {
	n := x.counted(project, a.Rule)
	switch {
	case a.Mode == "shadow":
		n.Shadow++
	case a.Exception != "":
		n.Excepted++
	default:
		n.Fired++
	}
	if a.Time.After(n.Last) {
		n.Last = a.Time
	}
}

// rulesOf returns the rules among the reasons of a hold or a denial. If there is only one reason and it is a rule,
// alone is this rule. Otherwise alone is "".
func rulesOf(v *streams.VerdictEntry) (list []string, alone string) {
	others := false
	seen := make(map[string]bool)
	for _, r := range v.Reasons {
		switch {
		case r.Verdict < streams.Hold:
		case r.Code != streams.CodeRule || r.Rule == "":
			others = true
		case !seen[r.Rule]:
			seen[r.Rule] = true
			list = append(list, r.Rule)
		}
	}
	if !others && len(list) == 1 {
		alone = list[0]
	}
	return list, alone
}

// countVerdict adds a hold or a denial to the counts of each rule among its reasons. If a rule is its only reason,
// countVerdict returns the rule, otherwise "". The caller holds mu.
func (x *index) countVerdict(project string, v *streams.VerdictEntry) (alone string) {
	list, alone := rulesOf(v)
	for _, rule := range list {
		x.counted(project, rule).Held++
	}
	return alone
}

// countAgain adds another verdict on an open hold to the counts. A later finding caused this verdict. The caller holds
// mu.
func (x *index) countAgain(h *holdRow, v *streams.VerdictEntry) {
	before, _ := rulesOf(&h.Verdict)
	list, alone := rulesOf(v)
	for _, rule := range list {
		if !slices.Contains(before, rule) {
			x.counted(h.Project, rule).Held++
		}
	}
	if alone == h.alone {
		return
	}
	if h.alone != "" {
		x.counted(h.Project, h.alone).Others--
	}
	if h.alone = alone; alone != "" {
		x.counted(h.Project, alone).Others++
	}
}

// countSettled adds the end of a hold to the counts of the rule that was the hold's only reason. The caller holds mu.
func (x *index) countSettled(h *holdRow) {
	if h.alone == "" {
		return
	}
	n := x.counted(h.Project, h.alone)
	n.Others-- // countVerdict counted the open hold there
	switch h.State {
	case streams.HoldApproved:
		n.Approved++
	case streams.HoldRejected:
		n.Rejected++
	case streams.HoldDenied:
		n.Denied++
	default:
		n.Others++
	}
}

// ruleCounts returns the counts of all rules. Each is a sum over the projects for which may returns true.
func (x *index) ruleCounts(may func(project string) bool) map[string]*ruleCount {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make(map[string]*ruleCount)
	for k, n := range x.rules {
		if !may(k[0]) {
			continue
		}
		if out[k[1]] == nil {
			out[k[1]] = new(ruleCount)
		}
		out[k[1]].add(n)
	}
	return out
}
