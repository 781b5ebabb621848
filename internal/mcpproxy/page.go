package mcpproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"lazaret/client"
	"lazaret/streams"
)

// approver notes whether a client opens a URL for its user, as it says when it introduces
// itself (elicitation.url, since 2025-11-25).
func (p *Proxy) approver(r *jsonrpc.Request) {
	var said struct {
		Capabilities struct {
			Elicitation struct {
				URL *struct{} `json:"url"`
			} `json:"elicitation"`
		} `json:"capabilities"`
	}
	asks := json.Unmarshal(r.Params, &said) == nil && said.Capabilities.Elicitation.URL != nil
	p.mu.Lock()
	p.asks = asks
	p.mu.Unlock()
}

// page shows a person where to approve a hold, if the client can open a URL and there is
// such a page. The answer says nothing about the hold, which waits as before. The function
// that page returns tells the client when the hold has ended.
func (p *Proxy) page(ctx context.Context, a *streams.Action, rep *client.Reply) (over func(then *client.Reply)) {
	p.mu.Lock()
	asks := p.asks && p.cfg.ApprovalURL != ""
	p.mu.Unlock()
	if !asks || !client.Open(rep) {
		return func(*client.Reply) {}
	}
	hold := rep.Entry.Hold.ID
	p.wg.Go(func() {
		_, err := p.request(ctx, p.up, "elicitation/create", map[string]any{
			"mode": "url", "elicitationId": hold, "url": strings.ReplaceAll(p.cfg.ApprovalURL, "{hold}", hold),
			"message": fmt.Sprintf("%s waits for a person to approve hold %s.", a.Tool, hold),
		})
		if err != nil && ctx.Err() == nil {
			p.cfg.Log.Warn("the client did not show the approval page", "hold", hold, "err", err)
		}
	})
	return func(then *client.Reply) {
		if client.Open(then) {
			return
		}
		body, err := json.Marshal(map[string]string{"elicitationId": hold})
		if err == nil {
			p.send(p.up, &jsonrpc.Request{Method: "notifications/elicitation/complete", Params: body})
		}
	}
}
