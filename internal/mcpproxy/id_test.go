package mcpproxy

import (
	"context"
	"log/slog"
	"slices"
	"strings"
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

func TestAMessageWithoutAnIDIsPassedOnOnlyIfItIsANotificationOfMCP(t *testing.T) {
	s := new(server)
	log := new(strings.Builder)
	p := &Proxy{cfg: Config{Log: slog.New(slog.NewTextHandler(log, nil)), Pass: []string{"notifications/acme/seen", "acme/do"}},
		down: s, calls: make(map[jsonrpc.ID]*call)}
	for _, raw := range []string{
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"delete_everything","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"delete_everything","arguments":{}}}`,
		`{"jsonrpc":"2.0","method":"resources/read","params":{"uri":"file:///a"}}`,
		`{"jsonrpc":"2.0","method":"notifications/../tools/call","params":{"name":"delete_everything","arguments":{}}}`,
		`{"jsonrpc":"2.0","method":"notifications/acme/wipe"}`,
		`{"jsonrpc":"2.0","method":"acme/do"}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/acme/seen"}`,
	} {
		m, err := jsonrpc.DecodeMessage([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.fromClient(t.Context(), m); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if !slices.Equal(s.methods, []string{"notifications/initialized", "notifications/progress",
		"notifications/roots/list_changed", "notifications/cancelled", "notifications/acme/seen"}) {
		t.Errorf("the server got %q", s.methods)
	}
	if !strings.Contains(log.String(), "notifications/acme/wipe") {
		t.Errorf("the log does not name the dropped notification: %s", log)
	}
}
