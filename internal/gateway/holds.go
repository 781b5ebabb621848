package gateway

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"lazaret/client"
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

// The bounds of what a door keeps of held proposals. Whoever asks for a hold that is
// not kept any more asks with the proposal again.
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
	last, err := p.await(ctx, c.s.client, rep)
	if revoked.Load() || !c.find() {
		return nil, problem(streams.CodeToken, "the token was revoked or has expired while it waited")
	}
	if err != nil && c.ctx.Err() != nil {
		return nil, err
	}
	return last, nil // the hold, if the time was not enough
}

// hold asks again for the proposal of a hold.
func hold(c *call) (any, error) {
	c.d.mu.Lock()
	p := c.d.holds.by[c.r.PathValue("id")]
	c.d.mu.Unlock()
	if p == nil {
		return nil, status(http.StatusNotFound,
			problem(streams.CodeNotHere, "the hold is not one of this agent's, or not known here any more"))
	}
	return c.propose(p)
}
