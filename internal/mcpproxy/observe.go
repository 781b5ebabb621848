package mcpproxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"lazaret/client"
	"lazaret/internal/content"
	"lazaret/streams"
)

// silent are methods whose requests and results carry no words for a model.
var silent = map[string]bool{
	"ping": true, "roots/list": true, "logging/setLevel": true, "resources/subscribe": true, "resources/unsubscribe": true,
}

// maxArgs is how much of a call's arguments an observation repeats, in bytes; the
// proposal has all of them.
const maxArgs = 32 << 10

// shown observes what a response brings before a model, and returns what is
// passed on: the response, or an error if it could not be recorded.
func (p *Proxy) shown(ctx context.Context, c *call, m *jsonrpc.Response) *jsonrpc.Response {
	if err := vetResponse(m); err != nil {
		return fault(m.ID, jsonrpc.CodeInternalError, p.refused(ctx, c.method, "", err).Error())
	}
	if c.method == "initialize" || c.method == "server/discover" {
		m = p.introduced(m)
	}
	if silent[c.method] {
		return m
	}
	if err := p.observe(ctx, c.method, "", source(c), nil, words(c.method, m)); err != nil {
		p.cfg.Log.Warn("a response was not passed on", "method", c.method, "err", err)
		return fault(m.ID, jsonrpc.CodeInternalError, "not shown, since it could not be recorded: "+err.Error())
	}
	return m
}

// source is the resource that a request names, if it names one.
func source(c *call) string {
	var at struct {
		URI string `json:"uri"`
	}
	if json.Unmarshal(c.params, &at) != nil || len(at.URI) > streams.MaxNameLen {
		return ""
	}
	return at.URI
}

// words are what a response brings before a model, as blocks: of an introduction
// the instructions, of resources each content, of anything else all there is.
func words(method string, m *jsonrpc.Response) []string {
	if m.Error != nil {
		return []string{errorText(m.Error)}
	}
	var r struct {
		Instructions string            `json:"instructions"`
		Contents     []json.RawMessage `json:"contents"`
	}
	parts := []json.RawMessage{m.Result}
	if json.Unmarshal(m.Result, &r) == nil {
		switch {
		case method == "initialize" || method == "server/discover":
			if r.Instructions == "" {
				return nil
			}
			return []string{r.Instructions}
		case method == "resources/read":
			parts = r.Contents
		}
	}
	var out []string
	for _, part := range parts {
		var c map[string]any
		if json.Unmarshal(part, &c) == nil {
			note := strip(c)
			if w := append(content.Leaves(c, foreign), note...); len(w) > 0 {
				out = append(out, strings.Join(w, "\n"))
			}
		}
	}
	return out
}

// introduced notes the server's name, and says that the list of tools may change:
// it does so when it is accepted.
func (p *Proxy) introduced(m *jsonrpc.Response) *jsonrpc.Response {
	var all map[string]json.RawMessage
	if json.Unmarshal(m.Result, &all) != nil {
		return m
	}
	var info struct {
		Name string `json:"name"`
	}
	var meta struct {
		Info json.RawMessage `json:"io.modelcontextprotocol/serverInfo"` // since the protocol has no initialize
	}
	who := all["serverInfo"]
	if who == nil && json.Unmarshal(all["_meta"], &meta) == nil {
		who = meta.Info
	}
	if json.Unmarshal(who, &info) == nil && info.Name != "" {
		p.mu.Lock()
		if p.server == "" {
			p.server = streams.Clip(info.Name, 200)
		}
		p.mu.Unlock()
	}
	var caps map[string]json.RawMessage
	var tools map[string]json.RawMessage
	if json.Unmarshal(all["capabilities"], &caps) != nil || caps["tools"] == nil || json.Unmarshal(caps["tools"], &tools) != nil {
		return m
	}
	if tools == nil {
		tools = make(map[string]json.RawMessage)
	}
	tools["listChanged"] = json.RawMessage("true")
	var err error
	if caps["tools"], err = json.Marshal(tools); err != nil {
		return m
	}
	if all["capabilities"], err = json.Marshal(caps); err != nil {
		return m
	}
	out := *m
	if out.Result, err = json.Marshal(all); err != nil {
		return m
	}
	return &out
}

// observe publishes words as observations and returns once all of them are
// acknowledged. Nothing to say needs none.
func (p *Proxy) observe(ctx context.Context, tool, call, source string, args json.RawMessage, words []string) error {
	blocks := make([]streams.Block, 0, len(words))
	for _, w := range words {
		blocks = append(blocks, streams.Block{Text: w})
	}
	if len(blocks) == 0 {
		return nil
	}
	return p.publish(ctx, tool, call, source, args, blocks)
}

func (p *Proxy) publish(ctx context.Context, tool, call, source string, args json.RawMessage, blocks []streams.Block) error {
	if len(args) > maxArgs {
		args = nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Publish)
	defer cancel()
	for _, part := range content.Divide(blocks) {
		o := &streams.Observation{Head: streams.Head{ID: client.NewID(), Session: p.cfg.Session}, Tool: streams.Clip(tool, 500), Call: call,
			Source: source, Args: jsontext.Value(args), Blocks: part}
		if _, err := p.host.Observe(ctx, p.cfg.Origin, o); err != nil {
			return err
		}
	}
	return nil
}

// resultBlocks are the blocks of a tool's result: text as it is, of others what
// can be read of them. Of images, sounds and other bytes the digest is kept.
func resultBlocks(result json.RawMessage) []streams.Block {
	var r struct {
		Content    []map[string]any `json:"content"`
		Structured json.RawMessage  `json:"structuredContent"`
	}
	if json.Unmarshal(result, &r) != nil {
		return joined("", content.Named(result)) // no result of a tool that we know
	}
	var out []streams.Block
	var fresh []string // what is no block
	for _, c := range r.Content {
		kind, _ := c["type"].(string)
		if kind == "text" {
			t, _ := c["text"].(string)
			out = append(out, streams.Block{Text: t})
			for _, k := range []string{"type", "text", "annotations", "_meta"} {
				delete(c, k)
			}
			fresh = append(fresh, content.Leaves(c, foreign)...)
			continue
		}
		note := strip(c)
		delete(c, "type")
		words := append(content.Leaves(c, foreign), note...)
		out = append(out, joined(streams.Clip(kind, 64), words)...)
	}
	// Results may hold more than these two, in later versions of the protocol.
	var rest map[string]any
	said := fresh
	fresh = nil
	if json.Unmarshal(result, &rest) == nil {
		delete(rest, "content")
		delete(rest, "structuredContent")
		delete(rest, "_meta")
		delete(rest, "resultType")
	}
	for _, w := range slices.Concat(said, content.Named(r.Structured), content.Leaves(rest, foreign)) {
		if !slices.ContainsFunc(out, func(b streams.Block) bool { return strings.Contains(b.Text, w) }) {
			fresh = append(fresh, w)
		}
	}
	return append(out, joined("structured", fresh)...)
}

// strip takes encoded bytes out of a block and describes them. Of bytes that are
// text it has the text too.
func strip(c map[string]any) (out []string) {
	at := c
	if r, ok := c["resource"].(map[string]any); ok {
		at = r
	}
	for _, k := range []string{"data", "blob"} {
		if s, ok := at[k].(string); ok {
			delete(at, k)
			sum := sha256.Sum256([]byte(s))
			out = append(out, fmt.Sprintf("%d bytes in base64, sha256:%s", len(s), hex.EncodeToString(sum[:])))
			if text := decodedText(s); text != "" {
				out = append(out, text)
			}
		}
	}
	return out
}

// decodedText is what base64 decodes to, in either alphabet, if that is text.
func decodedText(s string) string {
	s = strings.Map(func(r rune) rune {
		switch r {
		case '-':
			return '+'
		case '_':
			return '/'
		case '=', '\n', '\r', ' ', '\t':
			return -1
		}
		return r
	}, s)
	b, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil || !utf8.Valid(b) || bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f' }) {
		return ""
	}
	return string(b)
}

func joined(kind string, words []string) []streams.Block {
	if len(words) == 0 {
		return nil
	}
	if kind == "resource" || kind == "structured" {
		kind = "" // they are read as text
	}
	return []streams.Block{{Type: kind, Text: strings.Join(words, "\n")}}
}
