package mcpproxy

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is a connection that records the methods of the requests written to it.
type server struct {
	mcp.Connection
	methods []string
}

func (s *server) Write(_ context.Context, m jsonrpc.Message) error {
	s.methods = append(s.methods, m.(*jsonrpc.Request).Method)
	return nil
}

func TestAMessageWithoutAnIDIsPassedOnOnlyIfItIsANotification(t *testing.T) {
	s := new(server)
	p := &Proxy{cfg: Config{Log: slog.New(slog.DiscardHandler)}, down: s}
	for _, raw := range []string{
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"delete_everything","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"delete_everything","arguments":{}}}`,
		`{"jsonrpc":"2.0","method":"resources/read","params":{"uri":"file:///a"}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		m, err := jsonrpc.DecodeMessage([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.fromClient(t.Context(), m); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if !slices.Equal(s.methods, []string{"notifications/initialized"}) {
		t.Errorf("the server got %q", s.methods)
	}
}
