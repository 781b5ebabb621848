package mcpproxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lazaret/client"
	"lazaret/internal/mcpwire"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Config configures a proxy.
type Config struct {
	// Server is the name of the MCP server in catalogues and observations. The default is the name by which the server
	// introduces itself.
	Server string
	// Command is the command that starts the server. A person who accepts the tools accepts the command too.
	Command []string
	// Session is the session of the events of this run. The default is a new id.
	Session string
	// Origin is the origin of all content that comes from the server. The default is tool.
	Origin beliefs.Origin
	// Wait is the maximum time for which a held call waits for an approval. MCP clients have time limits of their own,
	// often 60 s.
	Wait time.Duration
	// Publish is the time limit for the acknowledgement of an observation. The default is 20 s.
	Publish time.Duration
	// ApprovalURL is the URL of the approval page of a hold. In it, {hold} is replaced by the hold's id. A client that
	// can open a URL shows the page to its user. If ApprovalURL is empty, there is no page.
	ApprovalURL string
	// Pass are methods of extensions of the protocol. Requests and notifications with these methods are passed on
	// without a verdict.
	Pass []string
	Log  *slog.Logger
}

// DefaultWait is less than 60 s, which is the usual time limit of clients.
const DefaultWait = 45 * time.Second

// Proxy connects one client with one server. Run creates it.
type Proxy struct {
	cfg  Config
	host *client.Client
	up   mcp.Connection  // connection to the MCP client
	down mcp.Connection  // connection to the MCP server
	ctx  context.Context // ends with these connections

	tools *catalogue
	ids   idSource

	mu      sync.Mutex
	calls   map[jsonrpc.ID]*call  // client requests in progress; guarded by mu
	own     map[jsonrpc.ID]asked  // the proxy's own requests; guarded by mu
	pending map[string][]proposed // by callKey: held proposals, oldest first; guarded by mu
	// remembered is the number of all proposals in pending; guarded by mu.
	remembered int
	server     string   // guarded by mu
	known      bool     // the server has introduced itself; guarded by mu
	instructs  string   // the server's instructions; guarded by mu
	lastInfo   []string // the last recorded serverInfo; guarded by mu
	asks       bool     // the client can open a URL for its user; guarded by mu
	wg         sync.WaitGroup
	serving    sync.WaitGroup // tools/call and similar requests in progress
	// semaphore; it has an element for each request or notification of the server that is being recorded
	notes chan struct{}

	// The fields below are used only by the goroutine that reads the messages of the server.
	noted chan struct{} // closed when the latest request or notification of the server has been passed on
	// responses that were read after that request or notification, and that have not been passed on
	replies *sync.WaitGroup
}

// asked is a request that the proxy itself made and that has no response yet.
type asked struct {
	to     mcp.Connection
	answer chan *jsonrpc.Response
}

// call is a request of the client that has no response yet.
type call struct {
	method string
	params json.RawMessage
	cancel context.CancelFunc     // cancels a tools/call or tools/list; nil for other methods
	answer chan *jsonrpc.Response // gets the answer to a tools/call; nil for other methods
	passed bool                   // the request was sent to the server; guarded by the mu of the proxy
	size   int64                  // number of bytes of its answer, if it is a large one; guarded by the proxy's mu
	ended  chan struct{}          // closed when a tools/call has ended
}

// Run passes messages between a client and a server until one of them ends. Then it closes both connections. It returns
// nil if one of them has closed its connection normally.
func Run(ctx context.Context, cfg Config, host *client.Client, up, down mcp.Connection) error {
	if cfg.Session == "" {
		cfg.Session = client.NewID()
	}
	cfg.Origin = cmp.Or(cfg.Origin, beliefs.OriginTool)
	if cfg.Publish <= 0 {
		cfg.Publish = client.DefaultTimeout
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Proxy{cfg: cfg, host: host, up: up, down: down, ctx: ctx, server: cfg.Server, ids: newIDSource(),
		calls: make(map[jsonrpc.ID]*call), own: make(map[jsonrpc.ID]asked), pending: make(map[string][]proposed)}
	p.tools = newCatalogue(p)
	p.notes, p.noted = make(chan struct{}, maxNotes), make(chan struct{})
	p.replies = new(sync.WaitGroup)
	close(p.noted)
	client, server := make(chan error, 1), make(chan error, 1)
	go func() { client <- p.read(ctx, up, p.fromClient) }()
	go func() { server <- p.read(ctx, down, p.fromServer) }()
	var err error
	select {
	case err = <-client:
		err = closed(err)
	case err = <-server:
		err = p.abandon(err)
	}
	cancel()
	err = errors.Join(err, closed(up.Close()), closed(down.Close()))
	p.wg.Wait()
	return err
}

// closed returns nil if err is the error of a normal end: a closed pipe, or the exit code of a server that was told to
// exit. Any other error is returned unchanged.
func closed(err error) error {
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

func (p *Proxy) read(ctx context.Context, from mcp.Connection, f func(context.Context, jsonrpc.Message) error) error {
	for {
		m, err := from.Read(ctx)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) || ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("reading a message: %w", err)
		}
		if err := f(ctx, m); err != nil {
			// The other side may have closed its connection before the message was passed on.
			return closed(err)
		}
	}
}

// fromClient handles a message of the client.
func (p *Proxy) fromClient(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	if !ok {
		if a, ok := m.(*jsonrpc.Response); ok {
			if p.answeredOwn(p.up, a) {
				return nil
			}
			if err := vetResponse(a); err != nil {
				m = fault(a.ID, jsonrpc.CodeInvalidRequest, "the client's answer was refused: "+err.Error())
			}
		}
		return p.down.Write(ctx, m) // the client's response to a request of the server
	}
	if err := vetRequest(r); err != nil {
		if !r.ID.IsValid() {
			p.cfg.Log.Warn("a notification of the client was dropped", "method", r.Method, "err", err)
			return nil
		}
		var code int64 = jsonrpc.CodeInvalidParams
		if r.Extra != nil {
			code = jsonrpc.CodeInvalidRequest
		}
		return p.up.Write(ctx, fault(r.ID, code, "the request was refused: "+err.Error()))
	}
	if !r.ID.IsValid() {
		// Some servers carry out a request that has no id, or the id null.
		if !p.notifies(r.Method) {
			p.cfg.Log.Warn("a message of the client was dropped: it has no id that is a string or a whole number, and its "+
				"method is neither a notification of MCP nor one that --pass names", "method", streams.Clip(r.Method, 100))
			return nil
		}
		if r.Method == "notifications/cancelled" && !p.cancelled(r) {
			return nil
		}
		return p.down.Write(ctx, m)
	}
	c := &call{method: r.Method, params: r.Params, ended: make(chan struct{})}
	serve := p.callTool
	switch r.Method {
	case "tools/call":
		c.answer = make(chan *jsonrpc.Response, 1)
	case "tools/list":
		serve = p.listTools
	default:
		if err := p.vetMethod(r.Method); err != nil {
			return p.up.Write(ctx, &jsonrpc.Response{ID: r.ID, Error: err})
		}
		if r.Method == "initialize" {
			p.approver(r)
		}
		serve = nil
		c.passed = true
	}
	p.mu.Lock()
	_, twice := p.calls[r.ID]
	if !twice {
		ctx, c.cancel = context.WithCancel(ctx)
		p.calls[r.ID] = c
	}
	p.mu.Unlock()
	if twice {
		return p.up.Write(ctx, fault(r.ID, jsonrpc.CodeInvalidRequest, "an earlier request with this id is still open: "+
			"use another id"))
	}
	if serve == nil {
		return p.down.Write(ctx, m)
	}
	p.serving.Add(1)
	p.wg.Go(func() {
		defer p.serving.Done()
		defer close(c.ended)
		defer p.leave(c)
		defer c.cancel()
		resp := serve(ctx, c, r)
		if p.done(r.ID) && ctx.Err() == nil && resp != nil {
			p.send(p.up, resp)
		}
	})
	return nil
}

// cancelled ends a request that the client has cancelled. It reports whether the server must be told of that.
func (p *Proxy) cancelled(r *jsonrpc.Request) bool {
	var n struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(r.Params, &n) != nil || len(n.RequestID) == 0 {
		return true
	}
	id, err := mcpwire.ParseID(n.RequestID)
	if err != nil {
		p.cfg.Log.Warn("a cancellation of the client was dropped, because no request has its id",
			"id", streams.Clip(string(n.RequestID), 100))
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[id]
	if c == nil {
		return true
	}
	c.cancel()
	if c.answer == nil && c.passed {
		delete(p.calls, id) // so that a later response is dropped
	}
	return c.passed
}

// done ends a request of the client. It reports whether the request had no response yet.
func (p *Proxy) done(id jsonrpc.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.calls[id]
	delete(p.calls, id)
	return ok
}

// fromServer handles a message of the server.
func (p *Proxy) fromServer(ctx context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Response:
		p.answered(ctx, m)
		return nil
	case *jsonrpc.Request:
		if err := vetRequest(m); err != nil {
			p.wg.Go(func() {
				err := p.refused(ctx, m.Method, "", err)
				if m.ID.IsValid() {
					p.send(p.down, fault(m.ID, jsonrpc.CodeInvalidParams, err.Error()))
				}
			})
			return nil
		}
		if m.Method == "notifications/tools/list_changed" {
			p.tools.changed()
		}
		p.tell(ctx, m)
	}
	return nil
}

// maxNotes is the maximum number of requests and notifications of the server that are being recorded at the same time.
const maxNotes = 64

// ordinary are the notifications whose method is not recorded as text, because the protocol defines it. The prefix
// notifications/ is left out.
var ordinary = text.Set(`cancelled elicitation/complete message progress prompts/list_changed resources/list_changed
	resources/updated subscriptions/acknowledged tasks/status tools/list_changed`)

// tell passes on a request (such as sampling) or a notification of the server. Before that, it records the text in it,
// and waits until all earlier messages of the server have been passed on. Only the goroutine that reads the server's
// messages calls it.
func (p *Proxy) tell(ctx context.Context, m *jsonrpc.Request) {
	said := p.wordsOf(m)
	before, replies, done := p.noted, p.replies, make(chan struct{})
	p.noted, p.replies = done, new(sync.WaitGroup)
	p.notes <- struct{}{}
	p.wg.Go(func() {
		defer func() { <-p.notes; close(done) }()
		err := p.observe(ctx, m.Method, "", "", said)
		if err != nil {
			p.cfg.Log.Warn("a message of the server was not passed on", "method", streams.Clip(m.Method, 100), "err", err)
			if m.ID.IsValid() {
				p.send(p.down, fault(m.ID, jsonrpc.CodeInternalError, "not passed on: it could not be recorded"))
			}
		}
		<-before
		replies.Wait()
		if err == nil {
			p.send(p.up, m)
		}
	})
}

// wordsOf returns those texts of a request or a notification of the server that must be recorded.
func (p *Proxy) wordsOf(m *jsonrpc.Request) []string {
	if m.ID.IsValid() {
		return spoken(m.Params)
	}
	said := together(walk(nil, "", p.withoutSubscription(decoded(m.Params)), false))
	if name, ok := strings.CutPrefix(m.Method, "notifications/"); !ok || !ordinary[name] {
		said = append(said, m.Method)
	}
	return said
}

// withoutSubscription removes the id of a subscription from the params of a notification, if it is the id of an open
// request of the client: then the client chose it, and it is no text of the server. It changes params.
func (p *Proxy) withoutSubscription(params any) any {
	all, _ := params.(*object)
	meta, ok := all.get("_meta").(*object)
	if !ok {
		return params
	}
	raw, err := json.Marshal(meta.get(mcp.MetaKeySubscriptionID))
	if err != nil {
		return params
	}
	id, err := mcpwire.ParseID(raw)
	if err != nil {
		return params
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[id] != nil {
		meta.remove(mcp.MetaKeySubscriptionID)
	}
	if len(meta.members) == 0 {
		all.remove("_meta")
	}
	return params
}

// answered handles a response of the server. It may answer a request of the proxy itself, a tools/call that waits, or a
// request that was passed on. In the last two cases, the response waits until the requests and notifications that the
// server sent before it have been passed on. A response does not wait for other responses.
func (p *Proxy) answered(ctx context.Context, m *jsonrpc.Response) {
	before, replies := p.noted, p.replies
	if p.answeredOwn(p.down, m) {
		return
	}
	p.mu.Lock()
	c := p.calls[m.ID]
	passed := c != nil && c.passed
	p.mu.Unlock()
	if !passed {
		return // the request was not sent to the server, or it has ended
	}
	if !p.enter(ctx, c, m) {
		return
	}
	replies.Add(1)
	if c.answer != nil {
		p.wg.Go(func() {
			defer replies.Done()
			<-before
			select {
			case c.answer <- m:
			default: // the server responded twice
			}
			<-c.ended
		})
		return
	}
	p.serving.Add(1)
	p.wg.Go(func() {
		defer replies.Done()
		defer p.serving.Done()
		defer p.leave(c)
		defer c.cancel()
		m = p.shown(ctx, c, m)
		<-before
		if p.done(m.ID) {
			p.send(p.up, m)
		}
	})
}

// answeredOwn delivers a response to a request that the proxy itself made. It returns false if the proxy does not wait
// for a response with this id from the connection from.
func (p *Proxy) answeredOwn(from mcp.Connection, m *jsonrpc.Response) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, ok := p.own[m.ID]
	if !ok || q.to != from {
		return false
	}
	delete(p.own, m.ID)
	q.answer <- m // does not block, because the channel has room for one response
	return true
}

// ask sends a request of the proxy itself to the server, and returns the result.
func (p *Proxy) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	r, err := p.request(ctx, p.down, method, params)
	if err != nil {
		return nil, err
	}
	if err := vetResponse(r); err != nil {
		return nil, p.refused(ctx, method, "", err)
	}
	return r.Result, r.Error
}

// request sends a request of the proxy itself to the client or the server, and waits for the response.
func (p *Proxy) request(ctx context.Context, to mcp.Connection, method string, params any) (*jsonrpc.Response, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	id := p.ids.next()
	ch := make(chan *jsonrpc.Response, 1)
	p.mu.Lock()
	p.own[id] = asked{to, ch}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.own, id)
		p.mu.Unlock()
	}()
	if err := to.Write(ctx, &jsonrpc.Request{ID: id, Method: method, Params: body}); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-ch:
		return r, nil
	}
}

// send writes a message. It only logs an error, because the goroutine that reads the connection notices that the
// connection is broken.
func (p *Proxy) send(to mcp.Connection, m jsonrpc.Message) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := to.Write(ctx, m); err != nil {
		p.cfg.Log.Warn("a message was not sent", "err", err)
	}
}

func (p *Proxy) serverName() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == "" {
		return "mcp"
	}
	return p.server
}

// told returns the server's instructions. It returns "" if there are none.
func (p *Proxy) told() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.instructs
}

func fault(id jsonrpc.ID, code int64, text string) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: code, Message: "lazaret: " + text}}
}

// idSource makes the ids of the requests that the proxy itself sends. They have a random prefix, so that they differ
// from the ids of the client.
type idSource struct {
	mu     sync.Mutex
	prefix string
	n      int // guarded by mu
}

func newIDSource() idSource { return idSource{prefix: "lazaret-" + client.NewID() + "-"} }

func (s *idSource) next() jsonrpc.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	id, _ := jsonrpc.MakeID(fmt.Sprint(s.prefix, s.n)) // a string is always a legal id
	return id
}
