// This file serves GET /v1/holds/{id}. The stream GET /v1/holds is in feed.go.

package gateway

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"lazaret/client"
	"lazaret/internal/arbiter"
	"lazaret/internal/natsserver"
	"lazaret/internal/query"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// proposed is a proposal that can be sent again.
type proposed struct {
	svc    streams.Service
	origin beliefs.Origin
	event  streams.Event
	size   int // length of the body in bytes
}

// ask sends the proposal and returns the verdict. If the proposal was sent before, ask returns its current
// verdict.
func (p *proposed) ask(ctx context.Context, cl *client.Client) (*client.Reply, error) {
	switch e := p.event.(type) {
	case *streams.Action:
		return cl.Decide(ctx, e)
	case *streams.Memory:
		return cl.Remember(ctx, p.origin, e)
	}
	return nil, problem(streams.CodeUnknownKind, "%T is not a proposal", p.event)
}

func (p *proposed) await(ctx context.Context, cl *client.Client, rep *client.Reply) (*client.Reply, error) {
	switch e := p.event.(type) {
	case *streams.Action:
		return cl.Await(ctx, e, rep)
	case *streams.Memory:
		return cl.AwaitMemory(ctx, p.origin, e, rep)
	}
	return rep, nil
}

// Limits of the held proposals that are remembered for each credential. If a proposal was dropped, its client must send
// it again to learn the verdict.
const (
	maxHolds     = 4096
	maxHoldBytes = 16 << 20
)

// holds are the held proposals of one credential, oldest first.
type holds struct {
	by    map[string]*proposed
	order []string
	bytes int
}

func (h *holds) keep(id string, p *proposed) {
	if h.by == nil {
		h.by = make(map[string]*proposed)
	}
	if h.by[id] != nil {
		return
	}
	h.by[id], h.order, h.bytes = p, append(h.order, id), h.bytes+p.size
	for len(h.order) > maxHolds || h.bytes > maxHoldBytes {
		oldest := h.order[0]
		h.order, h.bytes = h.order[1:], h.bytes-h.by[oldest].size
		delete(h.by, oldest)
	}
}

// propose asks for a verdict and remembers the proposal if it is held. It then waits for the hold to be
// resolved if the caller asked for a wait.
func (c *call) propose(p *proposed) (*client.Reply, error) {
	var rep *client.Reply
	err := c.asks(p.svc, p.origin, func(ctx context.Context) (err error) {
		rep, err = p.ask(ctx, c.s.client)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !client.Open(rep) {
		return rep, nil
	}
	c.d.mu.Lock()
	c.d.holds.keep(rep.Entry.Hold.ID, p)
	c.d.mu.Unlock()
	if c.wait == 0 {
		return rep, nil
	}
	return c.waiting(rep, func(ctx context.Context) (*client.Reply, error) { return p.await(ctx, c.s.client, rep) })
}

// waiting calls await, which waits until an open hold is resolved. It cancels await after the time that the
// caller asked for, or when the token becomes invalid.
func (c *call) waiting(rep *client.Reply, await func(context.Context) (*client.Reply, error)) (*client.Reply, error) {
	leave, ok := enter(c.users.waiting)
	if !ok {
		return nil, tooMany(MaxWaiting, "wait")
	}
	defer leave()
	c.leave() // a waiting request does not count as a running one
	ctx, cancel := context.WithTimeout(c.ctx, c.wait)
	defer cancel()
	var revoked atomic.Bool
	go func() {
		check := time.NewTicker(checkToken)
		defer check.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-check.C:
			}
			if !c.find() || c.s.refused.Load() {
				revoked.Store(true)
				cancel()
				return
			}
		}
	}()
	last, err := await(ctx)
	if c.s.refused.Load() {
		return nil, c.d.refusal()
	}
	if revoked.Load() || !c.find() {
		return nil, problem(streams.CodeToken, "the token was revoked or has expired while the request waited")
	}
	if err != nil && c.ctx.Err() != nil {
		return nil, err
	}
	if last == nil {
		last = rep
	}
	return last, nil // the hold is still open
}

// hold returns the current verdict on a held proposal. It sends the proposal again if it is remembered. Otherwise it
// reads the hold's state from the arbiter.
func hold(c *call) (any, error) {
	id := c.r.PathValue("id")
	c.d.mu.Lock()
	p := c.d.holds.by[id]
	c.d.mu.Unlock()
	if p != nil {
		return c.propose(p)
	}
	rep, err := c.holdState(c.ctx, id)
	if err != nil || c.wait == 0 || !client.Open(rep) {
		return rep, err
	}
	subject := "lz.live." + c.s.project + ".hold." + c.s.agent + "." + id + ".>"
	return c.waiting(rep, func(ctx context.Context) (*client.Reply, error) {
		news, err := listen(ctx, c.s.nc, subject)
		if err != nil {
			return rep, err
		}
		defer news.stop()
		for pause := time.Millisecond; ; {
			last, err := c.holdState(ctx, id)
			if err != nil || !client.Open(last) {
				return last, err
			}
			next, cancel := context.WithTimeout(ctx, pause)
			_, err = news.next(next)
			cancel()
			if ctx.Err() != nil {
				return last, nil
			}
			if pause = heartbeat; err == nil {
				pause = 100 * time.Millisecond // a live event can precede the arbiter's record
			}
		}
	})
}

// holdState returns the state of a hold from the arbiter's record. It reads with the credential of the
// role viewer, and returns "not found" unless the hold belongs to the caller's agent.
func (c *call) holdState(ctx context.Context, id string) (*client.Reply, error) {
	unknown := status(http.StatusNotFound,
		problem(streams.CodeNotHere, "this agent has no such hold, or it ended long ago"))
	if !streams.ValidID(id) {
		return nil, unknown
	}
	s, err := c.g.login(string(natsserver.RoleViewer)).open()
	if err != nil {
		c.g.cfg.Log.Debug("holds from before the gateway's start cannot be looked up, because they are read with the "+
			"credential viewer", "err", err)
		return nil, status(http.StatusNotFound, problem(streams.CodeNotHere, "the gateway does not remember "+
			"the hold, and has no credential %s to look it up", natsserver.RoleViewer))
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var page []arbiter.Hold
	if err := query.Ask(ctx, s.nc, arbiter.AskHolds, streams.PartitionOf(c.s.project),
		arbiter.HoldsRequest{Project: c.s.project, ID: id}, &page); err != nil {
		return nil, problem(streams.CodeUnavailable, "reading the hold: %v", err)
	}
	if len(page) != 1 || page[0].Project != c.s.project || page[0].Agent != c.s.agent {
		return nil, unknown
	}
	v := &page[0].Verdict
	return &client.Reply{Verdict: v.Verdict, Entry: v}, nil
}
