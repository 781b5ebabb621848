package client

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Submit is like Observe, but also waits until the observation is in the ledger. If the observation
// is rejected, Submit returns the reply and an *Error with code and reason. The session is then
// held (LZ306) until the observation is submitted again in valid form under the same id and origin,
// or until a session starts.
func (c *Client) Submit(ctx context.Context, origin beliefs.Origin, o *streams.Observation) (*streams.ObserveReply,
	error) {
	body, err := c.bodyOf(o)
	if err != nil {
		return nil, err
	}
	return c.SubmitRaw(ctx, origin, body)
}

// SubmitRaw is like Submit, for an observation that is already encoded.
func (c *Client) SubmitRaw(ctx context.Context, origin beliefs.Origin, body []byte) (*streams.ObserveReply, error) {
	subject, err := streams.ServiceSubject(streams.SvcObserve, c.project, c.agent, origin)
	if err != nil {
		return nil, err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	var rep *streams.ObserveReply
	err = c.do(ctx, func(ctx context.Context) error {
		m, err := c.asked(ctx, subject, body)
		if err != nil {
			return err
		}
		rep = new(streams.ObserveReply)
		if err := streams.Unmarshal(m.Data, rep); err != nil {
			return &Error{Code: streams.CodeUnavailable, Message: fmt.Sprintf("the answer on %s cannot be read: %v", subject,
				err), err: err}
		}
		if rep.Error == nil && rep.Seq == 0 {
			return &Error{Code: streams.CodeUnavailable, Message: fmt.Sprintf("the answer on %s names no ledger entry", subject)}
		}
		if rep.Error != nil {
			return &Error{Code: rep.Error.Code, Message: rep.Error.Message, answered: true}
		}
		return nil
	})
	if rep != nil && rep.IntakeSeq != 0 {
		c.acknowledged(rep.IntakeSeq)
	}
	return rep, err
}

// Stored reports whether a result of Submit shows that the intake has the observation. The observation is then in the
// ledger, recorded or rejected, or will be. A proposal of the session that is made later waits for it.
func Stored(rep *streams.ObserveReply, err error) bool {
	return rep != nil && rep.IntakeSeq != 0 && (err == nil || rep.Seq != 0 ||
		rep.Error != nil && rep.Error.Code == streams.CodeTimeout)
}

// ObserveAll publishes up to [streams.MaxBatch] observations of one origin as one message, a
// CloudEvents batch, and waits until each is in the ledger. Each observation is recorded or
// rejected individually. The replies are in the order of the observations, and the reply to a
// rejected one has its Error set. An error of ObserveAll concerns all observations. Sending the
// same observations again with the same ids does not duplicate any.
func (c *Client) ObserveAll(ctx context.Context, origin beliefs.Origin,
	os ...*streams.Observation) ([]*streams.ObserveReply, error) {
	subject, err := streams.ServiceSubject(streams.SvcObserve, c.project, c.agent, origin)
	if err != nil {
		return nil, err
	}
	events := make([]streams.Event, len(os))
	for i, o := range os {
		if _, err := c.bodyOf(o); err != nil {
			return nil, err
		}
		events[i] = o
	}
	body, err := streams.MarshalBatch(events)
	if err != nil {
		return nil, err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	rep := new(streams.ObserveReplies)
	err = c.do(ctx, func(ctx context.Context) error {
		request := message(ctx, subject, body)
		if request.Header == nil {
			request.Header = make(nats.Header)
		}
		request.Header.Set(streams.HeaderContentType, streams.BatchContentType)
		m, err := c.sent(ctx, request)
		if err != nil {
			return err
		}
		rep = new(streams.ObserveReplies)
		if err := streams.Unmarshal(m.Data, rep); err != nil {
			return &Error{Code: streams.CodeUnavailable, Message: fmt.Sprintf("the answer on %s cannot be read: %v", subject,
				err), err: err}
		}
		if rep.Error != nil {
			return &Error{Code: rep.Error.Code, Message: rep.Error.Message, answered: true}
		}
		if len(rep.Results) != len(os) {
			return &Error{Code: streams.CodeUnavailable,
				Message: fmt.Sprintf("the answer on %s has %d results for %d observations", subject, len(rep.Results), len(os))}
		}
		return nil
	})
	if rep.IntakeSeq != 0 {
		c.acknowledged(rep.IntakeSeq)
	}
	return rep.Results, err
}

// Rejected is an event of this agent that ingest rejected.
type Rejected struct {
	ID      string       `json:"id"`
	Session string       `json:"session"`
	Intake  uint64       `json:"intake"`
	Subject string       `json:"subject"`
	Code    streams.Code `json:"code"`
	Reason  string       `json:"reason"`
	Unseen  bool         `json:"unseen"` // the session is held because of it
}

// Rejections calls fn for every later event of this agent that is rejected, until stop is called.
// It uses the live feed, which is best-effort. Submit reads the ledger instead.
func (c *Client) Rejections(fn func(Rejected)) (stop func() error, err error) {
	subject, err := streams.LiveSubject(c.project, "rejected", c.agent)
	if err != nil {
		return nil, err
	}
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		// Another agent can direct an answer of a service to this subject, but not one with this header
		// (docs/decisions/0042).
		if m.Header.Get(streams.HeaderSeq) == "" {
			return
		}
		var r Rejected
		if streams.Unmarshal(m.Data, &r) == nil {
			fn(r)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("subscribing to %s: %w", subject, err)
	}
	return sub.Unsubscribe, nil
}

// StartSession starts a session. After that, no proposal of the session is held (LZ306) because of observations of the
// agent that were rejected earlier, whether they name this session or no session.
func (c *Client) StartSession(ctx context.Context, session string) (uint64, error) {
	return c.Publish(ctx, streams.KindSession, "", &streams.Session{Head: streams.Head{Session: session}, Phase: "start"})
}

// EndSession ends a session.
func (c *Client) EndSession(ctx context.Context, session string) (uint64, error) {
	return c.Publish(ctx, streams.KindSession, "", &streams.Session{Head: streams.Head{Session: session}, Phase: "end"})
}
