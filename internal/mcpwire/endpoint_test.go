//lint:file-ignore SA1019 sampling and logging are deprecated, and spoken by the clients that are in use

package mcpwire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type echoArgs struct {
	Text string `json:"text"`
}

// newServer returns a server of the official SDK. It records the messages that its session gets.
func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	var mu sync.Mutex
	var told []string
	mcp.AddTool(s, &mcp.Tool{Name: "echo"},
		func(ctx context.Context, r *mcp.CallToolRequest, in echoArgs) (*mcp.CallToolResult, any, error) {
			mu.Lock()
			told = append(told, in.Text)
			all := strings.Join(told, " ")
			mu.Unlock()
			if t := r.Params.GetProgressToken(); t != nil {
				_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: t, Progress: 1, Message: in.Text})
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: all}}}, nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"},
		func(ctx context.Context, r *mcp.CallToolRequest, in echoArgs) (*mcp.CallToolResult, any, error) {
			a, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: in.Text,
				RequestedSchema: map[string]any{"type": "object"}})
			if err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Action}}}, nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "wait"},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ echoArgs) (*mcp.CallToolResult, any, error) {
			<-ctx.Done()
			return nil, nil, ctx.Err()
		})
	return s
}

// startStock starts a new server in this process and returns a connection to it.
func startStock() (mcp.Connection, error) {
	down, up := mcp.NewInMemoryTransports()
	if _, err := newServer().Connect(context.Background(), up, nil); err != nil {
		return nil, err
	}
	return down.Connect(context.Background())
}

// pump passes on all messages between a host and a server, as a proxy does that asks no pipeline.
func pump(ctx context.Context, host, server mcp.Connection) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	copyAll := func(from, to mcp.Connection) {
		defer cancel()
		for {
			m, err := from.Read(ctx)
			if err != nil {
				return
			}
			if to.Write(ctx, m) != nil {
				return
			}
		}
	}
	wg.Go(func() { copyAll(host, server) })
	wg.Go(func() { copyAll(server, host) })
	<-ctx.Done()
	err := errors.Join(host.Close(), server.Close())
	wg.Wait()
	return err
}

// serving serves an endpoint until the test ends, and returns its URL.
func serving(t *testing.T, e *Endpoint) string {
	t.Helper()
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func echoes(t *testing.T) (*Endpoint, string) {
	e := &Endpoint{Loopback: true, Servers: map[string]*Server{"echo": {Start: startStock, Run: pump},
		"other": {Start: startStock, Run: pump}}}
	return e, serving(t, e)
}

// stock connects a client of the official SDK to a URL. The client uses sessions.
func stock(t *testing.T, url string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	return speaking(t, url, "2025-11-25", opts)
}

func speaking(t *testing.T, url, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "stock", Version: "1"}, opts)
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func call(t *testing.T, s *mcp.ClientSession, p *mcp.CallToolParams) string {
	t.Helper()
	r, err := s.CallTool(t.Context(), p)
	if err != nil {
		t.Error(err)
		return ""
	}
	return r.Content[0].(*mcp.TextContent).Text
}

func TestHostsOfOneServerHearNothingOfEachOther(t *testing.T) {
	e, at := echoes(t)
	var wg sync.WaitGroup
	for h := range 8 {
		wg.Go(func() {
			mine := fmt.Sprintf("h%d", h)
			var mu sync.Mutex
			var progress, asked []string
			s := stock(t, at+"/echo/mcp", &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					mu.Lock()
					defer mu.Unlock()
					progress = append(progress, r.Params.Message)
				},
				ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					mu.Lock()
					defer mu.Unlock()
					asked = append(asked, r.Params.Message)
					return &mcp.ElicitResult{Action: "decline"}, nil
				},
			})
			var want []string
			for range 20 {
				want = append(want, mine)
				p := &mcp.CallToolParams{Name: "echo", Arguments: echoArgs{mine}}
				p.SetProgressToken(1) // the same in all sessions
				if got := call(t, s, p); got != strings.Join(want, " ") {
					t.Errorf("%s was told %q", mine, got)
					return
				}
			}
			if got := call(t, s, &mcp.CallToolParams{Name: "ask", Arguments: echoArgs{mine}}); got != "decline" {
				t.Errorf("%s asked: %q", mine, got)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(progress) == 0 || len(asked) != 1 {
				t.Errorf("%s heard %d of progress, and was asked %d times", mine, len(progress), len(asked))
			}
			for _, x := range append(progress, asked...) {
				if x != mine {
					t.Errorf("%s heard %q", mine, x)
				}
			}
		})
	}
	wg.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.sessions) != 8 {
		t.Errorf("%d sessions are open", len(e.sessions))
	}
}

func TestASessionEndsWithDelete(t *testing.T) {
	e, at := echoes(t)
	s := stock(t, at+"/echo/mcp", nil)
	if err := s.Ping(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	s.Close()
	eventually(t, "no session is left", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.sessions) == 0 })
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

const (
	hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// raw sends one HTTP request. The caller must close the body of the response.
func raw(t *testing.T, method, url, body string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		switch {
		case header[i] == "Host":
			r.Host = header[i+1]
		case header[i+1] == "":
			r.Header.Del(header[i])
		default:
			r.Header[http.CanonicalHeaderKey(header[i])] = strings.Split(header[i+1], "|")
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func begin(t *testing.T, url string, header ...string) (session string) {
	t.Helper()
	resp := raw(t, "POST", url, hello, header...)
	b, _ := io.ReadAll(resp.Body)
	if session = resp.Header.Get(headerSession); resp.StatusCode != 200 || len(session) < 20 ||
		!strings.Contains(string(b), `"serverInfo"`) {
		t.Fatalf("%d, session %q: %s", resp.StatusCode, session, b)
	}
	if resp = raw(t, "POST", url, ready, append(header, headerSession, session)...); resp.StatusCode != 202 {
		t.Fatal(resp.Status)
	}
	return session
}

func TestTheEndpointRefusesForeignSitesForeignSessionsAndHeadersThatStandTwice(t *testing.T) {
	_, at := echoes(t)
	url := at + "/echo/mcp"
	s := begin(t, url)
	const list = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	for _, x := range []struct {
		name, method, url, body string
		header                  []string
		want                    int
	}{
		{"a page of another site", "POST", url, list, []string{headerSession, s, "Origin", "http://evil.example"}, 403},
		{"a page without an origin", "POST", url, list, []string{headerSession, s, "Origin", "null"}, 403},
		{"a browser's word", "POST", url, list, []string{headerSession, s, "Sec-Fetch-Site", "cross-site"}, 403},
		{"a name that was rebound", "POST", url, list, []string{headerSession, s, "Host", "evil.example"}, 421},
		{"a name that begins like ours", "POST", url, list, []string{headerSession, s, "Host", "localhost.evil.example"},
			421},
		{"another server's session", "POST", at + "/other/mcp", list, []string{headerSession, s}, 404},
		{"no such session", "POST", url, list, []string{headerSession, "__proto__"}, 404},
		{"no session", "POST", url, list, nil, 400},
		{"two sessions", "POST", url, list, []string{headerSession, s + "|x"}, 400},
		{"two origins", "POST", url, list, []string{headerSession, s, "Origin", at + "|http://evil.example"}, 400},
		{"another method in the header", "POST", url, list, []string{headerSession, s, "Mcp-Method", "tools/call"}, 400},
		{"a batch", "POST", url, "[" + list + "]", []string{headerSession, s}, 400},
		{"no JSON", "POST", url, "{", []string{headerSession, s}, 400},
		{"a fraction as the id", "POST", url, strings.Replace(list, "7", "7.5", 1), []string{headerSession, s}, 400},
		{"a large number as the id", "POST", url, strings.Replace(list, "7", "9007199254740993", 1),
			[]string{headerSession, s}, 400},
		{"two ids", "POST", url, strings.Replace(list, `"id"`, `"id":6,"id"`, 1), []string{headerSession, s}, 400},
		{"no message", "POST", url, "{}", []string{headerSession, s}, 400},
		{"initialize twice", "POST", url, hello, []string{headerSession, s}, 400},
		{"a form", "POST", url, list, []string{headerSession, s, "Content-Type", "text/plain"}, 415},
		{"compressed", "POST", url, list, []string{headerSession, s, "Content-Encoding", "gzip"}, 415},
		{"nothing accepted", "POST", url, list, []string{headerSession, s, "Accept", "text/html"}, 406},
		{"too large", "POST", url, `"` + strings.Repeat("x", MaxBody) + `"`, []string{headerSession, s}, 413},
		{"a version of old", "POST", url, list, []string{headerSession, s, headerVersion, "1999-01-01"}, 400},
		{"another verb", "PUT", url, list, []string{headerSession, s}, 405},
		{"no such server", "POST", at + "/constructor/mcp", hello, nil, 404},
		{"an event of nobody", "GET", url, "", []string{headerSession, s, headerLast, "9-9"}, 404},
		{"no event", "GET", url, "", []string{headerSession, s, headerLast, "x\ty"}, 400},
		{"a stream of nobody", "GET", url, "", nil, 400},
		{"it goes on", "POST", url, list, []string{headerSession, s, "Origin", at}, 200},
	} {
		if resp := raw(t, x.method, x.url, x.body, x.header...); resp.StatusCode != x.want {
			b, _ := io.ReadAll(resp.Body)
			t.Errorf("%s: %s, want %d: %s", x.name, resp.Status, x.want, b)
		}
	}
}

func TestASessionBelongsToTheTokenThatOpenedIt(t *testing.T) {
	e := &Endpoint{Servers: map[string]*Server{"echo": {Start: startStock, Run: pump}},
		Token: func(s string) (string, error) {
			if s == "a" || s == "b" {
				return s, nil
			}
			return "", errors.New("unknown")
		}}
	url := serving(t, e) + "/echo/mcp"
	s := begin(t, url, TokenHeader, "a")
	const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	for _, x := range []struct {
		header []string
		want   int
	}{
		{[]string{headerSession, s, TokenHeader, "a"}, 200},
		{[]string{headerSession, s, headerAuth, "Bearer a"}, 200},
		{[]string{headerSession, s, TokenHeader, "b"}, 404},
		{[]string{headerSession, s, TokenHeader, "c"}, 401},
		{[]string{headerSession, s}, 401},
	} {
		for _, method := range []string{"POST", "DELETE"} {
			if method == "DELETE" && x.want == 200 {
				continue
			}
			if resp := raw(t, method, url, ping, x.header...); resp.StatusCode != x.want {
				t.Errorf("%s %v: %s", method, x.header, resp.Status)
			}
		}
	}
}

// readEvent reads events up to the next one that has data. It returns the id and the data of this event.
func readEvent(t *testing.T, r *bufio.Reader) (id, data string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			id = strings.TrimSpace(v)
		}
		if v, ok := strings.CutPrefix(line, "data: "); ok && strings.TrimSpace(v) != "" {
			return id, strings.TrimSpace(v)
		}
	}
}

func TestAnAnswerThatWasLostIsReadAgainBehindTheLastEvent(t *testing.T) {
	_, at := echoes(t)
	url := at + "/echo/mcp"
	s := begin(t, url)
	const echo = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a\r\ndata: {\"forged\":1}\n\n"},"_meta":{"progressToken":"t"}}}`
	resp := raw(t, "POST", url, echo, headerSession, s)
	id, first := readEvent(t, bufio.NewReader(resp.Body))
	resp.Body.Close()
	if !strings.Contains(first, "notifications/progress") {
		t.Fatal(first)
	}
	resp = raw(t, "GET", url, "", headerSession, s, headerLast, id)
	_, answer := readEvent(t, bufio.NewReader(resp.Body))
	if !strings.Contains(answer, `"id":7`) || !strings.Contains(answer, `data: {\"forged\":1}`) {
		t.Errorf("read again: %s", answer)
	}
	// No other session may read it.
	if resp := raw(t, "GET", url, "", headerSession, begin(t, url), headerLast, id); resp.StatusCode != 200 {
		return // that session has no such stream
	} else if b, _ := io.ReadAll(resp.Body); strings.Contains(string(b), "forged") {
		t.Errorf("another session read %s", b)
	}
}

func TestARequestThatIsCancelledEndsItsResponse(t *testing.T) {
	e, at := echoes(t)
	url := at + "/echo/mcp"
	s := begin(t, url)
	done := make(chan int, 1)
	go func() {
		resp := raw(t, "POST", url,
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"wait","arguments":{"text":""}}}`, headerSession, s)
		n, _ := io.Copy(io.Discard, resp.Body)
		done <- int(n)
	}()
	e.mu.Lock()
	mine := e.sessions["echo/"+s]
	e.mu.Unlock()
	eventually(t, "the id is in use", func() bool {
		mine.mu.Lock()
		defer mine.mu.Unlock()
		return len(mine.requests) == 1
	})
	if resp := raw(t, "POST", url, `{"jsonrpc":"2.0","id":7,"method":"ping"}`, headerSession, s); resp.StatusCode != 400 {
		t.Errorf("a second request of the same id: %s", resp.Status)
	}
	raw(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, headerSession, s)
	<-done
}

func TestABodyThatComesSlowlyIsGivenUp(t *testing.T) {
	e := &Endpoint{Loopback: true, Body: 50 * time.Millisecond,
		Servers: map[string]*Server{"echo": {Start: startStock, Run: pump}}}
	at := strings.TrimPrefix(serving(t, e), "http://")
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /echo/mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: "+
		"*/*\r\nContent-Length: 1000\r\n\r\n{", at)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(line, "408") {
		t.Errorf("%q, %v", line, err)
	}
}

func TestASessionWhoseHostIsSilentEnds(t *testing.T) {
	e := &Endpoint{Loopback: true, Idle: 20 * time.Millisecond,
		Servers: map[string]*Server{"echo": {Start: startStock, Run: pump}}}
	url := serving(t, e) + "/echo/mcp"
	s := raw(t, "POST", url, hello).Header.Get(headerSession)
	eventually(t, "the session has ended", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.sessions) == 0
	})
	if resp := raw(t, "POST", url, ready, headerSession, s); resp.StatusCode != 404 {
		t.Error(resp.Status)
	}
}
