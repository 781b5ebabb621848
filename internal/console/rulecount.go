package console

import (
	"slices"
	"time"

	"lazaret/streams"
)

// maxRuleCounts is the maximum number of counted rules. A limit is needed because third-party groups may use any
// number of rule names.
const maxRuleCounts = 50_000

// ruleCount counts the effects of one rule in a project, as far as the index has read the ledger.
type ruleCount struct {
	Fired, Shadow, Excepted int // alerts: with effect, in shadow mode, under an exception
	Last                    time.Time

	// Held counts the proposals that were held or denied with this rule among the reasons. The other fields
	// count proposals for which this rule was the only reason. They were denied, or they were held and then
	// rejected, approved, or neither (Others).
	Held                               int
	Denied, Rejected, Approved, Others int
}

// Alone returns the number of proposals that were held or denied only because of this rule.
func (n *ruleCount) Alone() int { return n.Denied + n.Rejected + n.Approved + n.Others }

// Caught returns how many of the proposals that Alone counts were denied, or rejected by a person.
func (n *ruleCount) Caught() int { return n.Denied + n.Rejected }

func (n *ruleCount) add(m *ruleCount) {
	n.Fired, n.Shadow, n.Excepted, n.Held = n.Fired+m.Fired, n.Shadow+m.Shadow, n.Excepted+m.Excepted, n.Held+m.Held
	n.Denied, n.Rejected = n.Denied+m.Denied, n.Rejected+m.Rejected
	n.Approved, n.Others = n.Approved+m.Approved, n.Others+m.Others
	if m.Last.After(n.Last) {
		n.Last = m.Last
	}
}

// counted returns the count of a rule in a project, and creates it on first use. The caller holds mu.
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

// rulesOf returns the rules among the reasons for a hold or denial. alone is the rule that is the only
// reason, or "".
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

// countVerdict counts a verdict that holds or denies for the rules among its reasons. It returns the
// rule that is the only reason, or "". The caller holds mu.
func (x *index) countVerdict(project string, v *streams.VerdictEntry) (alone string) {
	list, alone := rulesOf(v)
	for _, rule := range list {
		x.counted(project, rule).Held++
	}
	return alone
}

// countAgain counts a further verdict on an open hold, which a later finding caused. The caller holds
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

// countSettled counts the end of a hold for the rule that was its only reason. The caller holds mu.
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

// ruleCounts returns the counts of all rules, summed over the selected projects.
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
