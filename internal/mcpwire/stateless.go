package mcpwire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lazaret/streams"
)

// Version 2026-07-28 of MCP has no sessions. Each request names its version and capabilities, and a host does not begin
// with initialize. The requests with the same token share a connection to the server, which is called a line. If the
// server has a URL, requests share a line only if they also have the same Authorization.

// stateless is the supported version without sessions.
const stateless = "2026-07-28"

// legacyTime is the time for which the endpoint remembers that a server needs sessions. It does not ask the server
// again during this time.
const legacyTime = 5 * time.Minute

// Error codes of the protocol.
const (
	codeVersion  = -32022
	codeMismatch = -32020
)

// line is a connection to a server that requests of several hosts share. Two hosts may choose the same ids and progress
// tokens. So a line replaces them by its own.
type line struct {
	*session
	tools toolHeaders
	ready chan struct{} // closed when the server was asked for its versions (discover)

	// Set before ready is closed.
	speaks bool              // the server speaks the version without sessions
	answer *jsonrpc.Response // the server's answer to discover if speaks is false; may be nil
	err    error             // the reason why the server could not be started; nil: it was started

	open map[jsonrpc.ID]*exchange // guarded by the session's mu, as is next
	next int64
}

// exchange is a request that a host sent over a line, until it is answered.
type exchange struct {
	id, own jsonrpc.ID // the id of the request that the host chose, and the id that it has on the line
	method  string
	token   json.RawMessage        // the host's progress token, or nil
	wants   json.RawMessage        // for subscriptions/listen: the notifications that the host asks for
	stream  *stream                // stream to the host; nil if the endpoint itself made the request
	answer  chan *jsonrpc.Response // gets the answer if the endpoint itself made the request
}

// statelessRequest processes a request without a session.
func (e *Endpoint) statelessRequest(ctx context.Context, w http.ResponseWriter, r *http.Request, m jsonrpc.Message,
	name, owner string, server *Server) {
	q, ok := m.(*jsonrpc.Request)
	switch {
	case ok && q.Method == "notifications/cancelled":
		w.WriteHeader(http.StatusAccepted) // not needed: a host cancels a request by closing the response
		return
	case !ok || !q.ID.IsValid():
		reply(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest,
			"version "+stateless+" has no such message from a client over HTTP", "")
		return
	}
	id := q.ID.Raw()
	if why := mismatch(r.Header, q); why != "" {
		reply(w, http.StatusBadRequest, id, codeMismatch, why, "")
		return
	}
	if r.Header.Get(headerVersion) != stateless {
		unsupported(w, r, id, append([]string{stateless}, versions...))
		return
	}
	l := e.line(ctx, r, name, owner, server, q)
	if l == nil {
		unsupported(w, r, id, versions)
		return
	}
	l.enter()
	defer l.leave()
	select {
	case <-l.ready:
	case <-r.Context().Done():
		return
	}
	var refused *Refused
	switch {
	case l.err != nil:
		reply(w, http.StatusServiceUnavailable, id, jsonrpc.CodeInternalError, l.err.Error(), "")
		return
	case !l.speaks && l.answer != nil && errors.As(l.answer.Error, &refused):
		b, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: q.ID, Error: l.answer.Error})
		if err == nil {
			refused.write(w, b)
		}
		return
	case !l.speaks:
		unsupported(w, r, id, versions)
		return
	}
	if why := l.tools.mismatch(r.Header, q); why != "" {
		reply(w, http.StatusBadRequest, id, codeMismatch, why, "")
		return
	}
	x := l.adopt(&exchange{id: q.ID, stream: newStream(0, &l.unread)})
	if x == nil {
		reply(w, http.StatusServiceUnavailable, id, jsonrpc.CodeInternalError,
			fmt.Sprintf("too many requests: %d wait for their answers", maxRequests), "")
		return
	}
	x.stream.once = true
	x.stream.use()
	defer x.stream.release()
	defer l.leaveExchange(ctx, x)
	if err := l.take(ctx, l.rewritten(x, q)); err != nil {
		reply(w, http.StatusServiceUnavailable, id, jsonrpc.CodeInternalError, err.Error(), "")
		return
	}
	x.stream.serve(w, r, 0, commitTime, false)
}

// unsupported answers a request in a protocol version that the server does not support.
func unsupported(w http.ResponseWriter, r *http.Request, id any, supported []string) {
	data, _ := json.Marshal(map[string]any{ // marshalling strings cannot fail
		"supported": supported, "requested": streams.Clip(r.Header.Get(headerVersion), 40)})
	reply(w, http.StatusBadRequest, id, codeVersion, "unsupported protocol version", string(data))
}

// line returns the line for a request. If there is none, it opens one, and asks the server for its versions with the
// _meta of the request. If the server is known to need sessions, it returns nil.
func (e *Endpoint) line(ctx context.Context, r *http.Request, name, owner string, server *Server,
	q *jsonrpc.Request) *line {
	key := name + "\x00" + owner
	if server.Remote != nil {
		key += "\x00" + r.Header.Get(headerAuth)
	}
	e.mu.Lock()
	if time.Since(e.legacy[name]) < legacyTime {
		e.mu.Unlock()
		return nil
	}
	l := e.lines[key]
	if l != nil && !l.ended() {
		e.mu.Unlock()
		return l
	}
	l = newLine(owner)
	e.lines[key] = l
	e.mu.Unlock()
	go func() {
		<-l.done
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.lines[key] == l {
			delete(e.lines, key)
		}
	}()
	if l.err = e.run(ctx, r, name, server, l.session, l); l.err == nil {
		l.discover(ctx, q.Params)
		if l.answer != nil && l.answer.Error != nil && !isInternal(l.answer.Error) {
			e.mu.Lock()
			e.legacy[name] = time.Now()
			e.mu.Unlock()
		}
	}
	if !l.speaks {
		_ = l.Close()
	}
	close(l.ready)
	return l
}

func isInternal(err error) bool {
	var wire *jsonrpc.Error
	return errors.As(err, &wire) && wire.Code == jsonrpc.CodeInternalError
}

func newLine(owner string) *line {
	l := &line{session: newSession(owner), ready: make(chan struct{}), open: make(map[jsonrpc.ID]*exchange)}
	l.known = true // no host gets this id, so the limit for an unused id must not apply
	return l
}

// discover asks the server for its versions.
func (l *line) discover(ctx context.Context, params json.RawMessage) {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(params, &p) // the JSON is valid, because the caller has read the version from it
	delete(p.Meta, "progressToken")
	body, err := json.Marshal(p)
	if err != nil {
		return
	}
	x := l.adopt(&exchange{answer: make(chan *jsonrpc.Response, 1)})
	defer l.leaveExchange(ctx, x)
	q := l.rewritten(x, &jsonrpc.Request{Method: "server/discover", Params: body})
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	if l.take(ctx, q) != nil {
		return
	}
	select {
	case l.answer = <-x.answer:
	case <-l.done:
		return
	case <-ctx.Done():
		return
	}
	var said struct {
		Supported []string `json:"supportedVersions"`
	}
	l.speaks = l.answer.Error == nil && json.Unmarshal(l.answer.Result, &said) == nil &&
		slices.Contains(said.Supported, stateless)
}

// adopt registers an exchange on the line (the connection to the server that several hosts share). It gives the request
// the id with which it is sent to the server. It returns nil if too many exchanges are in progress.
func (l *line) adopt(x *exchange) *exchange {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= maxRequests {
		return nil
	}
	l.next++
	x.own, _ = jsonrpc.MakeID(float64(l.next)) // a number is always a legal id
	l.open[x.own] = x
	if x.stream != nil {
		l.streams[int(l.next)] = x.stream
	}
	return x
}

// rewritten returns a copy of a request with the id and the progress token that it has on the line.
func (l *line) rewritten(x *exchange, q *jsonrpc.Request) *jsonrpc.Request {
	out := *q
	out.ID = x.own
	x.method = q.Method
	var p struct {
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
		Wants json.RawMessage `json:"notifications"`
	}
	if json.Unmarshal(q.Params, &p) != nil {
		return &out
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.Method == "subscriptions/listen" {
		x.wants = p.Wants
	}
	if p.Meta.Token != nil {
		x.token = p.Meta.Token
		out.Params = edited(q.Params, "progressToken", rawID(x.own), "_meta")
	}
	return &out
}

func rawID(id jsonrpc.ID) json.RawMessage {
	b, _ := json.Marshal(id.Raw()) // no error: an id is a string or a number
	return b
}

// edited returns a copy of a JSON object in which a field has another value. path leads to the nested object that has
// the field. If the object is malformed, edited returns it unchanged.
func edited(object json.RawMessage, field string, value json.RawMessage, path ...string) json.RawMessage {
	var m map[string]json.RawMessage
	if len(object) > 0 && json.Unmarshal(object, &m) != nil {
		return object
	}
	if m == nil {
		m = make(map[string]json.RawMessage)
	}
	if len(path) > 0 {
		m[path[0]] = edited(m[path[0]], field, value, path[1:]...)
	} else {
		m[field] = value
	}
	b, err := json.Marshal(m)
	if err != nil {
		return object
	}
	return b
}

// leaveExchange ends an exchange. If the server has not answered the request yet, leaveExchange tells the server that
// the request is cancelled.
func (l *line) leaveExchange(ctx context.Context, x *exchange) {
	l.mu.Lock()
	_, unanswered := l.open[x.own]
	l.forget(x)
	l.mu.Unlock()
	if x.stream != nil {
		x.stream.drop()
	}
	if unanswered && !l.ended() {
		_ = l.take(ctx, &jsonrpc.Request{Method: "notifications/cancelled",
			Params: edited(nil, "requestId", rawID(x.own))})
	}
}

// forget removes an exchange from the line. The caller holds the session's mu.
func (l *line) forget(x *exchange) {
	delete(l.open, x.own)
	n, _ := x.own.Raw().(int64)
	delete(l.streams, int(n))
}

// Write passes a message of the server to its host, with the ids that the host chose.
func (l *line) Write(_ context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Response:
		l.mu.Lock()
		x := l.open[m.ID]
		if x != nil {
			l.forget(x)
		}
		l.mu.Unlock()
		switch {
		case x == nil:
			return nil // the host has left
		case x.stream == nil:
			x.answer <- m // does not block, because the channel has room for one message
			return nil
		case x.method == "tools/list" && m.Error == nil:
			l.tools.learn(m.Result)
		}
		out := *m
		out.ID = x.id
		if x.method == "subscriptions/listen" && m.Error == nil {
			out.Result = edited(m.Result, mcp.MetaKeySubscriptionID, rawID(x.id), "_meta")
		}
		l.deliver(x, &out, true)
	case *jsonrpc.Request:
		if m.ID.IsValid() { // in this version, a server must not send requests: it asks the host in its results
			go func() {
				_ = l.take(context.Background(), &jsonrpc.Response{ID: m.ID,
					Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "lazaret: the client takes no requests"}})
			}()
			return nil
		}
		for x, out := range l.receivers(m) {
			l.deliver(x, out, false)
		}
	}
	return nil
}

// receivers returns the exchanges to which a notification of the server belongs. For each, it returns the notification
// in the form that the host expects. If no host could tell to which request the notification belongs, receivers returns
// none. Then the notification is dropped.
func (l *line) receivers(m *jsonrpc.Request) map[*exchange]*jsonrpc.Request {
	var p struct {
		Token json.RawMessage            `json:"progressToken"`
		Meta  map[string]json.RawMessage `json:"_meta"`
	}
	if len(m.Params) > 0 && json.Unmarshal(m.Params, &p) != nil {
		return nil
	}
	out := make(map[*exchange]*jsonrpc.Request)
	give := func(x *exchange, params json.RawMessage) {
		n := *m
		n.Params = params
		out[x] = &n
	}
	subscription := p.Meta[mcp.MetaKeySubscriptionID]
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.open {
		switch own := string(rawID(x.own)); {
		case x.stream == nil:
		case subscription != nil:
			if string(subscription) == own {
				give(x, edited(m.Params, mcp.MetaKeySubscriptionID, rawID(x.id), "_meta"))
			}
		case p.Token != nil:
			if string(p.Token) == own && x.token != nil {
				give(x, edited(m.Params, "progressToken", x.token))
			}
		// the proxy sends this one after a person has accepted the list
		case m.Method == "notifications/tools/list_changed":
			var wants struct {
				Tools bool `json:"toolsListChanged"`
			}
			if json.Unmarshal(x.wants, &wants) == nil && wants.Tools {
				give(x, edited(m.Params, mcp.MetaKeySubscriptionID, rawID(x.id), "_meta"))
			}
		case len(l.open) == 1 && x.wants == nil && !strings.HasSuffix(m.Method, "/list_changed"):
			give(x, m.Params)
		}
	}
	return out
}

// deliver writes a message to the stream of an exchange.
func (l *line) deliver(x *exchange, m jsonrpc.Message, last bool) {
	b, err := jsonrpc.EncodeMessage(m)
	if err == nil {
		err = x.stream.add(b, last, false, refusal(m))
	}
	if err != nil {
		x.stream.end()
	}
}

// refusal returns the Refused error in a response. It returns nil if there is none.
func refusal(m jsonrpc.Message) *Refused {
	r, ok := m.(*jsonrpc.Response)
	if !ok || r.Error == nil {
		return nil
	}
	var refused *Refused
	var wire *jsonrpc.Error
	switch {
	case errors.As(r.Error, &refused):
		return refused
	case !errors.As(r.Error, &wire):
	case wire.Code == jsonrpc.CodeMethodNotFound:
		return &Refused{Status: http.StatusNotFound}
	case wire.Code <= codeMismatch && wire.Code >= codeVersion:
		return &Refused{Status: http.StatusBadRequest}
	}
	return nil
}
