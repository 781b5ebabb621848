package arbiter

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// Rules of the arbiter's alerts about signed orders. The rule is orderRule if the order was accepted, else refusedOrder
// followed by the failed check.
const (
	orderRule    = "order"
	refusedOrder = "order-"
)

// acceptedOrder has the fields that the entries of all accepted orders have.
type acceptedOrder struct {
	streams.EntryHead
	Event    string `json:"event"`
	Incident struct {
		ID string `json:"id"`
	} `json:"incident"`
	Point  string             `json:"point"`
	Text   string             `json:"text"`
	Signed *streams.Signature `json:"signed"`
}

// ordered reports with an alert what ingest decided about a signed order. An entry that no order caused makes no alert.
func (f *Fold) ordered(st *stage.State, e *streams.Entry, now time.Time) (*stage.Output, error) {
	a := newAlert(orderRule, "info", e.Project, e.Seq, streams.AlertSubject{Kind: string(e.Type)}, now)
	a.Detail = map[string]any{"entry": fmt.Sprint(e.Seq)}
	var id string
	var intake uint64
	if e.Type == streams.TypeOrder {
		o := new(streams.OrderEntry)
		if err := streams.Unmarshal(e.Body, o); err != nil {
			f.log.Error("unreadable order", "seq", e.Seq, "err", err)
			return nil, nil
		}
		// Count refusals for all subjects together, because an attacker may invent any number of subjects.
		n, err := count(st, stage.Key(keyRefused, e.Project, "-", refusedOrder+o.Check))
		if err != nil {
			return nil, err
		}
		id, intake = o.ID, o.Intake
		a.Rule, a.Severity, a.Count = refusedOrder+o.Check, "high", n
		a.Subject.ID = o.Subject
		a.Detail["check"] = o.Check
		if o.Signer != "" {
			a.Detail["signer"], a.Detail["do"] = o.Signer, o.Do
		}
		a.Message = streams.Clip(fmt.Sprintf("an order on %s was refused, and nothing has changed: %s", o.Subject, o.Text),
			maxReasonText)
	} else {
		o := new(acceptedOrder)
		if err := streams.Unmarshal(e.Body, o); err != nil {
			f.log.Error("unreadable entry", "type", e.Type, "seq", e.Seq, "err", err)
			return nil, nil
		}
		if o.Signed == nil {
			return nil, nil
		}
		id, intake = o.ID, o.Intake
		a.Subject.ID = o.Incident.ID + o.Point
		do := cmp.Or(o.Event, string(e.Type))
		a.Detail["do"], a.Detail["signer"] = do, o.Signed.Signer
		a.Message = streams.Clip(fmt.Sprintf("%s %s: %s by %s: %s", e.Type, a.Subject.ID, do, o.Signed.Signer, o.Text),
			maxReasonText)
	}
	return stage.NewOutput(streams.TypeAlerts, e.Project, &streams.AlertsEntry{Group: streams.StageArbiter,
		Alerts: []streams.Alert{a}, Answers: id, Intake: intake}, alertLive(&a)...)
}

// readOrder sets the result of an order in rep, from the arbiter's alert.
func readOrder(rep *streams.ResolveReply, a *streams.Alert) {
	rep.Text = a.Message
	if check, refused := strings.CutPrefix(a.Rule, refusedOrder); refused {
		rep.Check = check
		rep.Error = &streams.ReplyError{Code: streams.CodeOrder, Message: rep.Text}
		return
	}
	if a.Subject.ID != "" {
		rep.Hold = a.Subject.ID
	}
	rep.State, _ = a.Detail["do"].(string)
}
