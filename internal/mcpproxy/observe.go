package mcpproxy

import (
	"bytes"
	"cmp"
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
	"lazaret/pkg/text"
	"lazaret/streams"
)

// maxArgs is the maximum number of bytes of a call's arguments in an observation. The proposal of the call has all of
// them.
const maxArgs = 32 << 10

// shown records those texts in a response that a model may read. It returns the response to pass on. If the texts
// cannot be recorded, it returns an error response instead.
func (p *Proxy) shown(ctx context.Context, c *call, m *jsonrpc.Response) *jsonrpc.Response {
	if err := vetResponse(m); err != nil {
		return fault(m.ID, jsonrpc.CodeInternalError, p.refused(ctx, c.method, "", err).Error())
	}
	if c.method == "initialize" || c.method == "server/discover" {
		m = p.introduced(m)
	}
	err := p.recordServerInfo(ctx, m.Result)
	if err == nil {
		err = p.observe(ctx, c.method, "", source(c), words(c.method, m))
	}
	if err != nil {
		p.cfg.Log.Warn("a response was not passed on", "method", c.method, "err", err)
		return fault(m.ID, jsonrpc.CodeInternalError, "not shown, since it could not be recorded: "+err.Error())
	}
	return m
}

// source returns the URI of the resource that a request names, or "".
func source(c *call) string {
	var at struct {
		URI string `json:"uri"`
	}
	if json.Unmarshal(c.params, &at) != nil || len(at.URI) > streams.MaxNameLen {
		return ""
	}
	return at.URI
}

// words returns the texts in a response that a model may read, as a list of blocks. In the response to initialize, the
// instructions are one block. In the response to resources/read, each resource is one block. All other texts of the
// response together are one more block.
func words(method string, m *jsonrpc.Response) (out []string) {
	if m.Error != nil {
		return []string{errorText(m.Error)}
	}
	r, ok := withoutServerInfo(m.Result)
	if !ok {
		return together(content.All(m.Result))
	}
	switch {
	case method == "initialize" || method == "server/discover":
		if v, _ := r.get("protocolVersion").(string); content.Identifier(v) {
			r.remove("protocolVersion")
		}
		if instructions, ok := r.get("instructions").(string); ok {
			r.remove("instructions")
			out = together([]string{instructions})
		}
	case method == "resources/read":
		contents, _ := r.get("contents").([]any)
		for _, c := range contents {
			out = append(out, together(walk(nil, "", c, false))...)
		}
		if contents != nil {
			r.remove("contents")
		}
	}
	return append(out, together(walk(nil, "", r, false))...)
}

// serverInfo is the name of a field in the _meta of a result. It says which server made the result, in protocol
// versions without initialize.
const serverInfo = "io.modelcontextprotocol/serverInfo"

// withoutServerInfo decodes a result and removes its serverInfo. The serverInfo is left out because recordServerInfo
// records it.
func withoutServerInfo(result json.RawMessage) (*object, bool) {
	r, ok := decoded(result).(*object)
	if meta, ok := r.get("_meta").(*object); ok {
		meta.remove(serverInfo)
	}
	return r, ok
}

// recordServerInfo records the serverInfo of a result, if it is not the one that was recorded last.
func (p *Proxy) recordServerInfo(ctx context.Context, result json.RawMessage) error {
	var r struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(result, &r) != nil || r.Meta[serverInfo] == nil {
		return nil
	}
	said := together(spoken(r.Meta[serverInfo]))
	p.mu.Lock()
	again := slices.Equal(said, p.lastInfo)
	p.mu.Unlock()
	if again {
		return nil
	}
	if err := p.observe(ctx, "initialize", "", "", said); err != nil {
		return err
	}
	p.mu.Lock()
	p.lastInfo = said
	p.mu.Unlock()
	return nil
}

// together joins words into one block. If they are blank, it returns nil.
func together(words []string) []string {
	if text := strings.Join(words, "\n"); strings.TrimSpace(text) != "" {
		return []string{text}
	}
	return nil
}

// discover asks the server for its name and its instructions if the client has not done so. In protocol versions
// without initialize, a client may begin with any request.
func (p *Proxy) discover(ctx context.Context, meta map[string]json.RawMessage) error {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known || !stateless(meta) {
		return nil
	}
	const method = "server/discover"
	result, err := p.ask(ctx, method, map[string]any{"_meta": meta})
	if err != nil {
		return err
	}
	m := p.introduced(&jsonrpc.Response{Result: result})
	if err := p.recordServerInfo(ctx, result); err != nil {
		return err
	}
	return p.observe(ctx, method, "", "", words(method, m))
}

// introduced stores the server's name and instructions from the response to initialize. It adds to the response that
// the list of tools may change (listChanged), because it changes when a person accepts it.
func (p *Proxy) introduced(m *jsonrpc.Response) *jsonrpc.Response {
	var all map[string]json.RawMessage
	if json.Unmarshal(m.Result, &all) != nil {
		return m
	}
	p.mu.Lock()
	p.known = true
	p.mu.Unlock()
	var info struct {
		Name string `json:"name"`
	}
	var meta struct {
		Info json.RawMessage `json:"io.modelcontextprotocol/serverInfo"` // in protocol versions without initialize
	}
	who := all["serverInfo"]
	if who == nil && json.Unmarshal(all["_meta"], &meta) == nil {
		who = meta.Info
	}
	if json.Unmarshal(who, &info) == nil && info.Name != "" {
		p.mu.Lock()
		p.server = cmp.Or(p.server, streams.Clip(info.Name, 200))
		p.mu.Unlock()
	}
	p.instructed(all["instructions"])
	var caps map[string]json.RawMessage
	var tools map[string]json.RawMessage
	if json.Unmarshal(all["capabilities"], &caps) != nil || caps["tools"] == nil || json.Unmarshal(caps["tools"],
		&tools) != nil {
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

// instructed stores the server's instructions. If they have changed, a person must accept the tools again.
func (p *Proxy) instructed(raw json.RawMessage) {
	said := string(raw) // if the instructions are not a string, their JSON is used
	var text *string
	if len(raw) > 0 && json.Unmarshal(raw, &text) == nil {
		if said = ""; text != nil {
			said = *text
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if said != p.instructs {
		p.instructs = said
		p.tools.changed()
	}
}

// observe records words as observations. It returns when all of them are in the ledger. If there are no words, it
// records nothing.
func (p *Proxy) observe(ctx context.Context, tool, call, source string, words []string) error {
	blocks := make([]streams.Block, 0, len(words))
	for _, w := range words {
		blocks = append(blocks, streams.Block{Text: w})
	}
	if len(blocks) == 0 {
		return nil
	}
	_, err := reach(ctx, p, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.publish(ctx, tool, call, source, nil, blocks)
	})
	return err
}

func (p *Proxy) publish(ctx context.Context, tool, call, source string, args json.RawMessage,
	blocks []streams.Block) error {
	if len(args) > maxArgs {
		args = nil
	}
	for _, part := range content.Divide(blocks) {
		o := &streams.Observation{Head: streams.Head{ID: client.NewID(), Session: p.cfg.Session},
			Tool: streams.Clip(tool, 500), Call: call,
			Source: source, Args: jsontext.Value(args), Blocks: part}
		ctx, cancel := context.WithTimeout(ctx, p.cfg.Publish)
		err := p.submit(ctx, o)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// submit records one observation. If ingest rejects it, submit records, with the same id, that the content was not
// shown. Without this record, ingest must assume that a model saw the content, and holds the proposals in the session.
func (p *Proxy) submit(ctx context.Context, o *streams.Observation) error {
	rep, err := p.host.Submit(ctx, p.cfg.Origin, o)
	if err == nil || client.Stored(rep, err) && !rep.Unseen {
		return nil
	}
	if rep == nil || !rep.Unseen {
		return err
	}
	err = fmt.Errorf("the observation was rejected: %w", err)
	instead := &streams.Observation{Head: o.Head, Call: o.Call,
		Blocks: []streams.Block{{Text: "Withheld: " + err.Error()}}}
	if _, e := p.host.Submit(ctx, p.cfg.Origin, instead); e != nil {
		return fmt.Errorf("%w; a record that no model saw the content could not be stored either, so all calls of the "+
			"session are held (%s): %w", err,
			streams.CodeUnseen, e)
	}
	return err
}

// resultBlocks returns the blocks of a tool's result. A block of text is unchanged. Of other content, a block has the
// parts that can be read. Images, audio and other binary data are replaced by digests.
func resultBlocks(result json.RawMessage) []streams.Block {
	rest, ok := withoutServerInfo(result)
	if !ok {
		return joined("", content.All(result)) // the result does not have a form that is known
	}
	var out []streams.Block
	var more []string // all other text of the blocks
	blocks, _ := rest.get("content").([]any)
	for _, b := range blocks {
		c, _ := b.(*object)
		kind, _ := c.get("type").(string)
		if t, ok := c.get("text").(string); ok && kind == "text" {
			out = append(out, streams.Block{Text: t})
			c.remove("text")
			more = walk(more, "", c, false)
			continue
		}
		out = append(out, joined(streams.Clip(kind, 64), walk(nil, "", b, false))...)
	}
	if blocks != nil {
		rest.remove("content")
	}
	if beside := walk(nil, "", rest, false); !repeats(out, beside) {
		more = append(more, beside...)
	}
	if !slices.ContainsFunc(more, undefined) {
		return out // nothing is left except names of fields that the protocol defines
	}
	return append(out, joined("structured", more)...)
}

// repeats reports whether blocks have all words of the structured content in the same order. The structured content
// often repeats the text of the blocks, or the strings in their JSON. In another order, the same words may say something
// else.
func repeats(blocks []streams.Block, words []string) bool {
	var told []string
	for _, b := range blocks {
		told = append(told, b.Text)
		if !jsontext.Value(b.Text).IsValid() {
			continue
		}
		for _, w := range content.All(json.RawMessage(b.Text)) {
			if strings.Contains(b.Text, w) { // it is not escaped
				told = append(told, w)
			}
		}
	}
	for _, w := range words {
		if !undefined(w) || w == "result" { // some servers put a text into an object with this name
			continue
		}
		i := slices.Index(told, w)
		if i < 0 {
			return false
		}
		told = told[i+1:]
	}
	return true
}

// plain are values that the protocol defines. They are not recorded.
var plain = text.Set(`assistant system user text image audio resource resource_link tool_use tool_result complete
	input_required private public debug info notice warning error critical alert emergency`)

// object is a JSON object with its members in the order in which they are written. A model reads them in this order.
type object struct{ members []member }

type member struct {
	name  string
	value any
}

// get returns the value of a member. It returns nil if there is no such member, or no object.
func (o *object) get(name string) any {
	if o != nil {
		for _, m := range o.members {
			if m.name == name {
				return m.value
			}
		}
	}
	return nil
}

// remove removes a member, if the object has it.
func (o *object) remove(name string) {
	o.members = slices.DeleteFunc(o.members, func(m member) bool { return m.name == name })
}

// decoded returns a JSON value: a *object, a []any, a string, a number as it is written, or another value. If the JSON
// is malformed, it returns nil.
func decoded(raw json.RawMessage) any {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := readValue(d)
	if err != nil {
		return nil
	}
	return v
}

func readValue(d *jsontext.Decoder) (any, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case '"':
		return t.String(), nil
	case '0':
		return json.Number(t.String()), nil
	case 't', 'f':
		return t.Bool(), nil
	case '[':
		list := []any{}
		for d.PeekKind() != ']' {
			v, err := readValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.ReadToken()
		return list, err
	case '{':
		o := new(object)
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			m := member{name: name.String()}
			if m.value, err = readValue(d); err != nil {
				return nil, err
			}
			o.members = append(o.members, m)
		}
		_, err = d.ReadToken()
		return o, err
	}
	return nil, nil
}

// spoken returns the texts in a part of a message that a model may read; see walk.
func spoken(raw json.RawMessage) []string { return walk(nil, "", decoded(raw), false) }

// walk appends to out what a model may read in a value: all strings, the names that the protocol does not define, and
// numbers under such names. name is the name of the value. If all is set, each name is treated as one that the protocol
// does not define. In blocks and resources, base64 data is replaced by a description. Elsewhere it is recorded as
// written, because a model may read it as text there.
func walk(out []string, name string, v any, all bool) []string {
	switch v := v.(type) {
	case string:
		id := (name == "progressToken" || name == "requestId") && content.Identifier(v)
		if strings.TrimSpace(v) != "" && (all || !plain[v] && !id) {
			out = append(out, v)
		}
	case json.Number:
		if all {
			out = append(out, v.String())
		}
	case []any:
		for _, x := range v {
			out = walk(out, name, x, all)
		}
	case *object:
		data, note := described(v)
		for _, m := range v.members {
			if all || undefined(m.name) {
				out = append(out, m.name)
			}
			if m.name != data || all {
				out = walk(out, m.name, m.value, all || undefined(m.name) || free[m.name])
			}
		}
		out = append(out, note...)
	}
	return out
}

// described returns the name of that member of a block or a resource which has base64 data, and a description of the
// data. If the data is text, the description has the text too. If there is no such member, described returns "".
func described(c *object) (name string, note []string) {
	name = "blob"
	if kind := c.get("type"); kind == "image" || kind == "audio" {
		name = "data"
	}
	s, ok := c.get(name).(string)
	if !ok {
		return "", nil
	}
	b, err := decodeBase64(s)
	if err != nil {
		return "", nil // recorded as written
	}
	sum := sha256.Sum256([]byte(s))
	note = append(note, fmt.Sprintf("%d bytes in base64, sha256:%s", len(s), hex.EncodeToString(sum[:])))
	kind, _ := c.get("mimeType").(string)
	if text := asText(b, kind); strings.TrimSpace(text) != "" {
		note = append(note, text)
	}
	return name, note
}

// decodeBase64 decodes the standard and the URL alphabet, with or without padding and line breaks.
func decodeBase64(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/", "=", "", "\n", "", "\r",
		"").Replace(s))
}

// asText returns data as text if its media type is that of a text, or if most of the data is text. Otherwise it returns
// "". Invalid characters are dropped.
func asText(b []byte, kind string) string {
	kind = strings.ToLower(kind)
	odd := 0
	text := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f' {
			odd++
			return -1
		}
		return r
	}, string(b))
	named := strings.HasPrefix(kind, "text/") || slices.ContainsFunc([]string{"json", "xml", "yaml", "csv", "script",
		"markdown"},
		func(w string) bool { return strings.Contains(kind, w) })
	if named || odd*10 <= len(b) {
		return text
	}
	return ""
}

func joined(kind string, words []string) []streams.Block {
	if len(words) == 0 {
		return nil
	}
	if kind == "resource" || kind == "structured" {
		kind = "" // treat it as text
	}
	return []streams.Block{{Type: kind, Text: strings.Join(words, "\n")}}
}
