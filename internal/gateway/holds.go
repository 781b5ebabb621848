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

// proposed is a proposal as it was asked, to ask again.
type proposed struct {
	svc    streams.Service
	origin beliefs.Origin
	event  streams.Event
	size   int // of its body, in bytes
}

// ask asks for the verdict. Asked again, the same proposal is answered.
func (p *proposed) ask(ctx context.Context, cl *client.Client) (*client.Reply, error) {
	switch e := p.event.(type) {
	case *streams.Action:
		return cl.Decide(ctx, e)
	case *streams.Memory:
		return cl.Remember(ctx, p.origin, e)
	}
	return nil, problem(streams.CodeUnknownKind, "%T is no proposal", p.event)
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

// Bounds of the held proposals that a door keeps. A client that asks for a hold which is no
// longer kept must send the proposal again.
const (
	maxHolds     = 4096
	maxHoldBytes = 16 << 20
)

// holds are the proposals of one credential that are held, oldest first.
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

// propose asks for a verdict, keeps the proposal if it is held, and waits if the
// caller wants that.
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

// waiting calls await for at most the time that the caller wants to wait for an open
// hold. It ends when the token ends.
func (c *call) waiting(rep *client.Reply, await func(context.Context) (*client.Reply, error)) (*client.Reply, error) {
	leave, ok := enter(c.users.waiting)
	if !ok {
		return nil, tooMany(MaxWaiting, "wait")
	}
	defer leave()
	c.leave() // others may ask meanwhile
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
			if !c.find() {
				revoked.Store(true)
				cancel()
				return
			}
		}
	}()
	last, err := await(ctx)
	if revoked.Load() || !c.find() {
		return nil, problem(streams.CodeToken, "the token was revoked or has expired while it waited")
	}
	if err != nil && c.ctx.Err() != nil {
		return nil, err
	}
	if last == nil {
		last = rep
	}
	return last, nil // the hold, if the time was not enough
}

// hold asks again for the proposal of a hold. If the proposal is not known here, it asks
// the arbiter how the hold stands.
func hold(c *call) (any, error) {
	id := c.r.PathValue("id")
	c.d.mu.Lock()
	p := c.d.holds.by[id]
	c.d.mu.Unlock()
	if p != nil {
		return c.propose(p)
	}
	rep, err := c.standing(c.ctx, id)
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
			last, err := c.standing(ctx, id)
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
				pause = 100 * time.Millisecond // the arbiter may still be about to store what was heard
			}
		}
	})
}

// standing is how a hold stands, by the arbiter's record. The credential of the role
// viewer reads it, and only the agent whose hold it is gets it.
func (c *call) standing(ctx context.Context, id string) (*client.Reply, error) {
	unknown := status(http.StatusNotFound,
		problem(streams.CodeNotHere, "the hold is not one of this agent's, or ended long ago"))
	if !streams.ValidID(id) {
		return nil, unknown
	}
	s, err := c.g.door(string(natsserver.RoleViewer)).open()
	if err != nil {
		c.g.cfg.Log.Debug("holds from before the start cannot be looked up", "err", err)
		return nil, status(http.StatusNotFound, problem(streams.CodeNotHere, "the hold is not known here any more, and this "+
			"gateway has no credential %s to look it up", natsserver.RoleViewer))
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var page []arbiter.Hold
	if err := query.Ask(ctx, s.nc, arbiter.AskHolds, streams.PartitionOf(c.s.project),
		arbiter.HoldsRequest{Project: c.s.project, ID: id}, &page); err != nil {
		return nil, problem(streams.CodeUnavailable, "the hold is not read: %v", err)
	}
	if len(page) != 1 || page[0].Project != c.s.project || page[0].Agent != c.s.agent {
		return nil, unknown
	}
	v := &page[0].Verdict
	return &client.Reply{Verdict: v.Verdict, Entry: v}, nil
}
