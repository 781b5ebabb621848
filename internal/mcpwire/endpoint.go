package mcpwire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/netutil"

	"lazaret/streams"
)

// Limits of an endpoint.
const (
	MaxBody     = 4 << 20         // bytes of one request
	MaxSessions = 256             // sessions of all servers together
	maxOfOne    = MaxSessions / 2 // sessions of one token
	maxConns    = 2048
	maxHeader   = 32 << 10
	headerTime  = 5 * time.Second
	bodyTime    = 15 * time.Second
	idleTime    = time.Minute     // maximum time for which a connection may be idle between two requests
	commitTime  = 5 * time.Second // time for which a response waits for its first message before it sends its status
	// unusedTime is the time for which a session lives after initialize if its host sends no request with the session's
	// id.
	unusedTime = time.Minute
	// DefaultIdle is the time for which a session lives without a request of its host.
	DefaultIdle = 30 * time.Minute
)

// TokenHeader is the header with the token that a host needs for the endpoint itself.
const TokenHeader = "Lazaret-Token"

// Server is one server behind an endpoint.
type Server struct {
	// Start starts a process of the server for one session. It is nil if Remote is set.
	Start  func() (mcp.Connection, error)
	Remote *Remote
	// Run passes messages between a host and the server until one of them ends.
	Run func(ctx context.Context, host, server mcp.Connection) error
}

// Endpoint serves several MCP servers over Streamable HTTP. The path of a server is /NAME/mcp.
type Endpoint struct {
	Servers map[string]*Server
	// Token checks the token in a request and returns the id of the token. If Token is nil, requests need no token.
	Token func(secret string) (id string, err error)
	// Loopback says that the endpoint listens only on this machine. Then it refuses a request for another host name,
	// because that is DNS rebinding.
	Loopback bool
	TLS      *tls.Config   // nil: plain HTTP
	Idle     time.Duration // zero: DefaultIdle
	Unused   time.Duration // maximum time between the first and the second request of a session; zero: one minute
	Body     time.Duration // time within which a host must send the whole body of a request; zero: 15 s
	Log      *slog.Logger

	mu       sync.Mutex
	sessions map[string]*session // by path and id; guarded by mu
	lines    map[string]*line    // connections that requests without a session share, by server and token; guarded by mu
	// by server name: the time at which the server was found to need sessions; guarded by mu
	legacy  map[string]time.Time
	running sync.WaitGroup
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// CheckName returns an error if name cannot be the name of a server.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("the server's name %q is not 1 to 64 of A-Z a-z 0-9 _ -, the first one a letter or digit",
			streams.Clip(name, 80))
	}
	return nil
}

// Serve serves the connections of a listener until ctx ends. Then it ends all sessions.
func (e *Endpoint) Serve(ctx context.Context, l net.Listener) error {
	e.Idle = cmp.Or(e.Idle, DefaultIdle)
	e.Body = cmp.Or(e.Body, bodyTime)
	e.Unused = cmp.Or(e.Unused, unusedTime)
	e.mu.Lock()
	e.sessions, e.lines, e.legacy = make(map[string]*session), make(map[string]*line), make(map[string]time.Time)
	e.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler:           e.handler(ctx),
		ReadHeaderTimeout: headerTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(e.Log.Handler(), slog.LevelDebug),
	}
	go e.expire(ctx)
	go func() {
		<-ctx.Done()
		e.mu.Lock()
		for _, s := range e.sessions {
			_ = s.Close()
		}
		e.mu.Unlock()
		server.Close()
	}()
	l = netutil.LimitListener(l, maxConns)
	var err error
	if e.TLS != nil {
		server.TLSConfig = e.TLS
		err = server.ServeTLS(l, "", "")
	} else {
		err = server.Serve(l)
	}
	cancel()
	e.running.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// expire ends each session whose host has made no request for longer than the limit.
func (e *Endpoint) expire(ctx context.Context) {
	t := time.NewTicker(max(min(e.Idle, e.Unused)/10, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		e.mu.Lock()
		for _, s := range e.sessions {
			if s.idle(e.Idle, e.Unused) {
				_ = s.Close()
			}
		}
		e.mu.Unlock()
	}
}

// single are headers that a request may have only once. If it had two values, one reader could use the first and
// another reader the second.
var single = []string{"Host", "Origin", "Content-Type", "Content-Encoding", headerMethod, headerName,
	headerSession, headerVersion, headerLast, headerAuth, TokenHeader}

// versions are the protocol versions with sessions that the endpoint supports.
var versions = []string{"2025-03-26", "2025-06-18", "2025-11-25"}

func (e *Endpoint) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	for name, s := range e.Servers {
		mux.HandleFunc("/"+name+"/mcp", func(w http.ResponseWriter, r *http.Request) { e.serve(ctx, w, r, name, s) })
		if s.Remote != nil {
			for _, at := range []string{wellKnown + "/" + name + "/mcp", "/" + name + "/mcp" + wellKnown} {
				mux.HandleFunc("GET "+at, func(w http.ResponseWriter, r *http.Request) { s.metadata(w, r, name) })
			}
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(e.Body))
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		for _, name := range single {
			if len(r.Header.Values(name)) > 1 {
				http.Error(w, "the header "+name+" is repeated", http.StatusBadRequest)
				return
			}
		}
		if e.Loopback && !loopback(r.Host) {
			http.Error(w, "this endpoint serves only this machine: use localhost or 127.0.0.1 as the host name",
				http.StatusMisdirectedRequest)
			return
		}
		if o := r.Header.Get("Origin"); o != "" && !sameOrigin(o, r) || crossSite(r) {
			http.Error(w, "the request comes from another site", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func crossSite(r *http.Request) bool {
	s := r.Header.Get("Sec-Fetch-Site")
	return s != "" && s != "same-origin" && s != "none"
}

func loopback(host string) bool {
	u, err := url.Parse("http://" + host)
	if err != nil {
		return false
	}
	name := strings.ToLower(u.Hostname())
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

func sameOrigin(origin string, r *http.Request) bool { return strings.EqualFold(origin, base(r)) }

// base returns the URL of the endpoint as the host used it in its request.
func base(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// admit checks the token of a request and returns the id of the token.
func (e *Endpoint) admit(r *http.Request, s *Server) (owner string, err error) {
	if e.Token == nil {
		return "", nil
	}
	secret := r.Header.Get(TokenHeader)
	scheme, bearer, _ := strings.Cut(r.Header.Get(headerAuth), " ")
	if secret == "" && s.Remote == nil && strings.EqualFold(scheme, "Bearer") {
		// the token is for the endpoint, not for the server: a server that is a process gets no Authorization
		secret = strings.TrimSpace(bearer)
	}
	if secret == "" {
		return "", errors.New("send a token of this agent's credential in the header " + TokenHeader)
	}
	return e.Token(secret)
}

func (e *Endpoint) serve(ctx context.Context, w http.ResponseWriter, r *http.Request, name string, server *Server) {
	owner, err := e.admit(r, server)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	if v := r.Header.Get(headerVersion); v != "" && v < "2026" && !slices.Contains(versions, v) {
		http.Error(w, "unsupported protocol version: use "+strings.Join(versions, ", "), http.StatusBadRequest)
		return
	}
	modern := r.Header.Get(headerVersion) >= "2026" // sessions are ignored
	var s *session
	if id := r.Header.Get(headerSession); id != "" && !modern {
		e.mu.Lock()
		s = e.sessions[name+"/"+id]
		e.mu.Unlock()
		if s == nil || s.owner != owner || s.ended() {
			http.Error(w, "there is no such session", http.StatusNotFound)
			return
		}
		s.enterKnown()
		defer s.leave()
		if !s.authorize(w, r, name) {
			return
		}
	}
	switch {
	case r.Method == http.MethodPost:
		e.post(ctx, w, r, s, name, owner, server)
	case r.Method != http.MethodGet && r.Method != http.MethodDelete || modern:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "use GET, POST or DELETE; version "+stateless+" has POST only", http.StatusMethodNotAllowed)
	case s == nil:
		http.Error(w, "the header "+headerSession+" is missing", http.StatusBadRequest)
	case r.Method == http.MethodDelete:
		_ = s.Close()
		w.WriteHeader(http.StatusNoContent)
	default:
		s.get(w, r)
	}
}

// authorize compares the header Authorization of a request with that of its session. If the value is a new one,
// authorize asks the server whether it accepts the value. If so, authorize stores it. The first request of a session
// sets the first value.
func (s *session) authorize(w http.ResponseWriter, r *http.Request, name string) bool {
	if s.up == nil {
		return true
	}
	a := r.Header.Get(headerAuth)
	if a == s.authorization() {
		return true
	}
	if a == "" {
		http.Error(w, "the session was opened with an Authorization header, but this request has none",
			http.StatusUnauthorized)
		return false
	}
	if refused := s.up.try(r.Context(), a); refused != nil {
		refused.Authenticate = authenticate(refused.Authenticate, r, name)
		refused.write(w, []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,`+
			`"message":"lazaret: the server refuses this Authorization"}}`))
		return false
	}
	s.mu.Lock()
	s.auth = a
	s.mu.Unlock()
	return true
}

// makeRoom ends a session if there is no room for another. That is so in two cases. If the owner of a token has
// maxOfOne sessions, it ends one of them. If the endpoint has MaxSessions, it ends one of the owner with the most
// sessions. It ends the session that was unused for the longest time and has no request in progress. If there is none,
// it returns an error. The caller holds mu.
func (e *Endpoint) makeRoom(owner string) error {
	of := make(map[string]int)
	for _, s := range e.sessions {
		of[s.owner]++
	}
	mine := e.Token != nil && of[owner] >= maxOfOne
	if !mine && len(e.sessions) < MaxSessions {
		return nil
	}
	var victim, at string
	var since time.Time
	for key, s := range e.sessions {
		used, free := s.lastUsed()
		if !free || mine && s.owner != owner || of[s.owner] < of[owner] {
			continue
		}
		if victim == "" || of[s.owner] > of[at] || of[s.owner] == of[at] && used.Before(since) {
			victim, at, since = key, s.owner, used
		}
	}
	if victim == "" {
		return fmt.Errorf("%d sessions are open, %d of this token, and all have requests in progress: try again later",
			len(e.sessions), of[owner])
	}
	s := e.sessions[victim]
	delete(e.sessions, victim)
	return s.Close()
}

// run starts the server of a session. It passes messages between the host and the server until one of them ends.
func (e *Endpoint) run(ctx context.Context, r *http.Request, name string, server *Server, s *session,
	host mcp.Connection) error {
	e.mu.Lock()
	err := ctx.Err()
	if err == nil {
		err = e.makeRoom(s.owner)
	}
	if err != nil {
		e.mu.Unlock()
		return err
	}
	e.sessions[name+"/"+s.id] = s
	e.running.Add(1)
	e.mu.Unlock()
	forget := func() {
		_ = s.Close()
		e.mu.Lock()
		delete(e.sessions, name+"/"+s.id)
		e.mu.Unlock()
		e.running.Done()
	}
	var down mcp.Connection
	if server.Remote != nil {
		remote := *server.Remote
		remote.Authorization = s.authorization
		s.auth = r.Header.Get(headerAuth)
		s.up = remote.dial()
		down = &located{s.up, authenticator(r, name)}
	} else {
		if down, err = server.Start(); err != nil {
			forget()
			e.Log.Error("a server cannot be started", "server", name, "err", err)
			return errors.New("the server cannot be started")
		}
	}
	go func() {
		defer forget()
		if err := server.Run(ctx, host, down); err != nil {
			e.Log.Warn("a session ended", "server", name, "err", err)
		}
	}()
	return nil
}

// post processes one message of a host.
func (e *Endpoint) post(ctx context.Context, w http.ResponseWriter, r *http.Request, s *session, name, owner string,
	server *Server) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || r.Header.Get("Content-Encoding") != "" {
		http.Error(w, "send application/json without a Content-Encoding", http.StatusUnsupportedMediaType)
		return
	}
	if !accepts(r, "text/event-stream") || !accepts(r, "application/json") {
		http.Error(w, "accept application/json and text/event-stream", http.StatusNotAcceptable)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			http.Error(w, fmt.Sprintf("the body is larger than %d bytes", MaxBody), http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, "the body was not received completely", http.StatusRequestTimeout)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	messages, bad := decode(body)
	switch {
	case bad != nil:
		reply(w, http.StatusBadRequest, bad.id, bad.code, bad.text, "")
		return
	case len(messages) > 1:
		reply(w, http.StatusBadRequest, nil, jsonrpc.CodeInvalidRequest, "the message was refused: it has several ids", "")
		return
	}
	m := messages[0]
	q, isRequest := m.(*jsonrpc.Request)
	if r.Header.Get(headerVersion) >= "2026" || isRequest && metaVersion(q.Params) >= "2026" {
		e.statelessRequest(ctx, w, r, m, name, owner, server)
		return
	}
	if isRequest && misfit(r, q) {
		reply(w, http.StatusBadRequest, q.ID.Raw(), codeMismatch,
			"the headers "+headerMethod+" and "+headerName+" differ from the body", "")
		return
	}
	isRequest = isRequest && q.ID.IsValid()
	begun := false
	switch {
	case s == nil && isRequest && q.Method == "initialize":
		s = newSession(owner)
		if err := e.run(ctx, r, name, server, s, s); err != nil {
			reply(w, http.StatusServiceUnavailable, q.ID.Raw(), jsonrpc.CodeInternalError, err.Error(), "")
			return
		}
		s.enter()
		defer s.leave()
		begun = true
	case s == nil:
		http.Error(w, "the header "+headerSession+" is missing: begin with initialize", http.StatusBadRequest)
		return
	case isRequest && q.Method == "initialize":
		reply(w, http.StatusBadRequest, q.ID.Raw(), jsonrpc.CodeInvalidRequest, "the session has begun already", "")
		return
	}
	if !isRequest {
		if err := s.take(ctx, m); err != nil {
			notTaken(w, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	st := s.open(q)
	if st == nil {
		reply(w, http.StatusBadRequest, q.ID.Raw(), jsonrpc.CodeInvalidRequest,
			fmt.Sprintf("this id is in use, or too many requests (%d) wait for their answers", maxRequests), "")
		return
	}
	defer st.release()
	if err := s.take(ctx, m); err != nil {
		s.forget(q.ID, st)
		if begun {
			_ = s.Close()
		}
		notTaken(w, err)
		return
	}
	if begun {
		w.Header().Set(headerSession, s.id)
	}
	st.serve(w, r, 0, commitTime, r.Header.Get(headerVersion) >= "2025-11-25")
	if begun && st.failed() {
		_ = s.Close() // the host does not know the id of this session and cannot use it
	}
}

// notTaken answers the request with a message that the session did not take. If the session has ended, the status is
// 404, which makes the host open a new session. If it is only busy, the status is 503.
func notTaken(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if errors.Is(err, errSessionEnded) {
		status = http.StatusNotFound
	}
	http.Error(w, err.Error(), status)
}

// misfit reports whether a request in a protocol version with sessions has a header that contradicts its body.
func misfit(r *http.Request, q *jsonrpc.Request) bool {
	name, _ := nameOf(q)
	given := r.Header.Get(headerName)
	return r.Header.Get(headerMethod) != "" && r.Header.Get(headerMethod) != q.Method || given != "" && given != name
}

func accepts(r *http.Request, kind string) bool {
	for _, h := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(h, ",") {
			t, _, err := mime.ParseMediaType(part)
			if err == nil && (t == kind || t == "*/*" || t == strings.Split(kind, "/")[0]+"/*") {
				return true
			}
		}
	}
	return false
}

// get serves the stream of messages that belong to no request. If the request names an event, get continues another
// stream after this event.
func (s *session) get(w http.ResponseWriter, r *http.Request) {
	if !accepts(r, "text/event-stream") {
		http.Error(w, "accept text/event-stream", http.StatusNotAcceptable)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	st, from := s.find(listening), -1
	if last := r.Header.Get(headerLast); last != "" {
		id, i, err := parseEventID(last)
		if err != nil {
			http.Error(w, headerLast+": "+err.Error(), http.StatusBadRequest)
			return
		}
		if st, from = s.find(id), i+1; st == nil {
			http.Error(w, "the stream is no longer available", http.StatusNotFound)
			return
		}
	}
	st.serve(w, r, from, 0, false)
}
