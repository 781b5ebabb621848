package mcpwire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Since version 2026-07-28, the headers of a request repeat parts of its body (SEP-2243). These are the version, the
// method, the name, and arguments of tools. An argument is repeated if its schema has x-mcp-header.
const (
	headerMethod = "Mcp-Method"
	headerName   = "Mcp-Name"
	headerParam  = "Mcp-Param-"
)

// For each tool, a connection remembers the arguments that are repeated in headers. These are the limits.
const (
	maxHeaderTools = 4096 // tools
	maxParams      = 64   // headers of one tool
	maxParamDepth  = 16   // nesting depth of an argument
)

// metaVersion returns the protocol version in the _meta of a request. It returns "" if there is none.
func metaVersion(params json.RawMessage) string {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var v string
	if json.Unmarshal(params, &p) != nil || json.Unmarshal(p.Meta[mcp.MetaKeyProtocolVersion], &v) != nil {
		return ""
	}
	return v
}

// nameOf returns the value of the header Mcp-Name for a request. It returns false if requests with this method do not
// have the header.
func nameOf(r *jsonrpc.Request) (string, bool) {
	var p struct {
		Name string `json:"name"`
		URI  string `json:"uri"`
	}
	_ = json.Unmarshal(r.Params, &p) // malformed params have no name
	switch r.Method {
	case "tools/call", "prompts/get":
		return p.Name, true
	case "resources/read":
		return p.URI, true
	}
	return "", false
}

// repeatBody sets the headers that repeat parts of the body of a request. It does so only if the request names a
// protocol version without sessions.
func repeatBody(h http.Header, r *jsonrpc.Request, tools *toolHeaders) {
	v := metaVersion(r.Params)
	if v < "2026" {
		return
	}
	h.Set(headerVersion, v)
	h.Set(headerMethod, r.Method)
	name, ok := nameOf(r)
	if !ok {
		return
	}
	h.Set(headerName, encodeHeader(name))
	for _, p := range tools.params(r) {
		if s, ok := headerValue(p.value); ok {
			h.Set(headerParam+p.header, encodeHeader(s))
		}
	}
}

// mismatch says how the headers of a request without a session differ from its body. It returns "" if they do not.
func mismatch(h http.Header, r *jsonrpc.Request) string {
	for _, x := range []struct{ header, body string }{
		{headerVersion, metaVersion(r.Params)},
		{headerMethod, r.Method},
	} {
		if got := h.Get(x.header); got == "" || got != x.body {
			return "the header " + x.header + " is missing or differs from the body"
		}
	}
	if name, ok := nameOf(r); ok {
		if got, ok := decodeHeader(h.Values(headerName)); !ok || got != name {
			return "the header " + headerName + " is missing or differs from the body"
		}
	}
	return ""
}

// toolHeaders knows, for each tool, the arguments that are repeated in headers.
type toolHeaders struct {
	mu sync.Mutex
	of map[string][]paramHeader // by tool; guarded by mu
}

// paramHeader is an argument of a tool that is repeated in the header Mcp-Param-<header>.
type paramHeader struct {
	header string
	path   []string
	value  json.RawMessage // the value of the argument in a call; nil if the call does not have the argument
}

// learn stores the arguments with x-mcp-header from the result of a tools/list.
func (t *toolHeaders) learn(result json.RawMessage) {
	var list struct {
		Tools []struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	if json.Unmarshal(result, &list) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = make(map[string][]paramHeader)
	}
	for _, tool := range list.Tools {
		var found []paramHeader
		switch valid := annotated(tool.Schema, nil, &found); {
		case !valid || len(found) == 0:
			delete(t.of, tool.Name)
		case len(t.of) < maxHeaderTools || t.of[tool.Name] != nil:
			t.of[tool.Name] = found
		}
	}
}

// annotated appends to out those properties of a schema that have x-mcp-header. It returns false if one of them has an
// invalid value for it. Then a client must ignore the tool.
func annotated(schema json.RawMessage, path []string, out *[]paramHeader) bool {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if len(path) > maxParamDepth || json.Unmarshal(schema, &s) != nil {
		return true
	}
	for name, raw := range s.Properties {
		var p struct {
			Type   any             `json:"type"`
			Header json.RawMessage `json:"x-mcp-header"`
		}
		if json.Unmarshal(raw, &p) != nil {
			continue
		}
		at := slices.Concat(path, []string{name})
		if p.Header != nil {
			var header string
			if json.Unmarshal(p.Header, &header) != nil || !isToken(header) || len(*out) == maxParams ||
				p.Type != "string" && p.Type != "integer" && p.Type != "boolean" {
				return false
			}
			for _, other := range *out {
				if strings.EqualFold(other.header, header) {
					return false
				}
			}
			*out = append(*out, paramHeader{header: header, path: at})
		}
		if !annotated(raw, at, out) {
			return false
		}
	}
	return true
}

// isToken reports whether s may be a part of a header's name (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	}) < 0
}

// params returns those arguments of a call that are repeated in headers, with their values.
func (t *toolHeaders) params(r *jsonrpc.Request) []paramHeader {
	var call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if r.Method != "tools/call" || json.Unmarshal(r.Params, &call) != nil {
		return nil
	}
	t.mu.Lock()
	out := append([]paramHeader(nil), t.of[call.Name]...)
	t.mu.Unlock()
	for i, p := range out {
		v := call.Arguments
		for _, name := range p.path {
			var object map[string]json.RawMessage
			if json.Unmarshal(v, &object) != nil {
				object = nil
			}
			v = object[name]
		}
		if string(v) != "null" {
			out[i].value = v
		}
	}
	return out
}

// mismatch says how the headers of a call differ from its arguments. It returns "" if they do not.
func (t *toolHeaders) mismatch(h http.Header, r *jsonrpc.Request) string {
	for _, p := range t.params(r) {
		name := headerParam + p.header
		values := h.Values(name)
		want, primitive := headerValue(p.value)
		if p.value == nil && len(values) == 0 {
			continue
		}
		got, ok := decodeHeader(values)
		if n, err := strconv.ParseFloat(got, 64); err == nil && p.value != nil && p.value[0] != '"' {
			got = fmt.Sprint(int64(n)) // numbers are compared as numbers
		}
		if !ok || !primitive || got != want {
			return "the header " + name + " is missing or differs from the body"
		}
	}
	return ""
}

// headerValue returns a JSON value in the form that it has in a header. It returns false if the value is not a string,
// an integer or a boolean.
func headerValue(raw json.RawMessage) (string, bool) {
	const maxSafe = 1<<53 - 1
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return "", false
	}
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatInt(int64(v), 10), v == math.Trunc(v) && math.Abs(v) <= maxSafe
	}
	return "", false
}

// Some values cannot be in a header as they are. Then the header has the base64 of the value, between base64Begin and
// base64End.
const (
	base64Begin = "=?base64?"
	base64End   = "?="
)

func encodeHeader(s string) string {
	encoded := strings.HasPrefix(s, base64Begin) && strings.HasSuffix(s, base64End)
	if !encoded && printable(s) && strings.Trim(s, " \t") == s {
		return s
	}
	return base64Begin + base64.StdEncoding.EncodeToString([]byte(s)) + base64End
}

// decodeHeader decodes the value of a header, in the encoding of encodeHeader. It returns false if the encoding is not
// valid, or if there is not exactly one value.
func decodeHeader(values []string) (string, bool) {
	if len(values) != 1 || !printable(values[0]) {
		return "", false
	}
	s, begins := strings.CutPrefix(values[0], base64Begin)
	s, ends := strings.CutSuffix(s, base64End)
	if !begins || !ends {
		return values[0], true
	}
	b, err := base64.StdEncoding.DecodeString(s)
	return string(b), err == nil
}

func printable(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return (c < ' ' || c > '~') && c != '\t' }) < 0
}
