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

// approver records whether the client can open a URL for its user. A client says so in initialize (elicitation.url,
// since version 2025-11-25).
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

// page asks the client to open the approval page of a hold. It does so only if the client can open a URL and an
// approval page is configured. The client's answer has no effect on the hold. When the hold has ended, the caller must
// call over, which tells the client that.
func (p *Proxy) page(ctx context.Context, a *streams.Action, rep *client.Reply) (over func(then *client.Reply)) {
	p.mu.Lock()
	asks := p.asks && p.cfg.ApprovalURL != ""
	p.mu.Unlock()
	if !asks || !client.Open(rep) {
		return func(*client.Reply) {}
	}
	hold := rep.Entry.Hold.ID
	p.wg.Go(func() {
		_, err := p.request(ctx, p.up, "elicitation/create", p.pageParams(a, rep))
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

// pageParams returns the params of a request that asks a client to show the approval page of a hold.
func (p *Proxy) pageParams(a *streams.Action, rep *client.Reply) map[string]any {
	hold := rep.Entry.Hold.ID
	return map[string]any{
		"mode": "url", "elicitationId": hold, "url": strings.ReplaceAll(p.cfg.ApprovalURL, "{hold}", hold),
		"message": fmt.Sprintf("%s waits for a person to approve hold %s.", a.Tool, hold),
	}
}
