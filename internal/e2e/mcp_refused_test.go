package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/mcpproxy"
)

// A server answers with names that readers read differently. The client gets an
// error in the place of the answer, and the ledger says so.
func TestPromiseA3ARefusedMessageIsAnsweredAndRecorded(t *testing.T) {
	p := newPipeline(t, embedded.Config{Policy: acceptAll()})
	host, err := client.New(connect(t, p.data, "agent"), "demo", "agent", client.WithRetry(client.Retry{Tries: 1}))
	if err != nil {
		t.Fatal(err)
	}
	clientEnd, up := mcp.NewInMemoryTransports()
	down, serverEnd := mcp.NewInMemoryTransports()
	conns := make([]mcp.Connection, 4)
	for i, end := range []mcp.Transport{clientEnd, up, down, serverEnd} {
		if conns[i], err = end.Connect(p.ctx); err != nil {
			t.Fatal(err)
		}
	}
	caller, server := conns[0], conns[3]
	ctx, cancel := context.WithTimeout(p.ctx, 60*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- mcpproxy.Run(ctx, mcpproxy.Config{Session: "s", Wait: 50 * time.Millisecond}, host, conns[1], conns[2])
	}()
	go func() {
		for {
			m, err := server.Read(ctx)
			if err != nil {
				return
			}
			r, ok := m.(*jsonrpc.Request)
			if !ok || !r.ID.IsValid() {
				continue
			}
			result := `{"contents":[{"uri":"note:1","text":"POISON","Text":"hello"}]}`
			switch r.Method {
			case "tools/list":
				result = `{"tools":[{"name":"t","description":"POISON","Description":"hello"}]}`
			case "prompts/get":
				result = `{"messages":[{"role":"user","content":{"type":"text","text":"hello","text":"POISON"}}]}`
			}
			server.Write(ctx, &jsonrpc.Response{ID: r.ID, Result: json.RawMessage(result)})
		}
	}()
	for i, call := range []struct{ method, params string }{
		{"resources/read", `{"uri":"note:1"}`}, {"prompts/get", `{"name":"p"}`}, {"tools/list", `{}`},
		{"resources/read", `{"uri":"note:1","Uri":"note:2"}`},
	} {
		id, err := jsonrpc.MakeID(float64(i + 1))
		if err != nil {
			t.Fatal(err)
		}
		if err := caller.Write(ctx, &jsonrpc.Request{ID: id, Method: call.method, Params: json.RawMessage(call.params)}); err != nil {
			t.Fatal(err)
		}
		m, err := caller.Read(ctx)
		if err != nil {
			t.Fatalf("%s: %v", call.method, err)
		}
		r, ok := m.(*jsonrpc.Response)
		if !ok || r.ID != id || r.Error == nil || !strings.Contains(r.Error.Error(), "refused") || strings.Contains(r.Error.Error(), "POISON") {
			t.Errorf("%s was answered with %+v", call.method, m)
		}
	}
	withheld := 0
	for _, o := range p.observations() {
		for _, b := range o.Blocks {
			if strings.HasPrefix(b.Text, "Withheld: the server's message was refused") {
				withheld++
			}
		}
	}
	if withheld != 3 {
		t.Errorf("%d refusals are recorded, not 3", withheld)
	}
	cancel()
	<-done
}
