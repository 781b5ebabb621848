package e2e

import (
	"context"
	"fmt"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lazaret/internal/arbiter"
	"lazaret/internal/embedded"
	"lazaret/internal/mcpproxy"
	"lazaret/pkg/keys"
)

// TestAHeldCallGoesOnOnceItsPageWasShownAndItIsApproved holds a tool call of an official client. The user is shown a
// page with the hold. MCP versions do this in two ways, by a request of the server or by a result that requires input;
// the test tries both. After an approval the call must go on.
func TestAHeldCallGoesOnOnceItsPageWasShownAndItIsApproved(t *testing.T) {
	t.Parallel()
	p := newApproving(t, embedded.Config{Policy: acceptAll()})
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for _, approves := range []bool{true, false} {
			sent, shown := 0, 0
			s := newServer()
			addTool(s, "send_email", "Sends a mail.",
				func(_ context.Context, r *mcp.CallToolRequest, in textArgs) (*mcp.CallToolResult, any, error) {
					if sent++; r.Params.RequestState != "" || len(r.Params.InputResponses) > 0 {
						t.Errorf("%s: the server got the proxy's answers: %+v", version, r.Params)
					}
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "sent " + in.Text}}}, nil, nil
				})
			wait := 20 * time.Second
			if !approves {
				wait = time.Second
			}
			x := p.proxy(s, mcpproxy.Config{Wait: wait, ApprovalURL: "https://lazaret.example/holds/demo/{hold}"},
				&mcp.ClientOptions{
					Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
						URL: &mcp.URLElicitationCapabilities{}}},
					ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						shown++
						if !approves {
							return &mcp.ElicitResult{Action: "decline"}, nil
						}
						h := p.hold(path.Base(r.Params.URL))
						if rep := p.resolve(h.Verdict.Hold.ID, signed(t, statementOn(&h.Verdict), alice)); rep.Error != nil {
							t.Errorf("%s: %+v", version, rep)
						}
						return &mcp.ElicitResult{Action: "accept"}, nil
					},
				}, version)
			if got := x.session.InitializeResult().ProtocolVersion; got != version {
				t.Fatalf("the client speaks %s, not %s", got, version)
			}
			x.tools()
			text := version + " hello"
			if !approves {
				text += " again"
			}
			said, meta := x.call("send_email", text)
			if approves && (said != "sent "+text || sent != 1 || shown != 1) {
				t.Errorf("%s: shown %d times, sent %d times, and said: %q, %v", version, shown, sent, said, meta)
			}
			if !approves && (meta["verdict"] != "hold" || sent != 0 || shown != 1) {
				t.Errorf("%s, declined: shown %d times, sent %d times, and said: %q, %v", version, shown, sent, said, meta)
			}
		}
	}
}

func TestEachApprovalOfEqualCallsLetsOneThrough(t *testing.T) {
	long(t)
	t.Parallel()
	p := newApproving(t, embedded.Config{Policy: acceptAll()})
	alice := p.key("alice", "", keys.RoleApprover)
	p.activateTrust()
	s := newServer()
	var sent atomic.Int64
	addTool(s, "send_email", "Sends a mail.",
		func(context.Context, *mcp.CallToolRequest, textArgs) (*mcp.CallToolResult, any, error) {
			said := fmt.Sprint("sent ", sent.Add(1))
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, nil, nil
		})
	x := p.proxy(s, mcpproxy.Config{Wait: 5 * time.Second}, nil)
	x.tools()
	var both sync.WaitGroup
	for range 2 { // both calls wait at the same time, so each needs a proposal of its own
		both.Go(func() {
			if said, meta := x.call("send_email", "hello"); meta["verdict"] != "hold" {
				t.Errorf("said %q, %v", said, meta)
			}
		})
	}
	both.Wait()
	open := p.openHolds()
	if len(open) != 2 {
		t.Fatalf("%d holds of two equal calls", len(open))
	}
	slices.SortFunc(open, func(a, b arbiter.Hold) int { return b.Verdict.Time.Compare(a.Verdict.Time) })
	for i, h := range open { // the later one first
		if rep := p.resolve(h.ID, signed(t, statementOn(&h.Verdict), alice)); rep.Error != nil {
			t.Fatalf("%+v", rep)
		}
		if said, meta := x.call("send_email", "hello"); said != fmt.Sprint("sent ", i+1) {
			t.Errorf("approved, and said %q, %v", said, meta)
		}
	}
	if said, meta := x.call("send_email", "hello"); meta["verdict"] != "hold" {
		t.Errorf("approved twice, and the third call said %q, %v", said, meta)
	}
}
