package mcpwire

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Limits of a session.
const (
	maxRequests = 128 // maximum number of requests of one host that wait for answers
	// number of bytes of answers that are stored after they were sent, because the host may ask for them again
	keepStreams = 4 << 20
	listening   = 0                // id of the stream for the messages that belong to no request
	takeTime    = 20 * time.Second // time for which a message of the host waits until the proxy reads it
)

var (
	errSessionEnded = errors.New("the session has ended")
	errBusy         = errors.New("the server does not read its messages: try again later")
)

// session is one host's connection over HTTP.
type session struct {
	id    string // the id by which the host names the session; it is secret, and never in the ledger or a log
	owner string // id of the token with which the session was opened; empty if none was required
	in    chan jsonrpc.Message
	done  chan struct{}
	once  sync.Once

	unread atomic.Int64 // number of bytes in all streams that the host has not read

	mu       sync.Mutex
	auth     string                  // Authorization for the remote server; guarded by mu, like the fields below
	up       *upstream               // nil if the server is a process
	streams  map[int]*stream         // by id
	requests map[jsonrpc.ID]*request // requests that wait for an answer, by id
	finished []*stream               // streams of answered requests, oldest first
	last     int                     // the latest stream's id
	active   int                     // HTTP requests in progress
	used     time.Time               // when the latest HTTP request ended
	known    bool                    // the host made a request with the session's id
}

// request is a request of the host that has no answer yet.
type request struct {
	stream *stream
	token  string // the request's progress token as JSON
}

func newSession(owner string) *session {
	s := &session{id: rand.Text(), owner: owner, used: time.Now(),
		in: make(chan jsonrpc.Message), done: make(chan struct{}), requests: make(map[jsonrpc.ID]*request)}
	s.streams = map[int]*stream{listening: newStream(listening, &s.unread)}
	return s
}

// SessionID returns "", because the id is a secret.
func (s *session) SessionID() string { return "" }

func (s *session) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-s.in:
		return m, nil
	case <-s.done:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write puts a message of the server into a stream. An answer belongs to the stream of its request. A progress
// notification belongs to the stream of the request with its progress token. If only one request is in progress, all
// other messages belong to this request's stream. Otherwise they belong to the stream for messages that belong to no
// request.
func (s *session) Write(_ context.Context, m jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	s.mu.Lock()
	to, last := s.route(m)
	s.mu.Unlock()
	if to == nil {
		return nil // the host cancelled the request
	}
	var refused *Refused
	r, bad := m.(*jsonrpc.Response)
	if bad = bad && r.Error != nil; bad {
		errors.As(r.Error, &refused)
	}
	if err := to.add(b, last, bad, refused); err != nil {
		_ = s.Close() // otherwise the host would lose an answer without noticing
		return err
	}
	return nil
}

// route returns the stream to which a message belongs, by the rules in the comment of Write. last reports whether it is
// the last message of this stream. The caller holds mu.
func (s *session) route(m jsonrpc.Message) (to *stream, last bool) {
	if r, ok := m.(*jsonrpc.Response); ok {
		q := s.requests[r.ID]
		if q == nil {
			return nil, false
		}
		s.finish(r.ID, q)
		return q.stream, true
	}
	if r := m.(*jsonrpc.Request); r.Method == "notifications/progress" {
		if t := progressToken(r.Params, false); t != "" {
			for _, q := range s.requests {
				if q.token == t {
					return q.stream, false
				}
			}
		}
	}
	if len(s.requests) == 1 {
		for _, q := range s.requests {
			return q.stream, false
		}
	}
	return s.streams[listening], false
}

// finish ends a request. Its stream stays for some time, because the host may have lost the answer and ask for it
// again.
func (s *session) finish(id jsonrpc.ID, q *request) {
	delete(s.requests, id)
	s.finished = append(s.finished, q.stream)
	total := 0
	for i := len(s.finished) - 1; i >= 0; i-- {
		total += s.finished[i].size()
		if total > keepStreams || len(s.finished)-i > 32 {
			for _, old := range s.finished[:i] {
				delete(s.streams, old.id)
				old.drop()
			}
			s.finished = s.finished[i:]
			return
		}
	}
}

// progressToken returns the progress token in params: those of a request (where the token is in _meta) or those of a
// progress notification.
func progressToken(params json.RawMessage, request bool) string {
	var p struct {
		Token json.RawMessage `json:"progressToken"`
		Meta  struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil {
		return ""
	}
	if request {
		return string(p.Meta.Token)
	}
	return string(p.Token)
}

// open registers a request and makes a stream for it. The caller must release the stream. open returns nil if the id of
// the request is in use, or if the host has too many requests in progress.
func (s *session) open(r *jsonrpc.Request) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests[r.ID] != nil || len(s.requests) >= maxRequests {
		return nil
	}
	s.last++
	st := newStream(s.last, &s.unread)
	st.use()
	s.streams[st.id] = st
	s.requests[r.ID] = &request{st, progressToken(r.Params, true)}
	return st
}

// forget removes a request that take could not pass to the proxy, and its stream.
func (s *session) forget(id jsonrpc.ID, st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.requests[id]; q != nil && q.stream == st {
		delete(s.requests, id)
	}
	delete(s.streams, st.id)
	st.drop()
}

// take passes a message of the host to the proxy. Requests are passed in their order. take returns errBusy if the proxy
// does not read the message in time, and errSessionEnded if the session has ended.
func (s *session) take(ctx context.Context, m jsonrpc.Message) error {
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	select {
	case s.in <- m:
	case <-s.done:
		return errSessionEnded
	case <-ctx.Done():
		return errBusy
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "notifications/cancelled" {
		s.cancelled(r.Params)
	}
	return nil
}

// cancelled ends the stream of a request that the host has cancelled. The host gets no answer to the request.
func (s *session) cancelled(params json.RawMessage) {
	id, ok := cancelledID(params)
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.requests[id]; ok && q != nil {
		s.finish(id, q)
		q.stream.end()
	}
}

// cancelledID returns the id of the request that a notifications/cancelled cancels. params are those of the
// notification.
func cancelledID(params json.RawMessage) (jsonrpc.ID, bool) {
	var n struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &n) != nil {
		return jsonrpc.ID{}, false
	}
	id, err := ParseID(n.RequestID)
	return id, err == nil
}

// find returns the stream of an id, or nil.
func (s *session) find(id int) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[id]
}

// Close ends the session and all responses in progress.
func (s *session) Close() error {
	s.once.Do(func() {
		close(s.done)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, st := range s.streams {
			st.end()
		}
	})
	return nil
}

func (s *session) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// enter and leave count the HTTP requests of the session that are in progress.
func (s *session) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active++
}

func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	s.used = time.Now()
}

// enterKnown is like enter. It is for a request with the session's id, which shows that the host knows the id.
func (s *session) enterKnown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active++
	s.known = true
}

// idle reports whether the session can be ended, because the host has made no request for the time limit. If the host
// has never used the session's id, the limit is unused, if that is shorter. A request whose host has disconnected is
// not in progress any more, even if the server has not answered it.
func (s *session) idle(limit, unused time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		limit = min(limit, unused)
	}
	return s.active == 0 && time.Since(s.used) > limit
}

// lastUsed returns the time at which the host's latest request ended. It returns false if a request is in progress.
func (s *session) lastUsed() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.active == 0
}

// authorization returns the value of Authorization for the remote server.
func (s *session) authorization() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.auth
}
