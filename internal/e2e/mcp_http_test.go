package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/mcpproxy"
	"lazaret/internal/natstest"
	"lazaret/streams"
)

// everything are the tools of the official server-everything that features.mjs calls.
var everything = strings.Fields(
	`echo get-sum get-tiny-image get-structured-content get-annotated-message get-resource-links
	get-resource-reference trigger-long-running-operation trigger-sampling-request get-roots-list trigger-elicitation-request
	toggle-simulated-logging toggle-subscriber-updates`)

func TestTheStockClientFindsTheSameFeaturesDirectAndProxied(t *testing.T) {
	long(t)
	t.Parallel()
	dir := stockNode(t, "mcp", "features.mjs")
	data, addr, port, listen := t.TempDir(), freePort(t), freePort(t), freePort(t)
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr, "--http", "off")
	defer up.interrupt()
	key := filepath.Join(t.TempDir(), "alice.key")
	must(t, data, "key", "gen", "alice", key, "--pin", "approver")
	must(t, data, "key", "activate")
	stock := filepath.Join(dir, "node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	far := exec.Command("node", stock, "streamableHttp")
	far.Env = append(os.Environ(), "PORT="+port[strings.LastIndex(port, ":")+1:])
	if err := far.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { far.Process.Kill(); far.Wait() }()
	servers := filepath.Join(t.TempDir(), "servers.json")
	config := fmt.Sprintf(`{"mcpServers":{"near":{"command":"node","args":[%q,"stdio"]},"far":{"url":"http://localhost:%s/mcp"}}}`,
		stock, port[strings.LastIndex(port, ":")+1:])
	if err := os.WriteFile(servers, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := start(t, "MCP at", "lazaret", "mcp", "serve", "--data", data, "--config", servers, "--listen", listen,
		"--wait", "1s")
	defer serve.interrupt()
	review := []string{"mcp", "review", "--key", key, "--yes"}
	for _, tool := range everything {
		review = append(review, "--level", tool+"=L1")
	}
	features := func(accept bool, args ...string) map[string]any {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, "node", append([]string{"features.mjs"}, args...)...)
		var out, errs bytes.Buffer
		c.Dir, c.Stdout, c.Stderr = dir, &out, &errs
		if accept {
			c.Env = append(os.Environ(), "WAIT_FOR_TOOLS=1")
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if accept {
			natstest.Eventually(t, time.Minute, "a list of tools waits", func() bool {
				var open []struct{ ID string }
				decode(t, must(t, data, "holds", "ls", "--json"), &open)
				return len(open) > 0
			})
			must(t, data, review...)
		}
		if err := c.Wait(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, errs.String())
		}
		got := make(map[string]any)
		decode(t, out.String(), &got)
		return got
	}
	direct := features(false, "stdio", "node", stock, "stdio")
	natstest.Eventually(t, time.Minute, "the stock server listens", func() bool { return reachable(port) })
	for name, got := range map[string]map[string]any{
		"direct over HTTP":      features(false, "http", "http://localhost:"+port[strings.LastIndex(port, ":")+1:]+"/mcp"),
		"HTTP before a command": features(true, "http", "http://"+listen+"/near/mcp"),
		"HTTP before HTTP":      features(true, "http", "http://"+listen+"/far/mcp"),
		"standard input, output": features(false, "stdio", filepath.Join(bin, "lazaret"), "mcp", "--data", data, "--",
			"node", stock, "stdio"),
	} {
		if len(got) < 29 {
			t.Errorf("%s: %d features were tried", name, len(got))
		}
		for f, want := range direct {
			// The proxy reports it as a protocol error, as the specification requires.
			if f != "no such tool" && !reflect.DeepEqual(got[f], want) {
				t.Errorf("%s: %s is\n%v\ndirect it is\n%v", name, f, got[f], want)
			}
		}
	}
}

func reachable(addr string) bool {
	c, err := net.Dial("tcp", "localhost:"+addr[strings.LastIndex(addr, ":")+1:])
	if err == nil {
		c.Close()
	}
	return err == nil
}

// cuttable is a server's connection that the test can cut.
type cuttable struct {
	mcp.Connection
	cut  chan struct{}
	once sync.Once
}

func (c *cuttable) Read(ctx context.Context) (jsonrpc.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	m, err := c.Connection.Read(ctx)
	select {
	case <-c.cut:
		return nil, fmt.Errorf("exit status 3")
	default:
		return m, err
	}
}

func TestAServerThatCrashesIsSaidAndItsCallIsAnOutcome(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, embedded.Config{Policy: acceptAll()})
	s := newServer()
	down := &cuttable{cut: make(chan struct{})}
	addTool(s, "read_more", "Reads a note.",
		func(ctx context.Context, _ *mcp.CallToolRequest, _ textArgs) (*mcp.CallToolResult, any, error) {
			down.once.Do(func() { close(down.cut) })
			<-ctx.Done()
			return nil, nil, ctx.Err()
		})
	host, err := client.New(connect(t, p.data, "agent"), "demo", "agent")
	if err != nil {
		t.Fatal(err)
	}
	clientEnd, upEnd := mcp.NewInMemoryTransports()
	downEnd, serverEnd := mcp.NewInMemoryTransports()
	up, _ := upEnd.Connect(p.ctx)
	if down.Connection, err = downEnd.Connect(p.ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mcpproxy.Run(p.ctx, mcpproxy.Config{Session: "s"}, host, up, down) }()
	if _, err := s.Connect(p.ctx, serverEnd, nil); err != nil {
		t.Fatal(err)
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "stock", Version: "1"}, nil).Connect(p.ctx, clientEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.CallTool(p.ctx, &mcp.CallToolParams{Name: "read_more", Arguments: textArgs{}})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the host heard %v", err)
	}
	if t.Failed() {
		return
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "the MCP server ended") {
		t.Errorf("the proxy ended with %v", err)
	}
	natstest.Eventually(t, time.Minute, "the outcome in the ledger", func() bool {
		for _, e := range p.entries(streams.TypeOutcome) {
			var o streams.OutcomeEntry
			if json.Unmarshal(e.Body, &o) == nil && o.Status == "error" {
				return true
			}
		}
		return false
	})
}

func TestAHeldCallShowsTheApprovalPageToAClientThatOpensURLs(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, embedded.Config{Policy: acceptAll()})
	s := newServer()
	addTool(s, "send_email", "Sends a mail.",
		func(context.Context, *mcp.CallToolRequest, textArgs) (*mcp.CallToolResult, any, error) {
			t.Error("it was carried out")
			return nil, nil, nil
		})
	urls := make(chan string, 4)
	x := p.proxy(s, mcpproxy.Config{Wait: 2 * time.Second, ApprovalURL: "https://lazaret.example/holds/demo/{hold}"},
		&mcp.ClientOptions{
			Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
				URL: &mcp.URLElicitationCapabilities{}}},
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				urls <- r.Params.URL
				return &mcp.ElicitResult{Action: "accept"}, nil
			},
		}, "2025-11-25")
	x.tools()
	_, meta := x.call("send_email", "hello")
	if got, want := <-urls, fmt.Sprint("https://lazaret.example/holds/demo/", meta["hold"]); got != want ||
		meta["verdict"] != "hold" {
		t.Errorf("the page is %q, the hold %v", got, meta)
	}
}
