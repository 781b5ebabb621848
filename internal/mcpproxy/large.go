package mcpproxy

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/sync/semaphore"

	"lazaret/internal/mcpwire"
)

// Large answers are read, recorded in parts, and passed on whole. A proxy has several copies of such an
// answer in memory, so the large answers of all proxies of a process share a limit. A proxy reads no
// further message of its server until there is room for the answer.
const (
	largeAnswer = 1 << 20 // bytes; smaller answers are not counted
	largeBound  = mcpwire.MaxMessage
)

var large = semaphore.NewWeighted(largeBound)

// enter waits for room for an answer. It returns false if the answer came twice or ctx ended.
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
	if p.calls[m.ID] != c { // it was cancelled meanwhile
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
