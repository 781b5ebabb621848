package sentinel

import (
	"cmp"
	"fmt"
	"slices"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Limits on the alerts in one entry. Each rule of a pack may fire on an event, so there may be any number of alerts.
const (
	fewAlerts     = 32      // up to this number, alerts always fit, because each has at most a few KiB
	maxAlertBytes = 1 << 20 // size of all alerts of an entry as JSON
	briefMessage  = 120     // length of a shortened message in bytes
)

// ruleLeftOut is the rule of the alerts that replace alerts which do not fit.
const ruleLeftOut = "alerts-left-out"

// limitAlerts makes the alerts of an entry fit into the limits. It returns them unchanged if they fit,
// else shortened and without details. If these do not fit either, it returns the strictest of them,
// and replaces the others with one alert about the whole event for each effect that they ask for.
func limitAlerts(e *streams.Entry, group string, alerts []streams.Alert) ([]streams.Alert, error) {
	if len(alerts) <= fewAlerts {
		return alerts, nil
	}
	if n, err := size(alerts); err != nil || n <= maxAlertBytes {
		return alerts, err
	}
	brief := make([]streams.Alert, len(alerts))
	for i, a := range alerts {
		a.Message, a.Error = streams.Clip(a.Message, briefMessage), streams.Clip(a.Error, briefMessage)
		a.Detail, a.Path = nil, nil
		brief[i] = a
	}
	if n, err := size(brief); err != nil || n <= maxAlertBytes {
		return brief, err
	}
	slices.SortStableFunc(brief, func(a, b streams.Alert) int {
		return cmp.Compare(weight(&b, e.Type), weight(&a, e.Type))
	})
	left := maxAlertBytes
	kept := 0
	for ; kept < len(brief); kept++ {
		n, err := size(brief[kept : kept+1])
		if err != nil {
			return nil, err
		}
		if left -= n; left < 0 {
			break
		}
	}
	return append(brief[:kept:kept], leftOut(e, group, brief[kept:])...), nil
}

func size(alerts []streams.Alert) (int, error) {
	b, err := streams.Marshal(alerts)
	return len(b), err
}

// weight orders alerts: first by what they ask for, then by severity.
func weight(a *streams.Alert, on streams.Type) int {
	v, binding := a.Asks(on)
	w := 0
	if binding {
		w = 100 * (1 + int(v))
	} else if a.Mode != "shadow" && streams.IsTextEffect(a.Effect) {
		w = 50
	}
	if s, err := beliefs.ParseSeverity(a.Severity); err == nil {
		w += int(s)
	}
	return w
}

// leftOut returns the alerts that replace the given ones, which do not fit: one for each effect.
func leftOut(e *streams.Entry, group string, alerts []streams.Alert) (out []streams.Alert) {
	at := map[string]int{}
	for i := range alerts {
		a := &alerts[i]
		effect := a.Effect
		if _, binding := a.Asks(e.Type); !binding && (a.Mode == "shadow" || a.Exception != "" ||
			!streams.IsTextEffect(effect)) {
			effect = streams.EffectAlert
		}
		k, ok := at[effect]
		if !ok {
			k, at[effect] = len(out), len(out)
			one := *a
			one.ID, one.Rule, one.Severity, one.Mode = fmt.Sprintf("%s-%d-%s", ruleLeftOut, e.Position(),
				effect), ruleLeftOut, beliefs.Critical.String(), "enforce"
			one.Group, one.Effect, one.Exception, one.Error, one.Count = group, effect, "", "", 0
			// The subject is the whole event, so an effect on text applies to every text of it.
			one.Subject = streams.AlertSubject{Kind: "event"}
			if len(a.Events) > 0 {
				one.Subject.ID = a.Events[0]
			}
			out = append(out, one)
		}
		out[k].Count++
	}
	for i := range out {
		out[i].Message = fmt.Sprintf(
			"the alerts of this entry exceed its size limit: alerts with effect %s that were left out: %d",
			out[i].Effect, out[i].Count)
		out[i].Count = 1
	}
	return out
}
