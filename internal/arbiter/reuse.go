package arbiter

import (
	"bytes"
	"fmt"
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// ruleReuse is the rule of the alert about an event that was sent under the id of
// another one.
const ruleReuse = "id-reused"

// reused adds an alert for an event sent under another one's id. A proposal's comes with
// its verdict.
func (f *Fold) reused(e *streams.Entry, out *stage.Output, now time.Time) (*stage.Output, error) {
	if e.Type.Proposal() || e.Type == streams.TypeRepeat || !bytes.Contains(e.Body, []byte(`"reuses":`)) {
		return out, nil
	}
	h := new(streams.EntryHead)
	if err := streams.Unmarshal(e.Body, h); err != nil || h.Reuses == "" {
		return out, nil
	}
	body := &streams.AlertsEntry{Group: streams.StageArbiter}
	var live []stage.Live
	if out != nil {
		if out.Type != streams.TypeAlerts {
			return out, nil
		}
		if err := streams.Unmarshal(out.Body, body); err != nil {
			return nil, fmt.Errorf("decoding own alerts: %w", err)
		}
		live = out.Live
	}
	a := reuseAlert(e.Position(), e.Project, string(e.Type), h, now)
	body.Alerts = append(body.Alerts, a)
	live = append(live, stage.LiveCopy(&a, e.Project, "alert", a.Severity, a.Rule)...)
	return stage.NewOutput(streams.TypeAlerts, e.Project, body, live...)
}

func reuseAlert(seq uint64, project, kind string, h *streams.EntryHead, now time.Time) streams.Alert {
	return streams.Alert{ID: fmt.Sprintf("%s-%d", ruleReuse, seq), Rule: ruleReuse, Group: streams.StageArbiter,
		Severity: "high",
		Subject:  streams.AlertSubject{Kind: kind, ID: h.ID}, Project: project, Agent: h.Agent, Session: h.Session,
		Message: fmt.Sprintf("%s %s of agent %s was sent under the id %s, which another event had before: it is recorded "+
			"and judged under an id of its own; "+
			"a host that counts its events must not start again", kind, h.ID, h.Agent, h.Reuses),
		Events: []string{h.ID}, Effect: "alert", Mode: "enforce", Count: 1, Time: now,
		Detail: map[string]any{"sent_as": h.Reuses, "entry": fmt.Sprint(seq)}}
}
