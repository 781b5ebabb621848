package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Client acts for one agent of one project. It is safe for concurrent use.
type Client struct {
	js      jetstream.JetStream
	nc      *nats.Conn
	project string
	agent   string
	retry   Retry
	about   string

	last atomic.Uint64 // highest acknowledged intake sequence
}

// Option changes a client.
type Option func(*Client)

// WithRetry replaces DefaultRetry.
func WithRetry(r Retry) Option { return func(c *Client) { c.retry = r } }

// About sets the data subject of every event that has none. dataSubject is a pseudonym of the person whom the agent
// serves, never a name or an address. An operator can order that the events of a data subject in the project are
// forgotten (docs/forgetting.md).
func About(dataSubject string) Option { return func(c *Client) { c.about = dataSubject } }

// New returns a client over a connection whose credential is for the agent. The caller closes the
// connection.
func New(nc *nats.Conn, project, agent string, opts ...Option) (*Client, error) {
	if _, err := streams.IntakeSubject(project, agent, streams.KindAct, ""); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	c := &Client{js: js, nc: nc, project: project, agent: agent, retry: DefaultRetry}
	for _, o := range opts {
		o(c)
	}
	if c.about != "" {
		if err := streams.CheckID("data subject", c.about); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// NewID returns a new event id. A caller that may have to send an event again makes the id first
// and uses it for every try.
func NewID() string { return nuid.Next() }

// Reply is the answer to a proposal.
type Reply = streams.Reply

// Publish stores an event in the intake and returns its sequence. The event's
// ID is set if it is empty.
func (c *Client) Publish(ctx context.Context, kind streams.Kind, origin beliefs.Origin, e streams.Event) (uint64,
	error) {
	subject, err := streams.IntakeSubject(c.project, c.agent, kind, origin)
	if err != nil {
		return 0, err
	}
	body, err := c.bodyOf(e)
	if err != nil {
		return 0, err
	}
	return c.PublishRaw(ctx, subject, body)
}

// PublishRaw is like Publish, for an event that is already encoded, such as one that an earlier
// process could not send. Make the subject with streams.IntakeSubject.
func (c *Client) PublishRaw(ctx context.Context, subject string, body []byte) (uint64, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	var seq uint64
	err := c.do(ctx, func(ctx context.Context) error {
		ack, err := c.js.PublishMsg(ctx, message(ctx, subject, body))
		if err != nil {
			return refused(subject, err)
		}
		seq = ack.Sequence
		return nil
	})
	if err == nil {
		c.acknowledged(seq)
	}
	return seq, err
}

// Observe publishes content that the agent is about to be shown. Show it only after Observe
// returned without an error.
func (c *Client) Observe(ctx context.Context, origin beliefs.Origin, o *streams.Observation) (uint64, error) {
	return c.Publish(ctx, streams.KindObs, origin, o)
}

// Decide asks for a verdict on an action.
func (c *Client) Decide(ctx context.Context, a *streams.Action) (*Reply, error) {
	c.after(&a.Head, &a.After)
	return c.ask(ctx, streams.SvcDecide, "", a)
}

// Remember asks for a verdict on a memory write.
func (c *Client) Remember(ctx context.Context, origin beliefs.Origin, m *streams.Memory) (*Reply, error) {
	c.after(&m.Head, &m.After)
	return c.ask(ctx, streams.SvcRemember, origin, m)
}

// Recall asks which memories may enter the agent's context.
func (c *Client) Recall(ctx context.Context, r *streams.Recall) (*Reply, error) {
	c.after(&r.Head, &r.After)
	return c.ask(ctx, streams.SvcRecall, "", r)
}

// Gate asks which candidates of another memory store may enter the agent's context.
func (c *Client) Gate(ctx context.Context, r *streams.Recall) (*Reply, error) {
	c.after(&r.Head, &r.After)
	return c.ask(ctx, streams.SvcGate, "", r)
}

// Executed reports the result of a released action. status is ok, error or skipped. The outcome has
// the verdict's digest of the action, so that an executor which carried out a different action is
// detected.
func (c *Client) Executed(ctx context.Context, a *streams.Action, rep *Reply, status string) (uint64, error) {
	o := &streams.Outcome{Head: streams.Head{Session: a.Session}, Action: a.ID, Status: status}
	if rep != nil && rep.Entry != nil {
		o.Digest = rep.Entry.Digest
	}
	return c.Publish(ctx, streams.KindOut, "", o)
}

// Withdraw cancels the hold of a proposal of this agent.
func (c *Client) Withdraw(ctx context.Context, session, id string) error {
	_, err := c.Publish(ctx, streams.KindOut, "", &streams.Outcome{Head: streams.Head{Session: session}, Action: id,
		Status: streams.HoldCancelled})
	return err
}

// LastAcknowledged returns the highest intake sequence that was acknowledged to this client, or
// zero.
func (c *Client) LastAcknowledged() uint64 { return c.last.Load() }

// Connected reports whether the client is connected to NATS now.
func (c *Client) Connected() bool { return c.nc.IsConnected() }

func (c *Client) acknowledged(seq uint64) {
	for {
		old := c.last.Load()
		if seq <= old || c.last.CompareAndSwap(old, seq) {
			return
		}
	}
}

// after sets *seq to the last acknowledged sequence if the proposal has no id. Such a proposal is certainly sent for
// the first time. A proposal with an id may be a repeat, which must have the same *seq as the first one, so after
// leaves its *seq unchanged.
func (c *Client) after(h *streams.Head, seq *uint64) {
	if h.ID == "" && *seq == 0 {
		*seq = c.last.Load()
	}
}

// DefaultTimeout applies to calls whose context has no deadline.
const DefaultTimeout = 20 * time.Second

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}

func (c *Client) bodyOf(e streams.Event) ([]byte, error) {
	h := streams.HeadOf(e)
	if h.ID == "" {
		h.ID = NewID()
	}
	if h.DataSubject == "" {
		h.DataSubject = c.about
	}
	return streams.Marshal(e)
}

func (c *Client) ask(ctx context.Context, svc streams.Service, origin beliefs.Origin, e streams.Event) (*Reply, error) {
	subject, err := streams.ServiceSubject(svc, c.project, c.agent, origin)
	if err != nil {
		return nil, err
	}
	body, err := c.bodyOf(e)
	if err != nil {
		return nil, err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	var rep *Reply
	err = c.do(ctx, func(ctx context.Context) (err error) {
		if rep, err = c.request(ctx, subject, body); err != nil || rep.Entry == nil {
			return err
		}
		if err := approval.CheckVerdict(rep.Entry, c.project, c.agent, e); err != nil {
			return &Error{Code: streams.CodeTaken, Message: err.Error(), err: err, answered: true}
		}
		return nil
	})
	if rep != nil && rep.IntakeSeq != 0 {
		c.acknowledged(rep.IntakeSeq)
	}
	return rep, err
}

// do calls f as often as the client's retry says. If there was no answer because the server refuses the
// connection's credential, do returns LZ209.
func (c *Client) do(ctx context.Context, f func(context.Context) error) error {
	err := c.retry.do(ctx, f)
	var e *Error
	if !errors.As(err, &e) || e.answered || c.nc.IsConnected() {
		return err
	}
	switch last := c.nc.LastError(); {
	case errors.Is(last, nats.ErrAuthorization), errors.Is(last, nats.ErrAuthRevoked),
		errors.Is(last, nats.ErrAuthExpired),
		errors.Is(last, nats.ErrAccountAuthExpired):
		return &Error{Code: streams.CodeCredential, Message: fmt.Sprintf("the NATS server refuses the credential of "+
			"%s/%s (%v): it was revoked or has expired", c.project, c.agent, last), err: err}
	}
	return err
}

// asked sends a request. Its errors are of type *Error.
func (c *Client) asked(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	return c.sent(ctx, message(ctx, subject, body))
}

// sent is like asked, for a message.
func (c *Client) sent(ctx context.Context, request *nats.Msg) (*nats.Msg, error) {
	subject := request.Subject
	m, err := c.nc.RequestMsgWithContext(ctx, request)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, &Error{Code: streams.CodeUnavailable, Message: "nobody answers on " + subject +
			": is the pipeline running, and may this credential ask there?", err: err}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		e := &Error{Code: streams.CodeTimeout, Message: "no answer on " + subject, err: err}
		// For a forbidden subject the server reports the violation on the connection and does not
		// answer the request.
		if last := c.nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(),
			strconv.Quote(subject)) {
			e.Code, e.Message, e.forbidden = streams.CodeUnavailable, "this credential may not publish to "+subject, true
		}
		return nil, e
	case errors.Is(err, context.Canceled):
		return nil, err
	case err != nil:
		return nil, &Error{Code: streams.CodeUnavailable, Message: fmt.Sprintf("asking %s: %v", subject, err), err: err}
	}
	return m, nil
}

func (c *Client) request(ctx context.Context, subject string, body []byte) (*Reply, error) {
	m, err := c.asked(ctx, subject, body)
	if err != nil {
		return nil, err
	}
	rep, err := readReply(m.Data)
	if err != nil {
		return nil, &Error{Code: streams.CodeUnavailable, Message: fmt.Sprintf("the answer on %s cannot be read: %v",
			subject, err), err: err}
	}
	if rep.Error != nil {
		return rep, &Error{Code: rep.Error.Code, Message: rep.Error.Message, answered: true}
	}
	return rep, nil
}

// readReply decodes an answer. An answer without a verdict or an error is refused, because the zero
// Verdict is Allow.
func readReply(data []byte) (*Reply, error) {
	rep := new(Reply)
	var said struct {
		Verdict *streams.Verdict `json:"verdict"`
	}
	if err := errors.Join(streams.Unmarshal(data, rep), streams.Unmarshal(data, &said)); err != nil {
		return nil, err
	}
	if said.Verdict == nil && rep.Error == nil {
		return nil, errors.New("it names no verdict")
	}
	return rep, nil
}
