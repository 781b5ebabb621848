package client

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// PollInterval is how often Await asks although it has heard nothing: the live
// feed is a best-effort copy, and the ledger is not.
const PollInterval = 15 * time.Second

// Open says that a reply is a hold which still waits for a person. A hold that
// expired or was withdrawn stays a hold and is not open.
func Open(rep *Reply) bool {
	return rep != nil && rep.Verdict == streams.Hold && rep.Entry != nil && rep.Entry.Hold != nil
}

// Await waits until the hold of an action has ended, and returns the verdict
// then: allow if a person approved it, deny if one rejected it, and a hold that
// is not open (see Open) if it expired or was withdrawn. Pass the action as it
// was proposed, with its id, and the reply. A reply that is no open hold is
// returned as it is.
//
// The reply was read back from the ledger, never taken from the live
// feed. When ctx ends first, the last reply comes with its error; the hold goes
// on, and the same action, proposed again with its id, is answered by it.
func (c *Client) Await(ctx context.Context, a *streams.Action, rep *Reply) (*Reply, error) {
	return c.await(ctx, streams.SvcDecide, "", a, rep)
}

// AwaitMemory is Await for a memory write.
func (c *Client) AwaitMemory(ctx context.Context, origin beliefs.Origin, m *streams.Memory, rep *Reply) (*Reply,
	error) {
	return c.await(ctx, streams.SvcRemember, origin, m, rep)
}

func (c *Client) await(ctx context.Context, svc streams.Service, origin beliefs.Origin, e streams.Event,
	rep *Reply) (*Reply, error) {
	if !Open(rep) {
		return rep, nil
	}
	subject, err := streams.LiveSubject(c.project, "hold", c.agent, rep.Entry.Hold.ID)
	if err != nil {
		return rep, fmt.Errorf("the reply's hold: %w", err)
	}
	news := make(chan *nats.Msg, 16)
	sub, err := c.nc.ChanSubscribe(subject+".*", news)
	if err != nil {
		return rep, &Error{Code: streams.CodeUnavailable, Message: fmt.Sprintf("subscribing to %s: %v", subject, err),
			err: err}
	}
	defer sub.Unsubscribe()
	// The server knows of the subscription before it gets the next question:
	// whatever ended the hold before that is in the answer, and whatever ends
	// it later is heard. That is why there is no race with Decide.
	for {
		again, err := c.ask(ctx, svc, origin, e)
		switch {
		case err == nil && !Open(again):
			return again, nil
		case err == nil:
			rep = again
		case ctx.Err() != nil:
			return rep, ctx.Err()
		}
		poll := time.NewTimer(PollInterval)
		select {
		case <-ctx.Done():
		case <-news:
		case <-poll.C:
		}
		poll.Stop()
		if ctx.Err() != nil {
			return rep, ctx.Err()
		}
	}
}
