package client

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// PollInterval is the time after which Await asks again if it gets no message of the live feed, which may lose
// messages.
const PollInterval = 15 * time.Second

// Open reports whether a reply is a hold that still waits for a person. It is false for a hold that
// expired or was withdrawn.
func Open(rep *Reply) bool {
	return rep != nil && rep.Verdict == streams.Hold && rep.Entry != nil && rep.Entry.Hold != nil
}

// Await waits until the hold of an action ends, and returns the verdict then: allow if a person
// approved it, deny if a person rejected it, and a hold that is not open (see Open) if it expired
// or was withdrawn. a is the action as proposed, including its id, and rep is the reply to it. If
// rep is not an open hold, Await returns it.
//
// The returned reply is read from the ledger, never from the live feed. If ctx ends first, Await
// returns the last reply with the context's error. The hold continues, and proposing the same
// action with the same id again returns its answer.
func (c *Client) Await(ctx context.Context, a *streams.Action, rep *Reply) (*Reply, error) {
	return c.await(ctx, streams.SvcDecide, "", a, rep)
}

// AwaitMemory is like Await, for a memory write.
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
		return rep, fmt.Errorf("the reply has a hold whose id is not valid: %w", err)
	}
	news := make(chan *nats.Msg, 16)
	sub, err := c.nc.ChanSubscribe(subject+".*", news)
	if err != nil {
		return rep, &Error{Code: streams.CodeUnavailable, Message: fmt.Sprintf("subscribing to %s: %v", subject, err),
			err: err}
	}
	defer sub.Unsubscribe()
	// Subscribe before the first request, so that the end of the hold is not missed. The server knows of the
	// subscription before it receives the request. If the hold ended before the request, the answer to the request says
	// so. If the hold ends after it, the subscription delivers the end.
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
