package mcpproxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Limits on the time for which a client waits after the server or the pipeline was lost.
const (
	abandonTime = 10 * time.Second
	// silence is the time for which NATS may be disconnected. After that, a call that waits for the pipeline fails. It
	// is long enough for a NATS server that is restarted at once.
	silence = 700 * time.Millisecond
)

// abandon is called after the server has ended. It answers the waiting requests of the client with an error. For each
// tools/call that the server had received, it records the outcome "error". If the server has failed, abandon returns
// the server's error.
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
		// does not block, because the channel has room for one response
		q.answer <- fault(id, jsonrpc.CodeInternalError, text)
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

// reach calls f. It cancels f if NATS has been disconnected for too long.
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
