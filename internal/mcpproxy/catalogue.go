package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"lazaret/client"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Limits of a catalogue.
const (
	maxPages = 64
	maxTools = 2048
	// listWait is the maximum time for which a tools/list waits for an approval. It is short, because clients list the
	// tools while they start.
	listWait = 3 * time.Second
	// maxRenewals is the maximum number of times that a catalogue is proposed again after its hold has expired.
	maxRenewals = 32
	// catalogueSession is the session of all proposals of catalogues. It is the same in each run of a proxy, so that
	// each run makes the same proposal.
	catalogueSession = "mcp-tools"
)

// catalogue is the server's list of tools, with the verdict on it.
//
// Whether a list is accepted is stored only in the ledger. The id of the proposal is derived from the digest of the
// list. So a proposal of the same list has the same id, and gets the same verdict.
type catalogue struct {
	p    *Proxy
	gen  atomic.Int64  // incremented when the server reports changed tools
	lock chan struct{} // guards the fields below

	seen    int64 // value of gen when the tools were last listed; -1 if they never were
	digest  string
	binding string                     // digest of the list and of the server's command; each call of a tool carries it
	first   map[string]json.RawMessage // the first page's result, without its tools
	said    []string                   // those texts of the first page that are not part of a tool, and were recorded
	raw     []json.RawMessage
	names   map[string]bool
	action  *streams.Action
	rep     *client.Reply
	err     error
	record  *listRecord // the published list
	waiting string      // digest of the list whose acceptance a background goroutine awaits
}

func newCatalogue(p *Proxy) *catalogue {
	return &catalogue{p: p, lock: make(chan struct{}, 1), seen: -1}
}

func (c *catalogue) changed() { c.gen.Add(1) }

// offered returns the names of the accepted tools and the binding of their list. If the list is not accepted, it
// returns the reason. fresh makes it list the tools again even if the server has not reported a change.
func (c *catalogue) offered(ctx context.Context, meta map[string]json.RawMessage, fresh bool,
	wait time.Duration) (names map[string]bool, binding string, why *refusal) {
	select {
	case <-ctx.Done():
		return nil, "", &refusal{err: ctx.Err()}
	case c.lock <- struct{}{}:
	}
	defer func() { <-c.lock }()
	if why := c.settle(ctx, meta, fresh, wait); why != nil {
		return nil, "", why
	}
	return c.names, c.binding, nil
}

// result returns the result of a tools/list.
func (c *catalogue) result(ctx context.Context, r *jsonrpc.Request) (json.RawMessage, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case c.lock <- struct{}{}:
	}
	defer func() { <-c.lock }()
	why := c.settle(ctx, metaOf(r.Params), true, min(listWait, c.p.cfg.Wait))
	if c.first == nil {
		return nil, why.err
	}
	out := make(map[string]any, len(c.first)+1)
	for k, v := range c.first {
		out[k] = v
	}
	out["tools"] = c.raw
	if why != nil || c.raw == nil {
		out["tools"] = []json.RawMessage{}
	}
	// Clients must not cache the list, because the proxy asks the server each time.
	if out["ttlMs"] != nil {
		out["ttlMs"], out["cacheScope"] = 0, "private"
	}
	return json.Marshal(out)
}

// settle lists the tools again if they may have changed. Then it asks whether the list is accepted. If not, it returns
// the reason.
func (c *catalogue) settle(ctx context.Context, meta map[string]json.RawMessage, fresh bool,
	wait time.Duration) *refusal {
	if gen := c.gen.Load(); fresh || c.seen != gen {
		if err := c.list(ctx, meta); err != nil {
			c.seen, c.first = -1, nil // the list of tools is unknown now
			return &refusal{err: err, what: c.label()}
		}
		c.seen = gen
	}
	if client.VerdictOf(c.rep, c.err) != streams.Allow {
		c.propose(ctx, wait)
	}
	if why := c.record.rejected(); why != nil {
		c.p.withheld(c.record, why)
		err := fmt.Errorf("the server's list of tools was rejected, so none of them can be called: %s: %s", why.Code,
			why.Reason)
		return &refusal{err: err, action: c.action.ID, what: c.label()}
	}
	if client.VerdictOf(c.rep, c.err) == streams.Allow {
		return nil
	}
	if client.Open(c.rep) {
		c.await()
	}
	return &refusal{rep: c.rep, err: c.err, action: c.action.ID, what: c.label()}
}

func (c *catalogue) label() string {
	return fmt.Sprintf("every tool of server %q, whose list of tools has to be accepted first,", c.p.serverName())
}

// list reads all pages of the list from the server. If the list has changed, list publishes it.
func (c *catalogue) list(ctx context.Context, meta map[string]json.RawMessage) error {
	if err := c.p.discover(ctx, meta); err != nil {
		return fmt.Errorf("asking the server for its name: %w", err)
	}
	var tools []streams.Tool
	var raw []json.RawMessage
	var first map[string]json.RawMessage
	names := make(map[string]bool)
	params := make(map[string]any)
	if len(meta) > 0 {
		params["_meta"] = meta
	}
	for page := 0; ; page++ {
		result, err := c.p.ask(ctx, "tools/list", params)
		if err != nil {
			return fmt.Errorf("listing the server's tools: %w", err)
		}
		list, err := readPage(result)
		if err != nil {
			return err
		}
		if first == nil {
			first = list.rest
		}
		for i, t := range list.tools {
			if names[t.Name] {
				return fmt.Errorf("the server offers two tools of the name %q", streams.Clip(t.Name, 100))
			}
			names[t.Name] = true
			tools, raw = append(tools, t), append(raw, list.raw[i])
		}
		if len(tools) > maxTools || page > maxPages {
			return fmt.Errorf("the server offers more than %d tools, or more than %d pages of them", maxTools, maxPages)
		}
		if list.cursor == "" {
			break
		}
		params["cursor"] = list.cursor
	}
	body, err := json.Marshal(first)
	if err != nil {
		return err
	}
	if err := c.p.recordServerInfo(ctx, body); err != nil {
		return fmt.Errorf("recording the server's list of tools: %w", err)
	}
	rest, _ := withoutServerInfo(body)
	if said := walk(nil, "", rest, false); len(said) > 0 && !slices.Equal(said, c.said) {
		if err := c.p.observe(ctx, "tools/list", "", "", together(said)); err != nil {
			return fmt.Errorf("recording the server's list of tools: %w", err)
		}
		c.said = said
	}
	server := c.p.serverName()
	instructions := c.p.told()
	digest := streams.CatalogueDigest(server, instructions, tools)
	if digest != c.digest || c.action == nil {
		ctx, cancel := context.WithTimeout(ctx, c.p.cfg.Publish)
		defer cancel()
		e := &streams.Tools{Head: streams.Head{ID: client.NewID(), Session: c.p.cfg.Session}, Server: server,
			Instructions: instructions, Tools: tools}
		record, err := reach(ctx, c.p, func(ctx context.Context) (*listRecord, error) { return c.p.record(ctx, e) })
		if err != nil {
			return fmt.Errorf("recording the server's tools: %w", err)
		}
		c.record.close()
		c.record = record
		action, binding, err := proposalOf(server, instructions, digest, tools, c.p.cfg.Command)
		if err != nil {
			return err
		}
		c.binding, c.digest, c.action, c.rep, c.err = binding, digest, action, nil, nil
	}
	c.first, c.raw, c.names = first, raw, names
	return nil
}

// listRecord is a list of tools that was published. The intake has acknowledged it, but ingest may still reject it. If
// ingest rejects it, a message of the live feed says so before ingest decides on the proposal to accept the list.
type listRecord struct {
	id, session string
	said        bool // it was recorded that the rejected list was not shown
	why         chan client.Rejected
	stop        func() error
}

// record publishes a list of tools.
func (p *Proxy) record(ctx context.Context, e *streams.Tools) (*listRecord, error) {
	r := &listRecord{id: e.ID, session: e.Session, why: make(chan client.Rejected, 1)}
	var err error
	r.stop, err = p.host.Rejections(func(x client.Rejected) {
		if x.ID == e.ID {
			select {
			case r.why <- x:
			default:
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if _, err := p.host.Publish(ctx, streams.KindTools, "", e); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// rejected returns the reason why ingest has rejected the list. It returns nil if the live feed has not said that.
func (r *listRecord) rejected() *client.Rejected {
	if r == nil {
		return nil
	}
	select {
	case why := <-r.why:
		r.why <- why // put it back for the next caller
		return &why
	default:
		return nil
	}
}

// withheld records that no model saw a rejected list. It uses the id of the list. Without this record, ingest must
// assume that a model saw the list, and holds the proposals in the session.
func (p *Proxy) withheld(r *listRecord, why *client.Rejected) {
	if r.said || !why.Unseen {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.Publish)
	defer cancel()
	o := &streams.Observation{Head: streams.Head{ID: r.id, Session: r.session},
		Blocks: []streams.Block{{Text: "Withheld: the server's list of tools was rejected: " + why.Reason}}}
	if _, err := p.host.Submit(ctx, p.cfg.Origin, o); err != nil {
		p.cfg.Log.Warn("all calls of the session are held: the proxy could not record that no model saw the rejected list "+
			"of tools", "err", err)
		return
	}
	r.said = true
}

func (r *listRecord) close() {
	if r != nil {
		_ = r.stop() // the connection may already be closed
	}
}

// page is one page of a server's list of tools.
type page struct {
	tools  []streams.Tool
	raw    []json.RawMessage          // tools as the server wrote them
	rest   map[string]json.RawMessage // the other fields, never nil
	cursor string
}

// readPage reads the result of a tools/list.
func readPage(result json.RawMessage) (*page, error) {
	var list struct {
		Tools      []json.RawMessage `json:"tools"`
		NextCursor string            `json:"nextCursor"`
	}
	p := new(page)
	if err := vet(result); err != nil {
		return nil, fmt.Errorf("the server's list of tools: %w", err)
	}
	err := json.Unmarshal(result, &list)
	if err == nil {
		err = json.Unmarshal(result, &p.rest)
	}
	if err == nil && p.rest == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return nil, fmt.Errorf("the server's list of tools: %w", err)
	}
	p.cursor = list.NextCursor
	maps.DeleteFunc(p.rest, func(name string, _ json.RawMessage) bool { return !pageNames[name] })
	for _, r := range list.Tools {
		t, err := readTool(r)
		if err != nil {
			return nil, err
		}
		p.tools = append(p.tools, t)
		if r, err = shownTool(r); err != nil {
			return nil, err
		}
		p.raw = append(p.raw, r)
	}
	return p, nil
}

// pageNames and toolNames are the fields of a page and of a tool that are passed on.
// readPage and shownTool drop all other fields.
var (
	pageNames = text.Set("_meta cacheScope resultType ttlMs")
	toolNames = text.Set("_meta annotations description execution icons inputSchema name outputSchema title")
)

// shownTool returns a tool in the form in which it is passed on to the client.
func shownTool(raw json.RawMessage) (json.RawMessage, error) {
	var t map[string]json.RawMessage
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, fmt.Errorf("a tool of the server: %w", err)
	}
	maps.DeleteFunc(t, func(name string, _ json.RawMessage) bool { return !toolNames[name] })
	if err := vetAnnotations(t["annotations"]); err != nil {
		return nil, fmt.Errorf("the annotations of a tool: %w", err)
	}
	return json.Marshal(t)
}

// readTool returns a tool in the form in which it is recorded for rules and people. This has every part that a model
// may see, also the title and the schema of the output.
func readTool(raw json.RawMessage) (streams.Tool, error) {
	var t struct {
		Name        string         `json:"name"`
		Title       string         `json:"title"`
		Description string         `json:"description"`
		Input       jsontext.Value `json:"inputSchema"`
		Output      jsontext.Value `json:"outputSchema"`
		Annotations jsontext.Value `json:"annotations"`
		Meta        jsontext.Value `json:"_meta"`
		Icons       jsontext.Value `json:"icons"`
		Execution   jsontext.Value `json:"execution"`
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return streams.Tool{}, fmt.Errorf("a tool of the server: %w", err)
	}
	switch {
	case t.Name == "" || len(t.Name) > streams.MaxNameLen:
		return streams.Tool{}, fmt.Errorf("the server offers a tool whose name has %d bytes: 1 to %d are allowed",
			len(t.Name),
			streams.MaxNameLen)
	case t.Name == streams.ApproveTools, t.Name == streams.RegisterPrompt:
		return streams.Tool{}, fmt.Errorf("the server offers a tool named %s, a name reserved for the pipeline", t.Name)
	}
	out := streams.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Input, Annotations: t.Annotations}
	if t.Title != "" && t.Title != t.Name {
		out.Description = t.Title + "\n" + t.Description
	}
	// A person accepts everything that is passed on. So these parts are added to the schema, which is a part of the
	// digest.
	if len(t.Output) > 0 || len(t.Meta) > 0 || len(t.Icons) > 0 || len(t.Execution) > 0 {
		out.InputSchema = jsontext.Value(`{"input":` + orNull(t.Input))
		more := map[string]jsontext.Value{"output": t.Output, "_meta": t.Meta, "icons": t.Icons, "execution": t.Execution}
		for name, v := range more {
			if len(v) > 0 {
				out.InputSchema = fmt.Appendf(out.InputSchema, ",%q:%s", name, v)
			}
		}
		out.InputSchema = append(out.InputSchema, '}')
	}
	if len(out.InputSchema) > 0 {
		if err := out.InputSchema.Canonicalize(); err != nil {
			return out, fmt.Errorf("the schema of tool %q: %w", streams.Clip(t.Name, 100), err)
		}
	}
	if len(out.Annotations) > 0 && !out.Annotations.IsValid() {
		return out, fmt.Errorf("the annotations of tool %q have duplicate names or invalid UTF-8",
			streams.Clip(t.Name, 100))
	}
	return out, nil
}

func orNull(v jsontext.Value) string {
	if len(v) == 0 {
		return "null"
	}
	return string(v)
}

// proposalOf returns the action by which a person is asked to accept a server's catalogue. binding is a digest of the
// catalogue and of the command that starts the server.
func proposalOf(server, instructions, digest string, tools []streams.Tool, command []string) (a *streams.Action,
	binding string, err error) {
	args := streams.ApproveToolsArgs{Server: server, Digest: digest, Tools: []streams.ApprovedTool{},
		Command:      masked(command),
		Instructions: streams.Clip(instructions, 2000)}
	for _, t := range tools {
		args.Tools = append(args.Tools, streams.ApprovedTool{Name: t.Name, Description: streams.Clip(t.Description, 2000),
			Digest: t.Digest()})
	}
	body, err := streams.Marshal(args)
	if err != nil {
		return nil, "", err
	}
	level := beliefs.L4 // at this level a person must accept the list under any policy
	binding = args.Binding()
	return &streams.Action{Head: streams.Head{ID: "tools-" + strings.TrimPrefix(binding, "sha256:")[:40],
		Session: catalogueSession},
		Tool: streams.ApproveTools, Args: body, Level: &level}, binding, nil
}

// Limits for the command that is shown together with a catalogue.
const (
	maxCommand     = 64  // words
	maxCommandWord = 300 // bytes
)

// masked returns a command in which each secret is replaced by a digest. So two commands with different secrets still
// differ. All words after the first maxCommand are replaced by one digest.
func masked(command []string) []string {
	out := make([]string, 0, len(command))
	secret := false
	for i, w := range command {
		if i == maxCommand {
			return append(out, "more:"+streams.Digest([]byte(strings.Join(command[i:], "\x00"))))
		}
		name, value, assigned := strings.Cut(w, "=")
		switch {
		case secret:
			w = "secret:" + streams.Digest([]byte(w))
		case assigned && secretName(name):
			w = name + "=secret:" + streams.Digest([]byte(value))
		case len(w) > maxCommandWord || slices.ContainsFunc(text.Analyze(w).Carriers, func(c text.Carrier) bool {
			return c.Kind == text.Secret
		}):
			w = "secret:" + streams.Digest([]byte(w))
		}
		// The word after an option for a secret is masked even if it looks like an option. So in --no-auth --token T,
		// both --token and T are masked.
		secret = !assigned && strings.HasPrefix(name, "-") && secretName(name)
		out = append(out, w)
	}
	return out
}

// secretName reports whether the value of an option or a variable with this name is probably a secret.
func secretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"token", "secret", "password", "passwd", "key", "credential", "auth"},
		func(s string) bool { return strings.Contains(name, s) })
}

// propose asks for a verdict on the catalogue. If the hold of an earlier proposal has expired or was cancelled (see
// ended), it proposes the catalogue under another id. A rejection is final.
func (c *catalogue) propose(ctx context.Context, wait time.Duration) {
	id := c.action.ID
	base := strings.SplitN(strings.TrimPrefix(id, "tools-"), "-", 2)[0]
	for n := 1; n <= maxRenewals; n++ {
		a := *c.action
		a.ID = "tools-" + base
		if n > 1 {
			a.ID += fmt.Sprintf("-%d", n)
		}
		c.rep, c.err = reach(ctx, c.p, func(ctx context.Context) (*client.Reply, error) { return c.p.host.Decide(ctx, &a) })
		c.action = &a
		if c.err == nil && client.Open(c.rep) {
			c.p.cfg.Log.Warn("the server's tools wait for a person", "server", c.p.serverName(), "hold", c.rep.Entry.Hold.ID)
			if wait > 0 {
				patience, cancel := context.WithTimeout(ctx, wait)
				then, err := reach(patience, c.p, func(ctx context.Context) (*client.Reply, error) {
					over := c.p.page(ctx, &a, c.rep)
					then, err := c.p.host.Await(ctx, &a, c.rep)
					over(then)
					return then, err
				})
				cancel()
				if err == nil || !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
					c.rep, c.err = then, err
				}
			}
		}
		if c.err != nil || client.VerdictOf(c.rep, nil) != streams.Hold || client.Open(c.rep) || !ended(c.rep) {
			return
		}
	}
}

// ended reports whether the catalogue must be proposed under another id. That is so if its hold has expired or was
// cancelled, or if another version of this program used the id for another proposal.
func ended(rep *client.Reply) bool {
	for _, r := range rep.Entry.Reasons {
		if r.Code == streams.CodeExpired || r.Code == streams.CodeCancelled || r.Code == streams.CodeInvalid {
			return true
		}
	}
	return false
}

// await waits in the background until the catalogue is accepted. Then it tells the client that the list of tools has
// changed.
func (c *catalogue) await() {
	if c.waiting == c.digest {
		return
	}
	c.waiting = c.digest
	a, rep, digest := *c.action, c.rep, c.digest
	c.p.wg.Go(func() {
		then, err := c.p.host.Await(c.p.ctx, &a, rep)
		c.lock <- struct{}{}
		mine := c.digest == digest
		if c.waiting == digest {
			c.waiting = ""
		}
		<-c.lock
		if mine && client.VerdictOf(then, err) == streams.Allow {
			c.p.send(c.p.up, &jsonrpc.Request{Method: "notifications/tools/list_changed"})
		}
	})
}

// listTools answers a tools/list. The answer has the tools of all pages.
func (p *Proxy) listTools(ctx context.Context, _ *call, r *jsonrpc.Request) *jsonrpc.Response {
	result, err := p.tools.result(ctx, r)
	var wire *jsonrpc.Error
	switch {
	case errors.As(err, &wire):
		return &jsonrpc.Response{ID: r.ID, Error: err}
	case err != nil:
		return fault(r.ID, jsonrpc.CodeInternalError, err.Error())
	}
	return &jsonrpc.Response{ID: r.ID, Result: result}
}
