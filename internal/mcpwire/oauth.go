package mcpwire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// wellKnown is the path at which a server publishes OAuth metadata (RFC 9728).
const wellKnown = "/.well-known/oauth-protected-resource"

// metadataTime is the time limit for fetching the metadata of a server.
var metadataTime = 10 * time.Second

// maxMetadata is the maximum size of a server's metadata, in bytes.
const maxMetadata = 64 << 10

var resourceMetadata = regexp.MustCompile(`(?i)resource_metadata="[^"]*"`)

// authenticator returns a function that changes the server's challenges (WWW-Authenticate): the address of the metadata
// becomes that of the endpoint.
func authenticator(r *http.Request, name string) func([]string) []string {
	ours := `resource_metadata="` + base(r) + wellKnown + "/" + name + `/mcp"`
	return func(challenges []string) []string {
		out := make([]string, len(challenges))
		for i, c := range challenges {
			out[i] = resourceMetadata.ReplaceAllLiteralString(c, ours)
		}
		return out
	}
}

func authenticate(challenges []string, r *http.Request, name string) []string {
	return authenticator(r, name)(challenges)
}

// located is a connection to a remote server, which may require a sign-in. In the server's challenges, it replaces the
// address of the metadata by that of the endpoint.
type located struct {
	*upstream
	rename func([]string) []string
}

func (l *located) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := l.upstream.Read(ctx)
	if r, ok := m.(*jsonrpc.Response); ok && r.Error != nil {
		var refused *Refused
		if errors.As(r.Error, &refused) {
			refused.Authenticate = l.rename(refused.Authenticate)
		}
	}
	return m, err
}

// metadata serves the OAuth metadata of a remote server. In the metadata, the address of the protected resource is
// replaced by that of the endpoint, because a host signs in for the address that it uses.
func (s *Server) metadata(w http.ResponseWriter, r *http.Request, name string) {
	at := *s.Remote.URL
	at.RawQuery = ""
	path := strings.TrimSuffix(at.Path, "/")
	up := s.Remote.dial()
	defer up.Close()
	ctx, cancel := context.WithTimeout(r.Context(), metadataTime)
	defer cancel()
	for _, p := range []string{wellKnown + path, wellKnown} {
		at.Path = p
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		if err != nil {
			break
		}
		resp, err := up.http.Do(req)
		if err != nil {
			break
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata+1))
		resp.Body.Close()
		var m map[string]json.RawMessage
		if err != nil || len(b) > maxMetadata || resp.StatusCode != http.StatusOK {
			continue
		}
		if json.Unmarshal(b, &m) != nil || m == nil {
			continue
		}
		m["resource"], _ = json.Marshal(base(r) + "/" + name + "/mcp") // marshalling a string cannot fail
		if b, err = json.Marshal(m); err == nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(b)
			return
		}
	}
	http.Error(w, "the server has no metadata of a protected resource", http.StatusNotFound)
}

// reply answers an HTTP request with a JSON-RPC error. data is JSON, or empty.
func reply(w http.ResponseWriter, status int, id any, code int64, text, data string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(errorBody(id, code, text, data))
}

// errorBody returns a JSON-RPC error as one line. id may be a string, a number, the JSON of one of these, or nil.
func errorBody(id any, code int64, text, data string) []byte {
	e := map[string]any{"code": code, "message": "lazaret: " + text}
	if data != "" {
		e["data"] = json.RawMessage(data)
	}
	b, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": e}) // valid JSON in all parts
	return append(b, '\n')
}
