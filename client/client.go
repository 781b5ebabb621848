// Package client is the Go client of Lazaret. It is a convenience: everything
// it does is one NATS publish or one NATS request, described in docs/protocol.md,
// and any NATS client in any language can do the same.
//
// A host program around an agent uses it in three places: it publishes what
// the agent is about to be shown (Observe) and shows it only after the call
// returned; it asks before the agent writes to its memory (Remember) and
// before it acts (Decide); and it treats every error as hold.
package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Client speaks for one agent of one project. It is safe for concurrent use.
type Client struct {
	js      jetstream.JetStream
	nc      *nats.Conn
	project string
	agent   string
}

// New returns a client over a connection whose credential speaks for the
// agent. The connection stays the caller's to close.
func New(nc *nats.Conn, project, agent string) (*Client, error) {
	if _, err := streams.IntakeSubject(project, agent, streams.KindAct, ""); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	return &Client{js: js, nc: nc, project: project, agent: agent}, nil
}

// NewID returns an identifier for an event. A caller that may have to send an
// event again makes the id first and sends it with every try.
func NewID() string { return nuid.Next() }

// Error is an answer without a verdict. Callers must treat it as hold.
type Error struct {
	Code    streams.Code
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Reply is the answer to a proposal.
type Reply = streams.Reply

// Publish stores an event in the intake and returns its sequence. The event's
// ID is set if it is empty.
func (c *Client) Publish(ctx context.Context, kind streams.Kind, origin beliefs.Origin, e streams.Event) (uint64, error) {
	subject, err := streams.IntakeSubject(c.project, c.agent, kind, origin)
	if err != nil {
		return 0, err
	}
	if h := streams.HeadOf(e); h.ID == "" {
		h.ID = NewID()
	}
	body, err := streams.Marshal(e)
	if err != nil {
		return 0, err
	}
	ack, err := c.js.Publish(ctx, subject, body)
	if err != nil {
		return 0, fmt.Errorf("publishing to %s: %w", subject, err)
	}
	return ack.Sequence, nil
}

// Observe publishes what the agent is about to be shown. Show it only after
// Observe returned without an error.
func (c *Client) Observe(ctx context.Context, origin beliefs.Origin, o *streams.Observation) (uint64, error) {
	return c.Publish(ctx, streams.KindObs, origin, o)
}

// Decide asks for a verdict on an action.
func (c *Client) Decide(ctx context.Context, a *streams.Action) (*Reply, error) {
	return c.ask(ctx, streams.SvcDecide, "", a)
}

// Remember asks for a verdict on a memory write.
func (c *Client) Remember(ctx context.Context, origin beliefs.Origin, m *streams.Memory) (*Reply, error) {
	return c.ask(ctx, streams.SvcRemember, origin, m)
}

// Recall asks what of memory may enter the agent's context.
func (c *Client) Recall(ctx context.Context, r *streams.Recall) (*Reply, error) {
	return c.ask(ctx, streams.SvcRecall, "", r)
}

// Gate asks which candidates of another memory store may enter the agent's
// context.
func (c *Client) Gate(ctx context.Context, r *streams.Recall) (*Reply, error) {
	return c.ask(ctx, streams.SvcGate, "", r)
}

// DefaultTimeout applies to requests whose context has no deadline.
const DefaultTimeout = 20 * time.Second

func (c *Client) ask(ctx context.Context, svc streams.Service, origin beliefs.Origin, e streams.Event) (*Reply, error) {
	subject, err := streams.ServiceSubject(svc, c.project, c.agent, origin)
	if err != nil {
		return nil, err
	}
	if h := streams.HeadOf(e); h.ID == "" {
		h.ID = NewID()
	}
	body, err := streams.Marshal(e)
	if err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	m, err := c.nc.RequestWithContext(ctx, subject, body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, &Error{streams.CodeUnavailable, "nobody answers on " + subject + ": is the arbiter running, and may this credential ask there?"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return nil, &Error{streams.CodeTimeout, "no answer on " + subject}
	case err != nil:
		return nil, fmt.Errorf("asking %s: %w", subject, err)
	}
	rep := new(Reply)
	if err := streams.Unmarshal(m.Data, rep); err != nil {
		return nil, fmt.Errorf("answer on %s: %w", subject, err)
	}
	if rep.Error != nil {
		return rep, &Error{rep.Error.Code, rep.Error.Message}
	}
	return rep, nil
}
