package mcpproxy

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/sync/semaphore"

	"lazaret/internal/mcpwire"
)

// The proxy records a large answer in parts, and passes it on as a whole. It needs several copies of the answer
// in memory. So all proxies of a process share a limit for the bytes of large answers. While the limit is
// exceeded, a proxy that has received a large answer reads no further message of its server.
const (
	largeAnswer = 1 << 20 // bytes; smaller answers are not counted
	largeBound  = mcpwire.MaxMessage
)

var large = semaphore.NewWeighted(largeBound)

// enter waits until the limit of large answers has room for an answer. It returns false if the answer came
// twice, if its call was cancelled, or if ctx ended.
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

// leave releases the room of a call's answer.
func (p *Proxy) leave(c *call) {
	p.mu.Lock()
	n := c.size
	c.size = 0
	p.mu.Unlock()
	if n > 0 {
		large.Release(n)
	}
}
