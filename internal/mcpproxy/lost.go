package mcpproxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Limits on how long a client waits after the server or the pipeline is lost.
const (
	abandonTime = 10 * time.Second
	// silence is how long NATS may be disconnected before a call that waits for the pipeline fails. It
	// covers an immediate restart of the NATS server.
	silence = 700 * time.Millisecond
)

// abandon answers the client's waiting requests with an error after the server has ended. It
// records the outcome "error" for each tools/call that the server had received. If the server
// failed, abandon returns the server's error.
func (p *Proxy) abandon(err error) error {
	text := "the server ended before it answered"
	if err != nil {
		text += ": " + err.Error()
		err = fmt.Errorf("the MCP server ended: %w", err)
	}
	p.mu.Lock()
	var passed, waiting []jsonrpc.ID
	for id, c := range p.calls {
		if c.passed {
			passed = append(passed, id)
		} else {
			waiting = append(waiting, id)
			c.cancel()
		}
	}
	for id, q := range p.own {
		if q.to != p.down {
			continue
		}
		q.answer <- fault(id, jsonrpc.CodeInternalError, text) // does not block: the channel has room for one
		delete(p.own, id)
	}
	p.mu.Unlock()
	for _, id := range passed {
		p.answered(p.ctx, fault(id, jsonrpc.CodeInternalError, text))
	}
	for _, id := range waiting {
		if p.done(id) {
			p.send(p.up, fault(id, jsonrpc.CodeInternalError, text))
		}
	}
	all := make(chan struct{})
	go func() { p.serving.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(abandonTime):
	}
	return err
}

var errUnreachable = errors.New("the pipeline cannot be reached: the connection with NATS is lost")

// reach calls f, and cancels it when NATS has been disconnected for too long.
func reach[T any](ctx context.Context, p *Proxy, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		const every = silence / 7
		t := time.NewTicker(every)
		defer t.Stop()
		for away := time.Duration(0); away < silence; {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if away += every; p.host.Connected() {
				away = 0
			}
		}
		cancel(errUnreachable)
	}()
	v, err := f(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errUnreachable) {
		err = errUnreachable
	}
	return v, err
}
