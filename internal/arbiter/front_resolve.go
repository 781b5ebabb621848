package arbiter

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"lazaret/pkg/position"
	"lazaret/streams"
)

// resolved answers a request on lz.svc.resolve.<project>.<hold>: it publishes a signed resolution to the intake, and
// replies with the result from the ledger. The fold checks the resolution, not the front.
func (f *Front) resolved(r micro.Request) ([]byte, *streams.ReplyError, error) {
	rep := f.resolve(r)
	body, err := streams.Marshal(rep)
	return body, rep.Error, err
}

func (f *Front) resolve(r micro.Request) *streams.ResolveReply {
	rep := new(streams.ResolveReply)
	failed := func(code streams.Code, err error) *streams.ResolveReply {
		rep.Error = &streams.ReplyError{Code: code, Message: err.Error()}
		return rep
	}
	project, hold, err := streams.ParseResolve(r.Subject())
	if err != nil {
		return failed(streams.CodeBadSubject, err)
	}
	rep.Hold = hold
	var req streams.ResolveRequest
	if err := streams.Unmarshal(r.Data(), &req); err != nil {
		return failed(streams.CodeMalformed, fmt.Errorf("want {\"note\": …}: %w", err))
	}
	if len(req.Note) == 0 || len(req.Note) > streams.MaxResolution {
		return failed(streams.CodeInvalid, fmt.Errorf("the field note has %d bytes, but must have 1 to %d", len(req.Note),
			streams.MaxResolution))
	}
	c := streams.Control{ID: nuid.Next(), Project: project, Hold: hold, Note: req.Note}
	what, look := "signed decision", "look at the hold"
	switch {
	case req.Belief:
		c.Hold, c.Belief, look = "", hold, "look at the belief"
	case req.Order:
		c.Note, c.Order, what, look = "", req.Note, "signed order", "look at its effect"
	}
	who := requestKey{id: c.ID}
	w, ok := f.await(who)
	if !ok {
		return failed(streams.CodeShedding, fmt.Errorf("too many requests: %d wait already", MaxWaiting))
	}
	defer f.forget(who, w)
	body, err := streams.Marshal(c)
	if err != nil {
		return failed(streams.CodeMalformed, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.cfg.Timeout)
	defer cancel()
	var seq uint64
	f.admitted.proposed()
	defer func() { f.admitted.answered(seq) }()
	ack, err := f.js.Publish(ctx, streams.ControlSubject(streams.PartitionOf(project)), body)
	if err != nil {
		return failed(notPublished(what, err))
	}
	seq = ack.Sequence
	f.acknowledged(w, seq)
	select {
	case e := <-w.answer:
		if err := readOutcome(rep, e); err != nil {
			return failed(streams.CodeUnavailable, err)
		}
		return rep
	case r := <-f.admitted.ask(seq):
		if r.Error == nil {
			return failed(streams.CodeUnavailable,
				fmt.Errorf("intake message %d was a %s, but its ledger entry %s is of another type", seq, what,
					position.Text(r.Seq)))
		}
		rep.Seq = r.Seq
		return failed(r.Error.Code, errors.New(r.Error.Message))
	case <-ctx.Done():
		return failed(streams.CodeTimeout,
			fmt.Errorf("the intake has the %s, but its outcome was not known within %v: %s before you sign again", what,
				f.cfg.Timeout, look))
	}
}

// readOutcome sets the result of a resolution in rep, from an entry of the arbiter.
func readOutcome(rep *streams.ResolveReply, e streams.Entry) error {
	rep.Seq, rep.Entry = e.Seq, e.Src
	if e.Type == streams.TypeAlerts {
		a := new(streams.AlertsEntry)
		if err := streams.Unmarshal(e.Body, a); err != nil || len(a.Alerts) == 0 {
			return errors.Join(err, fmt.Errorf("ledger entry %s has no alert in it", position.Text(e.Position())))
		}
		switch said := &a.Alerts[0]; {
		case said.Subject.Kind == "belief":
			readAttestation(rep, said)
			return nil
		case said.Rule == orderRule, strings.HasPrefix(said.Rule, refusedOrder):
			readOrder(rep, said)
			return nil
		case said.Rule == WithdrawnRule:
			rep.State, rep.Text = "withdrawn", said.Message
			return nil
		}
		rep.Check, rep.Text = strings.TrimPrefix(a.Alerts[0].Rule, approvalRule), a.Alerts[0].Message
		rep.Error = &streams.ReplyError{Code: streams.CodeApproval, Message: rep.Text}
		return nil
	}
	v := new(streams.VerdictEntry)
	if err := streams.Unmarshal(e.Body, v); err != nil {
		return fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
	}
	rep.State = streams.HoldDenied
	if v.Resolved != nil {
		rep.State = v.Resolved.State
	}
	if n := len(v.Reasons); n > 0 {
		rep.Text = v.Reasons[n-1].Text
	}
	return nil
}
