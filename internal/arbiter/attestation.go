package arbiter

import (
	"fmt"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/approval"
	"lazaret/streams"
)

// Rules of the arbiter's alerts about attestations, which are signed decisions on beliefs. The rule is attestedRule if
// the attestation was accepted, else refusedAttestation followed by the failed check.
const (
	attestedRule       = "belief-word"
	refusedAttestation = "belief-word-"
)

// attested reports with an alert what ingest decided about an attestation.
func (f *Fold) attested(st *stage.State, e *streams.Entry, now time.Time) (*stage.Output, error) {
	c := new(streams.ConfirmationEntry)
	if err := streams.Unmarshal(e.Body, c); err != nil {
		f.log.Error("unreadable attestation of a belief", "seq", e.Seq, "err", err)
		return nil, nil
	}
	a := newAlert(attestedRule, "info", e.Project, e.Seq, streams.AlertSubject{Kind: "belief", ID: c.Belief}, now)
	a.Detail = map[string]any{"decision": c.Decision, "entry": fmt.Sprint(e.Seq)}
	if c.Signer != "" {
		a.Detail["signer"] = c.Signer
	}
	if c.Check != "" {
		bucket := c.Belief
		if c.Check == string(approval.CheckBelief) {
			bucket = "-" // count refusals for all unknown beliefs together: an attacker may invent any number of ids
		}
		n, err := count(st, stage.Key(keyRefused, e.Project, bucket, c.Check))
		if err != nil {
			return nil, err
		}
		a.Rule, a.Severity, a.Count = refusedAttestation+c.Check, "high", n
		a.Detail["check"] = c.Check
		a.Message = streams.Clip(fmt.Sprintf("an attestation of belief %s was refused, and the belief is unchanged: %s",
			c.Belief, c.Text), maxReasonText)
	} else {
		a.Message = streams.Clip(fmt.Sprintf("%s by %s: %s", c.Decision, c.Signer, c.Text), maxReasonText)
	}
	return stage.NewOutput(streams.TypeAlerts, e.Project, &streams.AlertsEntry{Group: streams.StageArbiter,
		Alerts: []streams.Alert{a}, Answers: c.ID, Intake: c.Intake}, alertLive(&a)...)
}

// readAttestation sets the result of an attestation in rep, from the arbiter's alert.
func readAttestation(rep *streams.ResolveReply, a *streams.Alert) {
	rep.Text = a.Message
	if check, refused := strings.CutPrefix(a.Rule, refusedAttestation); refused {
		rep.Check = check
		rep.Error = &streams.ReplyError{Code: streams.CodeConfirmation, Message: rep.Text}
		return
	}
	rep.State, _ = a.Detail["decision"].(string)
}
