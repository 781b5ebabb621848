package mcpproxy

import (
	"encoding/json"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"lazaret/internal/fuzztest"
	"lazaret/streams"
)

// FuzzCatalogue reads random pages of a server's list of tools. A page must be parsed or refused as a whole. If it is
// parsed, the event about it must be one that the intake accepts, and its proposal must have the same digest each time.
func FuzzCatalogue(f *testing.F) {
	f.Add([]byte(`{"tools":[{"name":"t","title":"T","description":"d","inputSchema":{"type":"object"},"outputSchema":{"b":1,"a":2},"annotations":{"readOnlyHint":true}}],"nextCursor":"n"}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"tools":[{"name":"t"},{"name":"t"}]}`))
	f.Add([]byte(`{"tools":[{"name":"t","inputSchema":{"a":1,"a":2},"outputSchema":null}]}`))
	f.Add([]byte(`{"tools":[null,{"name":"\ud800","description":"\u0000"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bounded(t, len(b), func() {
			p, err := readPage(b)
			if err != nil {
				return
			}
			if p.rest == nil {
				t.Fatal("a page that is not an object")
			}
			digest := streams.CatalogueDigest("s", "i", p.tools)
			if digest != streams.CatalogueDigest("s", "i", p.tools) {
				t.Fatal("two digests of one catalogue")
			}
			a, _, err := proposalOf("s", "i", digest, p.tools, nil)
			if err != nil {
				t.Fatalf("%v: %q", err, b)
			}
			if body, err := streams.Marshal(a); err != nil {
				t.Fatalf("the proposal cannot be encoded: %v", err)
			} else if _, err := streams.ParseEvent(streams.Address{Kind: streams.KindAct}, "", body, len(body)); err != nil {
				t.Fatalf("%v: %q", err, body)
			}
			body, err := streams.Marshal(&streams.Tools{Head: streams.Head{ID: "i", Session: "s"}, Server: "s", Tools: p.tools})
			if err != nil {
				t.Fatalf("the catalogue cannot be encoded: %v", err)
			}
			if _, err := streams.ParseEvent(streams.Address{Kind: streams.KindTools}, "", body, len(body)); err != nil {
				t.Fatalf("%v: %q", err, body)
			}
		})
	})
}

// FuzzMessage handles random responses of a server and random calls of a client. The proxy must not panic, must need
// only limited time and memory, and must pass on valid JSON.
func FuzzMessage(f *testing.F) {
	f.Add("initialize", []byte(`{"instructions":"i","serverInfo":{"name":"n"},"capabilities":{"tools":{}}}`))
	f.Add("resources/read", []byte(`{"contents":[{"uri":"u","text":"t","blob":"QUFB"}]}`))
	f.Add("tools/call", []byte(
		`{"content":[{"type":"text","text":"t"},{"type":"image","data":"AAAA","mimeType":"image/png"}],"structuredContent":{"a":1},"isError":true}`))
	f.Add("prompts/get", []byte(
		`{"messages":[{"role":"user","content":{"type":"text","text":"t"}}],"uri":"u","_meta":{"progressToken":1,"a":2}}`))
	f.Add("server/discover", []byte(
		`{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n"}},"capabilities":{"tools":null}}`))
	f.Fuzz(func(t *testing.T, method string, b []byte) {
		if !json.Valid(b) {
			return // the connection is closed
		}
		p := new(Proxy)
		p.tools = newCatalogue(p)
		fuzztest.Bounded(t, len(b), func() {
			m := &jsonrpc.Response{Result: b}
			words(method, m)
			if out := p.introduced(m); !json.Valid(out.Result) {
				t.Fatalf("passed on as %q", out.Result)
			}
			resultBlocks(b)
			source(&call{params: b})
			metaOf(b)
			callKey(method, jsontext.Value(b))
		})
	})
}
