package arbiter

import (
	"fmt"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Rules of the arbiter's alerts about decisions (streams.Decision): what an agent says that it decided, and why.
const (
	ruleUncited = "decision-cites-nothing"    // the decision cites no belief, and does not say that it depends on none
	ruleFallen  = "decision-on-fallen-belief" // a belief that the decision or action cites has become unreliable
)

// decisions raises alerts about a decision that cites nothing, and about earlier decisions and actions that cite a
// belief which is no longer reliable. Ingest finds both. The alerts change no verdict.
func (f *Fold) decisions(st *stage.State, e *streams.Entry, now time.Time) (*stage.Output, error) {
	var b struct {
		streams.EntryHead
		Uncited    string              `json:"uncited"`
		Dependants []beliefs.Dependant `json:"dependants"`
		Revisions  []beliefs.Revision  `json:"revisions"`
	}
	if err := streams.Unmarshal(e.Body, &b); err != nil {
		f.log.Error("unreadable entry", "type", e.Type, "seq", e.Seq, "err", err)
		return nil, nil
	}
	if err := copySeals(st, e.Project, b.Revisions); err != nil {
		return nil, err
	}
	alert := func(rule, severity, kind, id, agent string, code streams.Code, message string) streams.Alert {
		a := newAlert(rule, severity, e.Project, e.Seq, streams.AlertSubject{Kind: kind, ID: id}, now)
		a.ID, a.Agent, a.Events = a.ID+"-"+id, agent, []string{id}
		a.Message = streams.Clip(string(code)+": "+message, maxReasonText)
		a.Detail = map[string]any{"code": string(code), "entry": fmt.Sprint(e.Seq)}
		return a
	}
	var all []streams.Alert
	if b.Uncited != "" {
		a := alert(ruleUncited, "low", "decision", b.ID, b.Agent, streams.CodeUncited, "decision "+b.ID+": "+b.Uncited)
		a.Session = b.Session
		all = append(all, a)
	}
	for _, d := range b.Dependants {
		severity := "high"
		if d.Axes.Truth == beliefs.Superseded && d.Axes.Security < beliefs.Quarantined {
			severity = "medium"
		}
		a := alert(ruleFallen, severity, d.Kind, d.ID, d.Agent, streams.CodeFallen,
			fmt.Sprintf("%s %s cites belief %s, which has become unreliable since then: %s", d.Kind, d.ID, d.Belief, d.Why))
		a.ID += "-" + d.Belief
		a.Detail["belief"], a.Detail["truth"] = d.Belief, d.Axes.Truth.String()
		a.Detail["security"] = d.Axes.Security.String()
		a.Path = []string{d.Kind + ":" + d.ID, "belief:" + d.Belief}
		all = append(all, a)
	}
	if len(all) == 0 {
		return nil, nil
	}
	var live []stage.Live
	for i := range all {
		live = append(live, alertLive(&all[i])...)
	}
	return stage.NewOutput(streams.TypeAlerts, e.Project, &streams.AlertsEntry{Group: streams.StageArbiter, Alerts: all},
		live...)
}
