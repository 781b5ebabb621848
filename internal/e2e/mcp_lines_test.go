package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/mcpproxy"
	"lazaret/internal/mcpwire"
	"lazaret/internal/natstest"
)

// ambiguousServer is an MCP server as a shell script. For resources/read, it sends an ambiguous response, or an
// ambiguous notification and then a response; the URI says which. It never answers prompts/get.
const ambiguousServer = `while read -r l; do
	id=$(printf %s "$l" | sed 's/.*"id":\([^,}]*\).*/\1/')
	case $l in
	*u:results*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"n":"POISON"},"result":{}}';;
	*u:cases*) echo '{"jsonrpc":"2.0","id":'$id',"Result":{"n":"POISON"},"result":{}}';;
	*u:ids*) echo '{"jsonrpc":"2.0","id":'$id',"id":77,"result":{"n":"POISON"}}';;
	*u:note*) echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"POISON"},"params":{}}'
		echo '{"jsonrpc":"2.0","id":'$id',"result":{"n":"noted"}}';;
	*ping*) echo '{"jsonrpc":"2.0","id":'$id',"result":{}}';;
	esac
done`

// lineClient is a client that writes lines to a proxy.
type lineClient struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func (c *lineClient) write(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// hears reads the next line, and checks that it contains each of the texts in want.
func (c *lineClient) hears(want ...string) {
	c.t.Helper()
	got, err := c.out.ReadString('\n')
	if err != nil || !json.Valid([]byte(got)) || strings.Contains(got, "POISON") {
		c.t.Fatalf("the client hears %q, %v", got, err)
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			c.t.Errorf("the client hears %s, not %s", got, w)
		}
	}
}

// TestPromiseA3AnAmbiguousLineIsAnsweredAndTheProxyGoesOn sends malformed and ambiguous lines to a proxy over standard
// input and output, while another request is open. Each such line of the client must be answered with an error. Instead
// of an ambiguous response of the server, the client must get an error. The open request must stay open.
func TestPromiseA3AnAmbiguousLineIsAnsweredAndTheProxyGoesOn(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, embedded.Config{Policy: acceptAll()})
	host, err := client.New(connect(t, p.data, "agent"), "demo", "agent")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	down, err := mcpwire.Start(exec.Command("sh", "-c", ambiguousServer), log)
	if err != nil {
		t.Fatal(err)
	}
	in, far := io.Pipe()
	near, out := io.Pipe()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	context.AfterFunc(ctx, func() { out.Close() })
	done := make(chan error, 1)
	go func() {
		done <- mcpproxy.Run(ctx, mcpproxy.Config{Session: "s", Log: log, Pass: []string{"named/ping"}}, host, mcpwire.Stdio(in, out), down)
	}()
	c := &lineClient{t, far, bufio.NewReader(near)}
	c.write(`{"jsonrpc":"2.0","id":50,"method":"prompts/get","params":{"name":"open"}}`)
	for _, x := range [][]string{
		{`not JSON`, `"id":null`, `-32700`},
		{`{"jsonrpc":"1.0","id":6,"method":"ping"}`, `"id":6,`, `-32600`},
		{`{"jsonrpc":"2.0","id":50,"method":"ping"}`, `"id":50,`, `-32600`, `still open`},
		{`{"jsonrpc":"2.0","id":50.5,"method":"ping"}`, `"id":50.5,`, `-32600`},
		{`{"jsonrpc":"2.0","id":"24","id":"25","method":"ping"}`, `"id":null`, `-32600`},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `"id":null`, `-32600`},
		{`{"jsonrpc":"2.0","id":7,"method":"Tools/call","params":{"name":"ping"}}`, `"id":7,`, `-32601`, `Tools/call`},
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call ","params":{"name":"ping"}}`, `"id":7,`, `-32601`},
		{`{"jsonrpc":"2.0","id":7,"method":"tools\/\u002fcall","params":{"name":"ping"}}`, `"id":7,`, `-32601`},
		{`{"jsonrpc":"2.0","id":7,"method":"acme/ping"}`, `"id":7,`, `-32601`},
		{`{"jsonrpc":"2.0","id":7,"method":"notifications/ping"}`, `"id":7,`, `-32601`},
		{`{"jsonrpc":"2.0","id":7,"method":"named/ping"}`, `"id":7,`, `"result":{}`}, // Config.Pass names it
		{`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"_meta":{"lazaret/verdict":{}}}}`, `"id":7,`, `-32602`, `_meta`},
		{`{"jsonrpc":"2.0","id":7,"Method":"tools/call","method":"ping"}`, `"id":7,`, `-32600`, `Method`},
		{`{"jsonrpc":"2.0","id":7,"method":"ping","params":{},"params":{}}`, `"id":7,`, `-32600`, `params`},
		{`{"jsonrpc":"2.0","id":10,"method":"resources/read","params":{"uri":"u:results"}}`, `"id":10,`, `refused`},
		{`{"jsonrpc":"2.0","id":11,"method":"resources/read","params":{"uri":"u:cases"}}`, `"id":11,`, `refused`},
		{`{"jsonrpc":"2.0","id":12,"method":"resources/read","params":{"uri":"u:ids"}}`, `"id":12,`, `refused`},
		{`{"jsonrpc":"2.0","id":13,"method":"resources/read","params":{"uri":"u:note"}}`, `"id":13,`, `noted`},
		{`{"jsonrpc":"2.0","id":9,"method":"ping"}`, `"id":9,`, `"result":{}`},
	} {
		c.write(x[0])
		c.hears(x[1:]...)
	}
	c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":50.5}}`)
	c.write(`{"jsonrpc":"2.0","id":50,"method":"ping"}`)
	c.hears(`"id":50,`, `still open`) // the first request is still open
	// The ledger must have four refusals: those of three answers, and that of a notification.
	natstest.Eventually(t, time.Minute, "four refusals are recorded", func() bool {
		return strings.Count(p.said(), "Withheld: the server's message was refused") == 4
	})
	far.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
