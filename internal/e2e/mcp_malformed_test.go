package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/malformed"
	"lazaret/internal/mcpproxy"
	"lazaret/internal/mcpwire"
	"lazaret/streams"
)

// endpoint starts the proxy over HTTP in front of an official server, at the path /notes/mcp. It returns the address.
// add adds the server's tools.
func (p *pipeline) endpoint(log *malformed.Log, cfg mcpproxy.Config, add func(*mcp.Server)) (addr string) {
	t := p.t
	t.Helper()
	cfg.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	nc := connect(t, p.data, "agent")
	e := &mcpwire.Endpoint{Loopback: true, Log: cfg.Log, Servers: map[string]*mcpwire.Server{"notes": {
		Start: func() (mcp.Connection, error) {
			s := newServer()
			if add != nil {
				add(s)
			}
			near, far := mcp.NewInMemoryTransports()
			if _, err := s.Connect(context.Background(), far, nil); err != nil {
				return nil, err
			}
			return near.Connect(context.Background())
		},
		Run: func(ctx context.Context, up, down mcp.Connection) error {
			host, err := client.New(nc, "demo", "agent")
			if err != nil {
				return err
			}
			cfg := cfg
			cfg.Session = client.NewID()
			return mcpproxy.Run(ctx, cfg, host, up, down)
		},
	}}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// TestMalformedRequestsAndKilledClientsStopNoMCP sends 10,000 malformed requests to the MCP endpoint, and kills 100
// clients while they send a request. Meanwhile another host calls a tool, and another project asks for verdicts. Both
// must be answered. The ledger must have each result that the host got exactly once.
func TestMalformedRequestsAndKilledClientsStopNoMCP(t *testing.T) {
	long(t)
	t.Parallel()
	p := newPipeline(t, embedded.Config{Policy: acceptAll(), NoSync: true})
	log := new(malformed.Log)
	addr := p.endpoint(log, mcpproxy.Config{Wait: time.Second}, nil)
	host, err := mcp.NewClient(&mcp.Implementation{Name: "stock", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: "http://" + addr + "/notes/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	if _, err := host.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"bad","version":"1"}}}`
	session := func() string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/notes/mcp", strings.NewReader(begin))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.Header.Get("Mcp-Session-Id")
	}
	id := session()
	results := make(map[string]int)
	x := &malformed.Target{Addr: addr, Seed: 23, Paths: []string{"/notes/mcp", "/notes/mcp", "/notes/mcp", "/{name}/mcp"},
		Bodies: []string{begin, `{"jsonrpc":"2.0","id":{},"method":"tools/call"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":7,"arguments":[]}}`,
			`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"no such","Name":"read_note"}}`,
			`{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"_meta":[]}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[1]}}`,
			`{"jsonrpc":"2.0","id":5,"result":{},"error":{"code":1,"message":""}}`, `{"jsonrpc":"1.0","id":6,"method":"ping"}`,
			`[{"jsonrpc":"2.0","id":7,"method":"ping"}]`, `{"jsonrpc":"2.0","id":1e99,"method":"ping"}`,
			`{"jsonrpc":"2.0","id":8,"method":"server/discover","params":{"_meta":{}}}`,
			`{"jsonrpc":"2.0","id":11,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
			`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"no such","_meta":{"progressToken":[],` +
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
			`{"jsonrpc":"2.0","id":9,"method":"tasks/get","params":{"taskId":""}}`,
			`{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"read_note","arguments":{},"requestState":"lazaret-x"}}`},
		Prepare: func(rnd *rand.Rand, r *http.Request) {
			if rnd.IntN(4) > 0 {
				r.Header.Set("Accept", "application/json, text/event-stream")
			}
			if rnd.IntN(2) == 0 {
				r.Header.Set("Mcp-Session-Id", []string{id, id, "", "nobody's"}[rnd.IntN(4)])
			}
			if rnd.IntN(2) == 0 {
				r.Header.Set("Mcp-Protocol-Version", []string{"2025-11-25", "2026-07-28", "1999", "\x01"}[rnd.IntN(4)])
			}
			if rnd.IntN(4) == 0 {
				r.Header.Set("Mcp-Method", []string{"tools/call", "tools/list"}[rnd.IntN(2)])
				r.Header.Set("Mcp-Name", "no such")
			}
			if r.Method == http.MethodDelete { // the session must stay open
				r.Header.Del("Mcp-Session-Id")
			}
		},
		Check: func(_ *http.Request, status int, body string) error {
			if status >= 500 && status != http.StatusServiceUnavailable || strings.Contains(body, "note: ") {
				return fmt.Errorf("status %d", status)
			}
			return nil
		},
		Killed: func(i int) string {
			return malformed.Post("/notes/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":`+
				`{"name":"read_note","arguments":{"text":"killed %d"}}}`, 1000+i, i), "Accept", "application/json, text/event-stream",
				"Mcp-Session-Id", id)
		},
		Meanwhile: func(i int) error {
			r, err := host.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_note", Arguments: textArgs{Text: fmt.Sprintf("n%d", i)}})
			if err != nil {
				return err
			}
			text, _ := r.Content[0].(*mcp.TextContent)
			if text == nil || text.Text != fmt.Sprintf("note: n%d", i) {
				return fmt.Errorf("the result is %+v", r.Content[0])
			}
			results[text.Text] = 0
			rep, err := p.c.Decide(p.ctx, &streams.Action{Head: streams.Head{Session: "other"}, Tool: "read_file"})
			if err != nil || rep.Verdict != streams.Allow {
				return fmt.Errorf("the verdict: %+v, %w", rep, err)
			}
			return nil
		},
	}
	x.Run(t, malformed.Requests(), 100)
	for _, o := range p.observations() {
		for _, b := range o.Blocks {
			if _, ok := results[b.Text]; ok && o.Tool == "read_note" {
				results[b.Text]++
			}
		}
	}
	for text, n := range results {
		if n != 1 {
			t.Errorf("the result %q stands %d times in the ledger", text, n)
		}
	}
	log.NoPanic(t)
}
