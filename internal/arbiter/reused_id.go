package arbiter

import (
	"bytes"
	"fmt"
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// ruleReuse is the rule of the alert about an event that was sent with the id of another event.
const ruleReuse = "id-reused"

// reuses reports whether the event of an entry may have been sent with the id of another event. It searches the encoded
// body, because decoding every observation costs too much.
func reuses(e *streams.Entry) bool {
	if o, ok := e.Decoded.(*streams.ObservationEntry); ok {
		return o.Reuses != ""
	}
	return bytes.Contains(e.Body, []byte(`"reuses":`))
}

// remarks adds alerts about an event that was sent with the id of another event, and about a session whose prompt is
// not the registered one. For a proposal, such alerts come with its verdict instead.
func (f *Fold) remarks(e *streams.Entry, out *stage.Output, now time.Time) (*stage.Output, error) {
	reused := reuses(e)
	differs := e.Type == streams.TypeSession && bytes.Contains(e.Body, []byte(`"prompt_differs":`))
	if e.Type.Proposal() || e.Type == streams.TypeRepeat || !reused && !differs {
		return out, nil
	}
	var more []streams.Alert
	h := new(streams.EntryHead)
	if err := streams.Unmarshal(e.Body, h); err != nil {
		return out, nil
	}
	if h.Reuses != "" {
		more = append(more, reuseAlert(e.Position(), e.Project, string(e.Type), h, now))
	}
	if differs {
		s := new(streams.SessionEntry)
		if err := streams.Unmarshal(e.Body, s); err == nil && s.PromptDiffers != "" {
			more = append(more, promptAlert(e.Position(), e.Project, s, now))
		}
	}
	if len(more) == 0 {
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
	body.Alerts = append(body.Alerts, more...)
	for i := range more {
		live = append(live, alertLive(&more[i])...)
	}
	return stage.NewOutput(streams.TypeAlerts, e.Project, body, live...)
}

func reuseAlert(seq uint64, project, kind string, h *streams.EntryHead, now time.Time) streams.Alert {
	a := newAlert(ruleReuse, "high", project, seq, streams.AlertSubject{Kind: kind, ID: h.ID}, now)
	a.Agent, a.Session, a.Events = h.Agent, h.Session, []string{h.ID}
	a.Message = fmt.Sprintf("%s %s of agent %s was sent under the id %s, which another event had before: it is recorded "+
		"and judged under an id of its own; a host that numbers its events must not begin again with the first number",
		kind, h.ID, h.Agent, h.Reuses)
	a.Detail = map[string]any{"sent_as": h.Reuses, "entry": fmt.Sprint(seq)}
	return a
}
