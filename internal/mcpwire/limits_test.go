package mcpwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const wait = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"wait","arguments":{"text":""}}}`

// leaving sends a request, waits until the endpoint has received it, and closes the connection.
func leaving(t *testing.T, url, body string, taken func() bool, header ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	done := make(chan error, 1)
	go func() {
		resp, err := new(http.Transport).RoundTrip(r)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		done <- err
	}()
	eventually(t, "the request is in progress", taken)
	cancel()
	if err := <-done; err == nil {
		t.Fatal("the request was answered")
	}
}

func (e *Endpoint) open() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions)
}

func TestARequestWithoutAnAnswerDoesNotKeepASessionWhoseHostLeft(t *testing.T) {
	e := &Endpoint{Loopback: true, Idle: 50 * time.Millisecond,
		Servers: map[string]*Server{"echo": {Start: startStock, Run: pump}}}
	url := serving(t, e) + "/echo/mcp"
	s := begin(t, url)
	e.mu.Lock()
	mine := e.sessions["echo/"+s]
	e.mu.Unlock()
	leaving(t, url, wait, func() bool {
		mine.mu.Lock()
		defer mine.mu.Unlock()
		return len(mine.requests) == 1
	}, headerSession, s)
	eventually(t, "the session has ended", func() bool { return e.open() == 0 })
}

// silent is a server that never answers.
func silent() (mcp.Connection, error) {
	down, _ := mcp.NewInMemoryTransports()
	return down.Connect(context.Background())
}

// drain reads the host's messages without answering.
func drain(ctx context.Context, host, server mcp.Connection) error {
	for {
		if _, err := host.Read(ctx); err != nil {
			return errors.Join(host.Close(), server.Close())
		}
	}
}

func TestASessionWhoseHostLeftDuringInitializeEndsSoon(t *testing.T) {
	e := &Endpoint{Loopback: true, Unused: 50 * time.Millisecond,
		Servers: map[string]*Server{"mute": {Start: silent, Run: drain}, "echo": {Start: startStock, Run: pump}}}
	at := serving(t, e)
	leaving(t, at+"/mute/mcp", hello, func() bool { return e.open() == 1 })
	eventually(t, "the session without an answer has ended", func() bool { return e.open() == 0 })
	raw(t, "POST", at+"/echo/mcp", hello)
	eventually(t, "the session without a second request has ended", func() bool { return e.open() == 0 })
	begin(t, at+"/echo/mcp")
	time.Sleep(200 * time.Millisecond)
	if e.open() != 1 {
		t.Error("a session in use has ended")
	}
}

func TestABusySessionIsNotReportedAsEnded(t *testing.T) {
	e := &Endpoint{Log: slog.New(slog.DiscardHandler)}
	s := newSession("") // nobody reads its messages
	post := func(body string) int {
		t.Helper()
		r := httptest.NewRequest("POST", "/mute/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		e.post(ctx, w, r, s, "mute", "", &Server{})
		return w.Code
	}
	for range 2 { // the second request has the same id, which must be free again
		if code := post(wait); code != http.StatusServiceUnavailable {
			t.Errorf("a busy session: status %d", code)
		}
	}
	if len(s.requests) != 0 || len(s.streams) != 1 {
		t.Errorf("%d requests and %d streams are left", len(s.requests), len(s.streams))
	}
	if code := post(ready); code != http.StatusServiceUnavailable {
		t.Errorf("a notification to a busy session: status %d", code)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if code := post(wait); code != http.StatusNotFound {
		t.Errorf("an ended session: status %d", code)
	}
}

func TestAFullEndpointEndsTheSessionThatIsIdleLongest(t *testing.T) {
	e := &Endpoint{Servers: map[string]*Server{"mute": {Start: silent, Run: drain}},
		Token: func(s string) (string, error) { return s, nil }}
	serving(t, e)
	eventually(t, "the endpoint is served", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.sessions != nil
	})
	server := e.Servers["mute"]
	request := httptest.NewRequest("POST", "/mute/mcp", nil)
	start := func(owner string) *session {
		t.Helper()
		s := newSession(owner)
		if err := e.run(t.Context(), request, "mute", server, s, s); err != nil {
			t.Fatal(owner, err)
		}
		return s
	}
	// One token may have half of all sessions. For each further session, the oldest session of the same token must end.
	first := start("a")
	busy := start("a")
	busy.enter()
	for range maxOfOne - 2 {
		start("a")
	}
	other := start("b")
	second := start("a")
	if !first.ended() || busy.ended() || other.ended() || second.ended() {
		t.Errorf("ended: a's first %t, a's busy one %t, b's %t, a's last %t", first.ended(), busy.ended(), other.ended(),
			second.ended())
	}
	// When the endpoint has the maximum number of sessions, a session of the token with the most sessions must end.
	for i := 0; i < MaxSessions-maxOfOne-1; i++ {
		start(fmt.Sprint("c", i))
	}
	start("new")
	if other.ended() || busy.ended() {
		t.Errorf("ended: b's only session %t, a's busy one %t", other.ended(), busy.ended())
	}
	// Sessions in use are never ended.
	e.mu.Lock()
	for _, s := range e.sessions {
		if !s.ended() {
			s.enter()
		}
	}
	e.mu.Unlock()
	if late := newSession("late"); e.run(t.Context(), request, "mute", server, late, late) == nil {
		t.Error("a session was opened in an endpoint whose sessions are all in use")
	}
}

func TestTheUnreadAnswersOfASessionAreBounded(t *testing.T) {
	s := newSession("")
	b := []byte(`"` + strings.Repeat("x", MaxMessage/2) + `"`)
	for i := range int64(maxRequests) {
		id, err := jsonrpc.MakeID(float64(i))
		if err != nil {
			t.Fatal(err)
		}
		if s.open(&jsonrpc.Request{ID: id, Method: "tools/call"}) == nil {
			t.Fatal("a request was refused")
		}
		if err = s.Write(t.Context(), &jsonrpc.Response{ID: id, Result: b}); err != nil {
			if i < 3 {
				t.Fatalf("answer %d: %v", i, err)
			}
			if !s.ended() || s.unread.Load() > maxUnread {
				t.Errorf("the session has ended: %t; it holds %d bytes", s.ended(), s.unread.Load())
			}
			return
		}
	}
	t.Errorf("a session holds %d unread answers of %d bytes", maxRequests, len(b))
}

func TestReadAnswersAreNoLongerCounted(t *testing.T) {
	e, at := echoes(t)
	url := at + "/echo/mcp"
	s := begin(t, url)
	e.mu.Lock()
	mine := e.sessions["echo/"+s]
	e.mu.Unlock()
	text := strings.Repeat("x", 1<<20)
	for i := range 40 { // more answers than the endpoint stores for a host that lost an answer
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":%q}}}`,
			10+i, text)
		text = ""
		resp := raw(t, "POST", url, body, headerSession, s)
		if b, err := io.ReadAll(resp.Body); err != nil || len(b) < 1<<20 {
			t.Fatalf("answer %d: %d bytes, %v", i, len(b), err)
		}
	}
	eventually(t, "nothing is unread", func() bool { return mine.unread.Load() == 0 })
}

func TestMetadataThatDoNotComeAreGivenUp(t *testing.T) {
	stop := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		<-stop
	}))
	defer slow.Close()
	defer close(stop)
	g := &guarded{Server: slow}
	before := metadataTime
	metadataTime = 50 * time.Millisecond
	defer func() { metadataTime = before }()
	server := g.remote(t)
	done := make(chan int, 1)
	go func() {
		w := httptest.NewRecorder()
		server.metadata(w, httptest.NewRequest("GET", wellKnown+"/one/mcp", nil), "one")
		done <- w.Code
	}()
	select {
	case code := <-done:
		if code != 404 {
			t.Error(code)
		}
	case <-time.After(time.Minute):
		t.Fatal("the metadata are waited for")
	}
}
