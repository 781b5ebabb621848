package mcpwire

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func TestALargeLineThatAnswersNothingIsSkipped(t *testing.T) {
	m, bad := decodeLine(nil, outlineOf([]byte(strings.Repeat("x", 100))), 99)
	if len(m) != 0 || len(bad) != 1 || bad[0].id != nil {
		t.Errorf("%v, %v", m, bad)
	}
}

func TestAMessageIsOneLineWhereverItsParamsBreak(t *testing.T) {
	const inner = `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"rm"}}`
	m, err := jsonrpc.DecodeMessage([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[` + "\r\n" + inner +
		"\n]}}"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := jsonrpc.EncodeMessage(m); err != nil || strings.ContainsAny(string(b), "\r\n") {
		t.Errorf("%q, %v", b, err)
	}
}

func TestAJSONBodyWithoutTheAnswerIsAnError(t *testing.T) {
	for _, body := range []string{"", `{"jsonrpc":"2.0","id":77,"result":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`} {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, body)
		}))
		s := &guarded{Server: up}
		at := serving(t, &Endpoint{Loopback: true, Servers: map[string]*Server{"far": s.remote(t)}})
		resp := raw(t, "POST", at+"/far/mcp", hello)
		if b, _ := io.ReadAll(resp.Body); !strings.Contains(string(b), "does not answer") {
			t.Errorf("%q leads to %s", body, b)
		}
		up.Close()
	}
}
