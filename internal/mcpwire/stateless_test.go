package mcpwire

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// modern returns the JSON of a request in the protocol version without sessions.
func modern(id any, method, params string) string {
	if params != "" {
		params = "," + params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":`+
		`"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{}}%s}}`, id, method, params)
}

// text reads a response.
func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestHostsWithoutSessionsShareAServerAndKeepTheirIDsAndProgress(t *testing.T) {
	e, at := echoes(t)
	var heard sync.Map
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			s := speaking(t, at+"/echo/mcp", "2026-07-28", &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context,
				r *mcp.ProgressNotificationClientRequest) {
				heard.Store(fmt.Sprint(i, r.Params.ProgressToken, r.Params.Message), true)
			}})
			if got := s.InitializeResult().ProtocolVersion; got != "2026-07-28" {
				t.Errorf("host %d speaks %s", i, got)
			}
			for n := range 5 {
				p := &mcp.CallToolParams{Name: "echo", Arguments: echoArgs{fmt.Sprintf("<%d-%d>", i, n)}}
				p.SetProgressToken("same")
				if got := call(t, s, p); !strings.Contains(got, fmt.Sprintf("<%d-%d>", i, n)) {
					t.Errorf("host %d heard %q", i, got)
				}
			}
		})
	}
	all.Wait()
	if e.open() != 1 {
		t.Errorf("%d sessions are open", e.open())
	}
	heard.Range(func(k, _ any) bool {
		if s := k.(string); !strings.HasPrefix(s[1:], "same<"+s[:1]+"-") {
			t.Errorf("the progress of another host was heard: %s", s)
		}
		return true
	})
	// An answer must have the id of its request, with the same type.
	for _, id := range []string{`1`, `"1"`, `"x"`} {
		got := text(t, raw(t, "POST", at+"/echo/mcp", modern(id, "tools/list", ""), headerVersion, stateless,
			headerMethod, "tools/list"))
		if !strings.Contains(got, `"id":`+id+`,`) || strings.Contains(got, "id: ") {
			t.Errorf("to request %s: %s", id, got)
		}
	}
}

func TestHeadersWithoutASessionAgreeWithTheBody(t *testing.T) {
	_, at := echoes(t)
	url := at + "/echo/mcp"
	list, echo := modern(1, "tools/list", ""), modern(2, "tools/call", `"name":"echo","arguments":{"text":"x"}`)
	v := []string{headerVersion, stateless}
	with := func(more ...string) []string { return append(append([]string(nil), v...), more...) }
	for _, x := range []struct {
		name, method, body string
		header             []string
		status             int
		want               string
	}{
		{"it fits", "POST", list, with(headerMethod, "tools/list"), 200, `"tools"`},
		{"a session is ignored", "POST", list, with(headerMethod, "tools/list", headerSession, "nobody's"), 200, `"tools"`},
		{"a call", "POST", echo, with(headerMethod, "tools/call", headerName, "echo"), 200, `"x"`},
		{"a name in base64", "POST", echo, with(headerMethod, "tools/call", headerName, "=?base64?ZWNobw==?="), 200, "x"},
		{"no version", "POST", list, []string{headerMethod, "tools/list"}, 400, "-32020"},
		{"another version", "POST", list, []string{headerVersion, "2025-11-25", headerMethod, "tools/list"}, 400, "-32020"},
		{"an unknown version", "POST", strings.ReplaceAll(list, stateless, "2027-01-01"),
			[]string{headerVersion, "2027-01-01", headerMethod, "tools/list"}, 400, `-32022`},
		{"a body without a version", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			with(headerMethod, "tools/list"), 400, "-32020"},
		{"no method", "POST", list, v, 400, "-32020"},
		{"another method", "POST", list, with(headerMethod, "tools/call"), 400, "-32020"},
		{"no name", "POST", echo, with(headerMethod, "tools/call"), 400, "-32020"},
		{"another name", "POST", echo, with(headerMethod, "tools/call", headerName, "ask"), 400, "-32020"},
		{"a name that is not base64", "POST", echo, with(headerMethod, "tools/call", headerName, "=?base64?!?="), 400, "-32020"},
		{"no such method", "POST", modern(3, "no/such", ""), with(headerMethod, "no/such"), 404, "-32601"},
		{"a response", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, v, 400, "-32600"},
		{"a notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, v, 400, "-32600"},
		{"cancelled", "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, v, 202, ""},
		{"a stream", "GET", "", v, 405, ""},
		{"an end", "DELETE", "", v, 405, ""},
	} {
		resp := raw(t, x.method, url, x.body, x.header...)
		if got := text(t, resp); resp.StatusCode != x.status || !strings.Contains(got, x.want) {
			t.Errorf("%s: %s: %s", x.name, resp.Status, got)
		}
	}
}

func TestClosingTheResponseCancelsTheRequest(t *testing.T) {
	begun, ended, over := make(chan bool, 1), make(chan bool, 2), make(chan struct{})
	waiting := func() *mcp.Server {
		s := newServer()
		mcp.AddTool(s, &mcp.Tool{Name: "last"},
			func(ctx context.Context, _ *mcp.CallToolRequest, _ echoArgs) (*mcp.CallToolResult, any, error) {
				begun <- true
				select {
				case <-ctx.Done():
					ended <- true
				case <-over:
				}
				return nil, nil, ctx.Err()
			})
		return s
	}
	start := func() (mcp.Connection, error) {
		down, up := mcp.NewInMemoryTransports()
		if _, err := waiting().Connect(context.Background(), up, nil); err != nil {
			return nil, err
		}
		return down.Connect(context.Background())
	}
	stock := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return waiting() },
		&mcp.StreamableHTTPOptions{Stateless: true})
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// the SDK's server does not stop a tool when the request ends, so this handler reports the end
		if r.Header.Get(headerName) == "last" {
			context.AfterFunc(r.Context(), func() { ended <- true })
		}
		stock.ServeHTTP(w, r)
	}))
	defer far.Close()
	defer close(over)
	u, err := ParseURL(far.URL)
	if err != nil {
		t.Fatal(err)
	}
	remote := &Server{Remote: &Remote{URL: u, Log: slog.New(slog.DiscardHandler)}, Run: pump}
	at := serving(t, &Endpoint{Loopback: true, Servers: map[string]*Server{"near": {Start: start, Run: pump}, "far": remote}})
	for _, name := range []string{"near", "far"} {
		s := speaking(t, at+"/"+name+"/mcp", stateless, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "last", Arguments: echoArgs{}})
			done <- err
		}()
		<-begun
		if got := call(t, s, &mcp.CallToolParams{Name: "echo", Arguments: echoArgs{"x"}}); got != "x" {
			t.Errorf("%s: %q", name, got)
		}
		cancel()
		if err := <-done; err == nil {
			t.Errorf("%s: the call was answered", name)
		}
		<-ended
	}
}

func TestAServerWithSessionsIsReachedBySessions(t *testing.T) {
	starts := 0
	old := &Server{Start: func() (mcp.Connection, error) { starts++; return startStock() },
		Run: func(ctx context.Context, host, server mcp.Connection) error {
			return pump(ctx, host, &ancient{server, make(chan jsonrpc.Message, 1)})
		}}
	at := serving(t, &Endpoint{Loopback: true, Servers: map[string]*Server{"old": old}})
	for range 3 {
		s := speaking(t, at+"/old/mcp", stateless, nil)
		if got := s.InitializeResult().ProtocolVersion; got != "2025-11-25" {
			t.Errorf("they speak %s", got)
		}
		if got := call(t, s, &mcp.CallToolParams{Name: "echo", Arguments: echoArgs{"x"}}); got != "x" {
			t.Errorf("echo: %q", got)
		}
	}
	if starts != 4 {
		t.Errorf("the server was started %d times: once to be asked, and for three sessions", starts)
	}
}

// ancient is a server that does not know the method server/discover.
type ancient struct {
	mcp.Connection
	refused chan jsonrpc.Message
}

func (a *ancient) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "server/discover" {
		a.refused <- &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "unknown"}}
		return nil
	}
	return a.Connection.Write(ctx, m)
}

func (a *ancient) Read(ctx context.Context) (jsonrpc.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type got struct {
		m   jsonrpc.Message
		err error
	}
	next := make(chan got, 1)
	go func() {
		m, err := a.Connection.Read(ctx)
		next <- got{m, err}
	}()
	select {
	case m := <-a.refused:
		return m, nil
	case g := <-next:
		return g.m, g.err
	}
}

func TestArgumentsAreRepeatedInHeaders(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},` +
		`"n":{"type":"integer","x-mcp-header":"N"},"deep":{"type":"object","properties":{"b":{"type":"boolean",` +
		`"x-mcp-header":"B"}}}}}`)
	far := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		s := newServer()
		s.AddTool(&mcp.Tool{Name: "query", InputSchema: schema},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				h := r.Extra.Header
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Join([]string{
					h.Get("Mcp-Param-Region"), h.Get("Mcp-Param-N"), h.Get("Mcp-Param-B")}, "|")}}}, nil
			})
		return s
	}, &mcp.StreamableHTTPOptions{Stateless: true}))
	defer far.Close()
	u, err := ParseURL(far.URL)
	if err != nil {
		t.Fatal(err)
	}
	at := serving(t, &Endpoint{Loopback: true, Servers: map[string]*Server{
		"far": {Remote: &Remote{URL: u, Log: slog.New(slog.DiscardHandler)}, Run: pump}}})
	s := speaking(t, at+"/far/mcp", stateless, nil)
	if _, err := s.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	// The SDK's server refuses a call whose headers differ from its arguments. So if the call succeeds, the connection
	// has set the headers correctly.
	for args, want := range map[string]string{
		`{"region":"us-west1","n":42,"deep":{"b":true}}`: "us-west1|42|true",
		`{"region":"Hello, 世界","n":null}`:                "=?base64?SGVsbG8sIOS4lueVjA==?=||",
		`{"region":" padded "}`:                          "=?base64?IHBhZGRlZCA=?=||",
		`{"region":"=?base64?literal?="}`:                "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=||",
		`{}`:                                             "||",
	} {
		if got := call(t, s, &mcp.CallToolParams{Name: "query", Arguments: json.RawMessage(args)}); got != want {
			t.Errorf("%s: the server got %q", args, got)
		}
	}
	body := modern(1, "tools/call", `"name":"query","arguments":{"region":"us","n":42}`)
	base := []string{headerVersion, stateless, headerMethod, "tools/call", headerName, "query"}
	for _, x := range []struct {
		header []string
		status int
	}{
		{[]string{"Mcp-Param-Region", "us", "Mcp-Param-N", "42"}, 200},
		{[]string{"mcp-param-region", "=?base64?dXM=?=", "Mcp-Param-N", "42.0"}, 200},
		{[]string{"Mcp-Param-Region", "us", "Mcp-Param-N", "42", "Mcp-Param-Other", "x"}, 200},
		{[]string{"Mcp-Param-Region", "us"}, 400},
		{[]string{"Mcp-Param-Region", "eu", "Mcp-Param-N", "42"}, 400},
		{[]string{"Mcp-Param-Region", "us|us", "Mcp-Param-N", "42"}, 400},
		{[]string{"Mcp-Param-Region", "us", "Mcp-Param-N", "42", "Mcp-Param-B", "true"}, 400},
	} {
		resp := raw(t, "POST", at+"/far/mcp", body, append(base[:6:6], x.header...)...)
		if got := text(t, resp); resp.StatusCode != x.status || x.status == 400 && !strings.Contains(got, "-32020") {
			t.Errorf("%v: %s: %s", x.header, resp.Status, got)
		}
	}
}

func TestInvalidHeadersOfAToolAreIgnored(t *testing.T) {
	for _, schema := range []string{
		`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nHost: x"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`,
		`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`,
		`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`,
		`{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`, `true`, `[]`, ``,
	} {
		var found []paramHeader
		if annotated(json.RawMessage(schema), nil, &found) && len(found) > 0 {
			t.Errorf("%s: %v", schema, found)
		}
	}
}

func TestAListeningHostHearsTheNotificationsThatItAskedFor(t *testing.T) {
	server := newServer()
	run := make(chan mcp.Connection, 1)
	at := serving(t, &Endpoint{Loopback: true, Servers: map[string]*Server{"echo": {
		Start: func() (mcp.Connection, error) {
			down, up := mcp.NewInMemoryTransports()
			if _, err := server.Connect(context.Background(), up, nil); err != nil {
				return nil, err
			}
			return down.Connect(context.Background())
		},
		Run: func(ctx context.Context, host, server mcp.Connection) error {
			run <- host
			return pump(ctx, host, server)
		}}}})
	listen := func(id, wants string) *bufio.Scanner {
		resp := raw(t, "POST", at+"/echo/mcp", modern(id, "subscriptions/listen", `"notifications":`+wants),
			headerVersion, stateless, headerMethod, "subscriptions/listen")
		if resp.StatusCode != 200 {
			t.Fatal(resp.Status, text(t, resp))
		}
		return bufio.NewScanner(resp.Body)
	}
	next := func(s *bufio.Scanner, want ...string) {
		t.Helper()
		for s.Scan() {
			if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				for _, w := range want {
					if !strings.Contains(data, w) {
						t.Errorf("%s has no %s", data, w)
					}
				}
				return
			}
		}
		t.Errorf("the stream ended before %v", want)
	}
	tools := listen(`"mine"`, `{"toolsListChanged":true}`)
	next(tools, "subscriptions/acknowledged", `subscriptionId":"mine"`)
	mcp.AddTool(server, &mcp.Tool{Name: "more"},
		func(context.Context, *mcp.CallToolRequest, echoArgs) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{}, nil, nil
		})
	next(tools, "notifications/tools/list_changed", `subscriptionId":"mine"`)
	// The proxy's own notification names no subscription.
	host := <-run
	if err := host.Write(t.Context(), &jsonrpc.Request{Method: "notifications/tools/list_changed"}); err != nil {
		t.Fatal(err)
	}
	next(tools, "notifications/tools/list_changed", `subscriptionId":"mine"`)
}

func TestARefusedAuthorizationIsSaidWithoutASession(t *testing.T) {
	one := newGuarded(t, "Bearer right")
	at := serving(t, &Endpoint{Loopback: true, Servers: map[string]*Server{"one": one.remote(t)}})
	resp := raw(t, "POST", at+"/one/mcp", modern(1, "tools/list", ""), headerVersion, stateless, headerMethod, "tools/list",
		headerAuth, "Bearer wrong")
	if resp.StatusCode != 401 || !strings.Contains(resp.Header.Get("WWW-Authenticate"), at+wellKnown+"/one/mcp") {
		t.Errorf("%s, %v: %s", resp.Status, resp.Header, text(t, resp))
	}
}
