package mcpwire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"lazaret/internal/metrics"
	"log/slog"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The headers of Streamable HTTP.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerLast    = "Last-Event-Id"
	headerAuth    = "Authorization"
)

// Refused is the error of a request that the server has refused with an HTTP status. The text of the error has only the
// status.
type Refused struct {
	Status       int
	Authenticate []string // WWW-Authenticate
	wire         *jsonrpc.Error
}

func (r *Refused) Error() string { return r.wire.Message }
func (r *Refused) Unwrap() error { return r.wire }

// write passes the server's refusal to a host.
func (r *Refused) write(w http.ResponseWriter, body []byte) {
	for _, v := range r.Authenticate {
		w.Header().Add("WWW-Authenticate", v)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.Status)
	_, _ = w.Write(body)
}

// Remote is an MCP server that is reached over Streamable HTTP.
type Remote struct {
	URL    *url.URL
	Header http.Header // headers that are sent with each request
	// Authorization returns the value for the header Authorization, or "" for none. Authorization may be nil.
	Authorization func() string
	Log           *slog.Logger
}

// ParseURL reads the address of a server.
func ParseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("the URL of a server must be https://HOST/PATH or http://HOST/PATH")
	}
	if u.User != nil || u.Fragment != "" {
		return nil, errors.New("the URL of a server must not contain a user or a fragment: put a token into its headers")
	}
	return u, nil
}

// Words splits a server's URL into words. The proxy puts these words, in place of a command, into its proposal to
// accept the server's tools. The URL itself must not be in the proposal: the policy would judge it as a destination
// that the agent chose. But the operator chose the server.
func Words(address string) ([]string, error) {
	u, err := ParseURL(address)
	if err != nil {
		return nil, err
	}
	words := []string{"streamable-http", u.Scheme, u.Hostname()}
	for _, w := range []string{u.Port(), u.EscapedPath(), u.RawQuery} {
		if w != "" {
			words = append(words, w)
		}
	}
	return words, nil
}

// upstream is a connection to a Remote.
type upstream struct {
	Remote
	http   *http.Client
	ctx    context.Context
	cancel context.CancelFunc
	in     chan jsonrpc.Message
	orders chan jsonrpc.Message // notifications and answers, sent in their order
	lost   chan struct{}        // closed when the server has answered that it does not know the session any more
	once   sync.Once
	tools  toolHeaders

	mu      sync.Mutex
	session string // guarded by mu
	version string // guarded by mu
	listens bool   // guarded by mu
	// requests in versions without sessions, with the function that cancels each; guarded by mu
	running map[jsonrpc.ID]context.CancelFunc
}

// probeTime is the time within which a server must answer Probe.
const probeTime = 5 * time.Second

// Probe returns an error if no MCP server answers at a URL, or if the server requires a sign-in.
func Probe(address string) error {
	u, err := ParseURL(address)
	if err != nil {
		return err
	}
	up := Remote{URL: u, Log: slog.New(slog.DiscardHandler)}.dial()
	defer up.Close()
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	refused := up.try(ctx, "")
	switch {
	case refused == nil || refused.Status == http.StatusBadRequest:
		return nil // it may have refused the ping only because it needs a session
	case refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden:
		return errors.New("it asks for a sign-in, and only the host can sign in")
	case refused.Status == http.StatusBadGateway:
		return errors.New("it cannot be reached now")
	}
	return fmt.Errorf("it answers HTTP %d", refused.Status)
}

// Dial returns a connection to the server. The connection is made when the first message is written.
func (r Remote) Dial() mcp.Connection { return r.dial() }

func (r Remote) dial() *upstream {
	u := &upstream{Remote: r,
		in: make(chan jsonrpc.Message), orders: make(chan jsonrpc.Message, 64), lost: make(chan struct{}),
		running: make(map[jsonrpc.ID]context.CancelFunc)}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	// Do not follow redirects, because a redirect would send the token to another server. Each connection has cookies
	// and TCP connections of its own.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 64 << 10
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	u.http = &http.Client{Transport: transport, CheckRedirect: stay}
	if r.URL.Scheme == "http" && !metrics.Loopback(net.JoinHostPort(r.URL.Hostname(), "80")) {
		r.Log.Warn("the server is reached over http: tokens and contents travel unencrypted", "host", r.URL.Host)
	}
	go u.order()
	return u
}

func (u *upstream) SessionID() string { return "" }

func (u *upstream) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-u.in:
		return m, nil
	case <-u.lost:
		return nil, errors.New("the server has ended the session")
	case <-u.ctx.Done():
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write sends a message to the server without waiting for an answer.
func (u *upstream) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.ID.IsValid() {
		ctx, end := u.begin(r)
		go func() {
			defer end()
			u.request(ctx, r)
		}()
		return nil
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "notifications/cancelled" && u.cancelled(r.Params) {
		return nil
	}
	select {
	case u.orders <- m:
		return nil
	case <-u.ctx.Done():
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin returns the context of a request. In versions without sessions, cancelling the context closes the response. For
// the server, that means that the request is cancelled.
func (u *upstream) begin(r *jsonrpc.Request) (ctx context.Context, end func()) {
	if metaVersion(r.Params) < "2026" {
		return u.ctx, func() {}
	}
	ctx, cancel := context.WithCancel(u.ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.running[r.ID] = cancel
	return ctx, func() {
		cancel()
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.running, r.ID)
	}
}

// cancelled closes the response to the request that a notifications/cancelled with these params cancels, if the
// request's protocol version has no sessions. It reports whether it closed one.
func (u *upstream) cancelled(params json.RawMessage) bool {
	id, ok := cancelledID(params)
	u.mu.Lock()
	defer u.mu.Unlock()
	cancel := u.running[id]
	if !ok || cancel == nil {
		return false
	}
	cancel()
	return true
}

// order sends the messages of the channel orders, one after the other.
func (u *upstream) order() {
	for {
		select {
		case <-u.ctx.Done():
			return
		case m := <-u.orders:
			resp, err := u.post(u.ctx, m)
			if err != nil {
				u.Log.Warn("a message did not reach the server", "err", err)
				continue
			}
			resp.Body.Close()
			if resp.StatusCode/100 != 2 {
				u.Log.Warn("the server refused a message", "status", resp.StatusCode)
			}
			if r, ok := m.(*jsonrpc.Request); ok && r.Method == "notifications/initialized" {
				u.mu.Lock()
				again := u.listens
				u.listens = true
				u.mu.Unlock()
				if !again {
					go u.listen()
				}
			}
		}
	}
}

// got passes a message of the server to the proxy. If the connection is closed, it drops the message.
func (u *upstream) got(m jsonrpc.Message) {
	select {
	case u.in <- m:
	case <-u.ctx.Done():
	}
}

func (u *upstream) post(ctx context.Context, m jsonrpc.Message) (*http.Response, error) {
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return nil, err
	}
	req, err := u.prepare(http.MethodPost, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if r, ok := m.(*jsonrpc.Request); ok {
		repeatBody(req.Header, r, &u.tools)
	}
	return u.send(req.WithContext(ctx))
}

func (u *upstream) prepare(method string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(u.ctx, method, u.URL.String(), body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, u.Header)
	if u.Authorization != nil {
		if a := u.Authorization(); a != "" {
			req.Header.Set(headerAuth, a)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.session != "" {
		req.Header.Set(headerSession, u.session)
	}
	if u.version != "" {
		req.Header.Set(headerVersion, u.version)
	}
	return req, nil
}

// send sends an HTTP request. Its errors do not contain the URL, because the query of the URL may have a secret.
func (u *upstream) send(req *http.Request) (*http.Response, error) {
	resp, err := u.http.Do(req)
	var at *url.Error
	if errors.As(err, &at) {
		return nil, at.Err
	}
	return resp, err
}

// request sends a request to the server. It passes the messages in the response to the proxy. The last one is the
// answer.
func (u *upstream) request(ctx context.Context, r *jsonrpc.Request) {
	resp, err := u.post(ctx, r)
	if ctx.Err() != nil {
		return // the host cancelled it
	}
	if err != nil {
		u.got(fault(r.ID, "the server cannot be reached: "+err.Error()))
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		u.got(u.refused(r.ID, resp))
		return
	}
	if r.Method == "initialize" {
		u.mu.Lock()
		u.session = resp.Header.Get(headerSession)
		u.mu.Unlock()
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		b, err := io.ReadAll(io.LimitReader(resp.Body, MaxMessage+1))
		if err != nil || len(b) > MaxMessage {
			u.got(fault(r.ID, "the server's answer broke off or is too large"))
			return
		}
		messages, bad := decodeLine(b, nil, MaxMessage)
		answered := false
		for _, m := range messages {
			answered = u.pass(r, m) || answered
		}
		switch {
		case answered:
		case len(bad) > 0:
			u.got(fault(r.ID, "the server's answer cannot be read: "+bad[0].text))
		default:
			u.got(fault(r.ID, "the server's answer does not answer this request"))
		}
	case "text/event-stream":
		u.answer(ctx, r, resp.Body)
	default:
		u.got(fault(r.ID, "the server's answer is neither JSON nor a stream of events"))
	}
}

// answer reads the stream of messages that the server sends for a request. If the stream breaks off before the answer,
// answer asks the server for the rest with another HTTP request.
func (u *upstream) answer(ctx context.Context, r *jsonrpc.Request, body io.ReadCloser) {
	last, answered := "", false
	read := func(body io.Reader) error {
		return events(body, func(e event) bool {
			if e.id != "" {
				last = e.id
			}
			answered = u.event(e, r)
			return !answered
		})
	}
	err := read(body)
	for try := 0; !answered && err == nil && last != "" && try < 3 && metaVersion(r.Params) < "2026"; try++ {
		if !u.pause(time.Second << try) {
			return
		}
		before := last
		resp, e := u.resume(last)
		if e != nil || resp.StatusCode != http.StatusOK {
			if e == nil {
				resp.Body.Close()
			}
			continue
		}
		err = read(resp.Body)
		resp.Body.Close()
		if last != before {
			try = 0
		}
	}
	if !answered && ctx.Err() == nil {
		text := "the server's answer broke off"
		if err != nil {
			text += ": " + err.Error()
		}
		u.got(fault(r.ID, text))
	}
}

func (u *upstream) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-u.ctx.Done():
		return false
	}
}

func (u *upstream) resume(last string) (*http.Response, error) {
	req, err := u.prepare(http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set(headerLast, last)
	}
	return u.send(req)
}

// event passes the message in an event to the proxy. It reports whether the message is the answer to r.
func (u *upstream) event(e event, r *jsonrpc.Request) bool {
	if e.data == "" || e.name != "" && e.name != "message" {
		return false
	}
	messages, bad := decodeLine([]byte(e.data), nil, MaxMessage)
	for _, b := range bad {
		u.Log.Warn("an event of the server was skipped", "err", b)
	}
	answered := false
	for _, m := range messages {
		answered = u.pass(r, m) || answered
	}
	return answered
}

// pass passes a message of a request's stream to the proxy. It reports whether the message is the answer to r. It drops
// an answer to another request, because that does not belong to this stream.
func (u *upstream) pass(r *jsonrpc.Request, m jsonrpc.Message) bool {
	a, ok := m.(*jsonrpc.Response)
	if !ok {
		u.got(m)
		return false
	}
	if r == nil || a.ID != r.ID {
		u.Log.Warn("an answer of the server that belongs to another request was dropped")
		return false
	}
	if r.Method == "initialize" && a.Error == nil {
		var v struct {
			Version string `json:"protocolVersion"`
		}
		if json.Unmarshal(a.Result, &v) == nil && len(v.Version) < 40 {
			u.mu.Lock()
			u.version = v.Version
			u.mu.Unlock()
		}
	}
	if r.Method == "tools/list" && a.Error == nil {
		u.tools.learn(a.Result)
	}
	u.got(m)
	return true
}

// refused converts an HTTP response with an error status to the answer of a request.
func (u *upstream) refused(id jsonrpc.ID, resp *http.Response) *jsonrpc.Response {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	u.mu.Lock()
	gone := resp.StatusCode == http.StatusNotFound && u.session != ""
	u.mu.Unlock()
	if gone {
		u.once.Do(func() { close(u.lost) })
	}
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		text := fmt.Sprintf("lazaret: the server answers HTTP %d", resp.StatusCode)
		return &jsonrpc.Response{ID: id, Error: &Refused{
			Status: resp.StatusCode, Authenticate: resp.Header.Values("WWW-Authenticate"),
			wire: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text},
		}}
	}
	if messages, bad := decode(b); bad == nil {
		if r, ok := messages[0].(*jsonrpc.Response); ok && r.ID == id && r.Error != nil {
			return r
		}
	}
	return fault(id, fmt.Sprintf("the server answers HTTP %d", resp.StatusCode))
}

// listen reads the messages that belong to no request. It ends when the connection ends, or if the server has no stream
// for them.
func (u *upstream) listen() {
	last := ""
	for try := 0; ; try++ {
		resp, err := u.resume(last)
		if err == nil {
			kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
			if resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
				resp.Body.Close()
				if resp.StatusCode/100 == 4 {
					return
				}
			} else {
				begun := time.Now()
				err = events(resp.Body, func(e event) bool {
					if e.id != "" {
						last = e.id
					}
					u.event(e, nil)
					return u.ctx.Err() == nil
				})
				resp.Body.Close()
				if errors.Is(err, errTooLarge) {
					last = ""
				}
				if time.Since(begun) > time.Minute {
					try = 0
				}
			}
		}
		if !u.pause(min(time.Second<<min(try, 5), 30*time.Second)) {
			return
		}
	}
}

// try sends a ping to find out whether the server accepts an Authorization in this session. It returns the refusal, or
// nil if the server accepts it.
func (u *upstream) try(ctx context.Context, authorization string) *Refused {
	const ping = `{"jsonrpc":"2.0","id":"lazaret-authorization","method":"ping"}`
	req, err := u.prepare(http.MethodPost, strings.NewReader(ping))
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, takeTime)
		defer cancel()
		req = req.WithContext(ctx)
		if authorization != "" {
			req.Header.Set(headerAuth, authorization)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		var resp *http.Response
		if resp, err = u.send(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode/100 == 2 {
				return nil
			}
			return &Refused{Status: resp.StatusCode, Authenticate: resp.Header.Values("WWW-Authenticate")}
		}
	}
	return &Refused{Status: http.StatusBadGateway}
}

// Close ends the session with the server.
func (u *upstream) Close() error {
	if u.ctx.Err() != nil {
		return nil
	}
	u.mu.Lock()
	session := u.session
	u.mu.Unlock()
	if session != "" {
		if req, err := u.prepare(http.MethodDelete, nil); err == nil {
			ctx, cancel := context.WithTimeout(u.ctx, terminate)
			if resp, err := u.send(req.WithContext(ctx)); err == nil {
				resp.Body.Close()
			}
			cancel()
		}
	}
	u.cancel()
	u.http.CloseIdleConnections()
	return nil
}
