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

// everything has the names of the tools of the official server-everything that the program features.mjs calls.
var everything = strings.Fields(
	`echo get-sum get-tiny-image get-structured-content get-annotated-message get-resource-links
	get-resource-reference trigger-long-running-operation trigger-sampling-request get-roots-list trigger-elicitation-request
	toggle-simulated-logging toggle-subscriber-updates`)

// stockFeatures is a pipeline with the MCP proxy. Programs that use the official SDK try the features of a server
// through the proxy.
type stockFeatures struct {
	t            *testing.T
	dir, program string
	data         string
	accept       []string // the command that accepts the list of tools
}

// newStockFeatures starts a pipeline. A person who accepts the given tools in it puts their calls at L1.
func newStockFeatures(t *testing.T, program string, tools []string) *stockFeatures {
	t.Helper()
	s := &stockFeatures{t: t, dir: stockNode(t, "mcp", program), program: program, data: t.TempDir()}
	up := start(t, "lazaret is up", "lazaret", "up", "--data", s.data, "--listen", freePort(t), "--http", "off")
	t.Cleanup(func() { up.interrupt() })
	key := filepath.Join(t.TempDir(), "alice.key")
	must(t, s.data, "key", "gen", "alice", key, "--pin", "approver")
	must(t, s.data, "key", "activate")
	s.accept = []string{"--key", key}
	for _, tool := range tools {
		s.accept = append(s.accept, "--level", tool+"=L1")
	}
	return s
}

// serve starts the proxy over HTTP for the servers of a configuration, and returns the URL of its endpoint.
func (s *stockFeatures) serve(config string) string {
	s.t.Helper()
	file, listen := filepath.Join(s.t.TempDir(), "servers.json"), freePort(s.t)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	serve := start(s.t, "MCP at", "lazaret", "mcp", "serve", "--data", s.data, "--config", file, "--listen", listen,
		"--wait", "1s")
	s.t.Cleanup(func() { serve.interrupt() })
	return "http://" + listen
}

// run runs the program, which tries features of a server, and returns the result of each feature. If accept is set, a
// person accepts the server's tools while the program waits.
func (s *stockFeatures) run(accept bool, args ...string) map[string]any {
	t := s.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "node", append([]string{s.program}, args...)...)
	var out, errs bytes.Buffer
	c.Dir, c.Stdout, c.Stderr = s.dir, &out, &errs
	if accept {
		c.Env = append(os.Environ(), "WAIT_FOR_TOOLS=1")
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if accept {
		natstest.Eventually(t, time.Minute, "a list of tools waits", func() bool {
			var open []struct{ ID string }
			decode(t, must(t, s.data, "holds", "ls", "--json"), &open)
			return len(open) > 0
		})
		review(t, s.data, s.accept...)
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, errs.String())
	}
	got := make(map[string]any)
	decode(t, out.String(), &got)
	return got
}

func TestTheStockClientFindsTheSameFeaturesDirectAndProxied(t *testing.T) {
	long(t)
	t.Parallel()
	s := newStockFeatures(t, "features.mjs", everything)
	address := freePort(t)
	port := address[strings.LastIndex(address, ":")+1:]
	stock := filepath.Join(s.dir, "node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	far := exec.Command("node", stock, "streamableHttp")
	far.Env = append(os.Environ(), "PORT="+port)
	if err := far.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { far.Process.Kill(); far.Wait() }()
	at := s.serve(fmt.Sprintf(`{"mcpServers":{"near":{"command":"node","args":[%q,"stdio"]},"far":{"url":"http://localhost:%s/mcp"}}}`,
		stock, port))
	direct := s.run(false, "stdio", "node", stock, "stdio")
	natstest.Eventually(t, time.Minute, "the stock server listens", func() bool { return reachable(address) })
	for name, got := range map[string]map[string]any{
		"direct over HTTP":      s.run(false, "http", "http://localhost:"+port+"/mcp"),
		"HTTP before a command": s.run(true, "http", at+"/near/mcp"),
		"HTTP before HTTP":      s.run(true, "http", at+"/far/mcp"),
		"standard input, output": s.run(false, "stdio", filepath.Join(bin, "lazaret"), "mcp", "--data", s.data, "--",
			"node", stock, "stdio"),
	} {
		if len(got) < 29 {
			t.Errorf("%s: %d features were tried", name, len(got))
		}
		for f, want := range direct {
			// The proxy answers an unknown method itself, with the same code as the server. So only the codes are
			// compared. For a missing tool, the proxy returns a protocol error, as the specification requires; the
			// server does not.
			if f == "no such method" {
				got[f], want = codeOf(got[f]), codeOf(want)
			}
			if f != "no such tool" && !reflect.DeepEqual(got[f], want) {
				t.Errorf("%s: %s is\n%v\ndirect it is\n%v", name, f, got[f], want)
			}
		}
	}
}

// codeOf returns the error code of a result, or nil if the result is not an error.
func codeOf(outcome any) any {
	e, _ := outcome.(map[string]any)
	return e["error"]
}

// TestTheStockClientWithoutSessionsFindsTheSameFeaturesDirectAndProxied compares the results of a server's features
// with and without the proxy. Client and server are from the TypeScript SDK and use protocol version 2026-07-28.
func TestTheStockClientWithoutSessionsFindsTheSameFeaturesDirectAndProxied(t *testing.T) {
	long(t)
	t.Parallel()
	s := newStockFeatures(t, "stateless.mjs", []string{"greet", "steps", "confirm", "slow"})
	program := filepath.Join(s.dir, s.program)
	at := s.serve(fmt.Sprintf(`{"mcpServers":{"near":{"command":"node","args":[%q,"serve"]}}}`, program))
	direct := s.run(false, "stdio", "node", program, "serve")
	if direct["version"] != "2026-07-28" || len(direct) < 13 {
		t.Fatalf("direct: %v", direct)
	}
	for name, got := range map[string]map[string]any{
		"HTTP": s.run(true, "http", at+"/near/mcp"),
		"standard input, output": s.run(false, "stdio", filepath.Join(bin, "lazaret"), "mcp", "--data", s.data, "--",
			"node", program, "serve"),
	} {
		for f, want := range direct {
			if !reflect.DeepEqual(got[f], want) {
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

// cuttable is a connection to a server that the test can interrupt.
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
