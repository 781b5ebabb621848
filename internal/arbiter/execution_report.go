package arbiter

import (
	"fmt"
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// Rules of the arbiter's alerts about the reports of executors.
const (
	ruleMismatch   = "outcome-mismatch"   // a different action than the released one was carried out
	ruleUnreleased = "outcome-unreleased" // an action without a release was carried out
	ruleRepeated   = "outcome-repeated"   // an action was carried out a second time
)

// executed compares an executor's report with the verdict on the action that the report names. It raises an alert if
// the action was not released, if the report's digest differs from that of the released action, or if the action was
// carried out before. The alert changes no verdict.
func (f *Fold) executed(st *stage.State, e *streams.Entry, now time.Time) (*stage.Output, error) {
	o := new(streams.OutcomeEntry)
	if err := streams.Unmarshal(e.Body, o); err != nil {
		f.log.Error("unreadable outcome", "seq", e.Seq, "err", err)
		return nil, nil
	}
	if !streams.ValidID(o.Action) {
		return nil, nil // the outcome is an answer in words, which names no action, or its action id is not valid
	}
	v := new(streams.VerdictEntry)
	known, err := st.Load(stage.Key(keyVerdict, e.Project, o.Agent, o.Action), v)
	if err != nil {
		return nil, err
	}
	ran := o.Ran()
	switch {
	case !known && o.Digest == "":
	case !known:
		return f.incident(e, o, v, ruleUnreleased, "it names action %s, on which no verdict was given", now)
	case v.Type != streams.TypeAction:
	case ran && v.Verdict != streams.Allow:
		return f.incident(e, o, v, ruleUnreleased, "it carried out action %s, whose verdict is "+v.Verdict.String(), now)
	case o.Digest != "" && o.Digest != v.Digest:
		return f.incident(e, o, v, ruleMismatch, "it carried out something else under the name of action %s", now)
	case ran:
		return f.ranOnce(st, e, o, v, now)
	}
	return nil, nil
}

// ranOnce records that a released action was carried out. A release allows only one execution. A second one causes an
// alert.
func (f *Fold) ranOnce(st *stage.State, e *streams.Entry, o *streams.OutcomeEntry, v *streams.VerdictEntry,
	now time.Time) (*stage.Output, error) {
	key := stage.Key(keyRan, e.Project, o.Agent, o.Action)
	_, before, err := st.Get(key)
	if err != nil {
		return nil, err
	}
	if before {
		return f.incident(e, o, v, ruleRepeated, "action %s was carried out again, but it was released for one execution",
			now)
	}
	// The verdict is removed KeepVerdict after its hold expires, and a hold expires within KeepVerdict. This record
	// must outlive the verdict.
	if err := f.forgetAt(st, now.Add(2*KeepVerdict), key); err != nil {
		return nil, err
	}
	if err := st.Set(key, nil); err != nil {
		return nil, err
	}
	return f.forecast(st, e, o, v, now)
}

// incident returns the arbiter's alert about an executor's report. format has one %s, for the action's id.
func (f *Fold) incident(e *streams.Entry, o *streams.OutcomeEntry, v *streams.VerdictEntry, rule, format string,
	now time.Time) (*stage.Output, error) {
	a := newAlert(rule, "critical", e.Project, e.Seq, streams.AlertSubject{Kind: "action", ID: o.Action}, now)
	a.RuleDigest, a.Agent, a.Session, a.Events = v.Policy, o.Agent, o.Session, []string{o.Action, o.ID}
	a.Message = streams.Clip(string(streams.CodeMismatch)+": an executor reported an outcome: "+fmt.Sprintf(format,
		o.Action), maxReasonText)
	a.Detail = map[string]any{"code": string(streams.CodeMismatch), "reported": streams.Clip(o.Digest, 80),
		"released": v.Digest, "verdict": v.Verdict.String(), "status": streams.Clip(o.Status, 40)}
	live := append(alertLive(&a), stage.LiveCopy(&a, e.Project, "incident")...)
	return stage.NewOutput(streams.TypeAlerts, e.Project, &streams.AlertsEntry{Group: streams.StageArbiter,
		Digest: v.Policy, Alerts: []streams.Alert{a}}, live...)
}
