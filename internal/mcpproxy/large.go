package mcpproxy

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/sync/semaphore"

	"lazaret/internal/mcpwire"
)

// The proxy records a large answer in parts, but passes it on as a whole. For that, it needs several copies of the
// answer in memory. So there is a limit for the bytes of all large answers in a process, which may run several proxies.
// If another large answer would exceed the limit, the proxy that received it waits, and meanwhile reads no message of
// its server.
const (
	largeAnswer = 1 << 20 // bytes; smaller answers are not counted
	largeBound  = mcpwire.MaxMessage
)

var large = semaphore.NewWeighted(largeBound)

// enter waits until the limit has room for a large answer. It returns false in three cases: the call has an answer
// already, the call was cancelled, or ctx has ended.
func (p *Proxy) enter(ctx context.Context, c *call, m *jsonrpc.Response) bool {
	n := min(int64(len(m.Result)), largeBound)
	if n < largeAnswer {
		return true
	}
	p.mu.Lock()
	twice := c.size > 0
	p.mu.Unlock()
	if twice || large.Acquire(ctx, n) != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[m.ID] != c { // the call was cancelled meanwhile
		large.Release(n)
		return false
	}
	c.size = n
	return true
}

// leave gives back the room that a call's answer has in the limit.
func (p *Proxy) leave(c *call) {
	p.mu.Lock()
	n := c.size
	c.size = 0
	p.mu.Unlock()
	if n > 0 {
		large.Release(n)
	}
}
