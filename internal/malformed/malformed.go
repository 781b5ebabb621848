package malformed

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Target is a server under test.
type Target struct {
	Addr  string   // HOST:PORT
	Seed  uint64   // seed of the random choices
	Paths []string // paths to request; {NAME} in a path is replaced by a random value of Parts[NAME]
	// Parts has values by NAME. Run also uses values that are invalid for every name.
	Parts map[string][]string
	// Bodies and Kinds are bodies and content types for this server. Run also uses bodies and types that are
	// invalid for every server.
	Bodies, Kinds []string
	// Prepare adds credentials to a request. It may be nil.
	Prepare func(rnd *rand.Rand, r *http.Request)
	// Check returns an error if a response is wrong. If Check is nil, statuses of 500 and above are
	// errors.
	Check func(r *http.Request, status int, body string) error
	// Killed returns the text of a valid request of client i. The client is killed while it sends the request, or
	// before the response.
	Killed func(i int) string
	// Meanwhile is called repeatedly while Run sends requests. It acts as another client, and returns an
	// error if the server does not serve this client.
	Meanwhile func(i int) error
}

var (
	bodies = []string{``, `{`, `}`, `null`, `[]`, `"x"`, `0`, `{"id":1}`, `{"id":"a","id":"b"}`, "{\"content\":\"\xff\"}",
		`{"Content":"x"}`, `{"args":"{}"}`, "\x00\x00", `{"triples":[[[[[]]]]]}`, `{"confidence":1e999}`, `{"x":1} x`}
	kinds = []string{"application/json", "text/plain", "", "application/json; charset", "application/x-protobuf",
		"application/x-www-form-urlencoded", "multipart/form-data", ";;;", "application/xml"}
	headers = [][2]string{{"Authorization", "Bearer"}, {"Authorization", "Bearer \x7f"}, {"ce-specversion", "1.0"},
		{"ce-id", "%zz"}, {"traceparent", "00-zz"}, {"Content-Encoding", "br"}, {"Expect", "100-continue"},
		{"X-Y", strings.Repeat("z", 4000)}, {"Range", "bytes=0-"}, {"Transfer-Encoding", "chunked"}, {"Cookie", "a=\x01"},
		{"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Last-Event-Id", "-1-1"}}
	methods = []string{"POST", "POST", "POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"}
	parts   = []string{"h1", "%00", "..%2f..%2f", strings.Repeat("h", 900), "%ff", "*"}
	queries = []string{"?wait=-1", "?wait=1e9", "?wait=1s&wait=2s", "?%zz", "?a=b;c", "?project=*.>", "/", "/x", "%2e%2e/",
		"?" + strings.Repeat("a=b&", 500)}
)

// Run sends malformed requests and kills clients. It returns how often Meanwhile succeeded.
func (x *Target) Run(t *testing.T, requests, killed int) (meanwhile int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var other, bad sync.WaitGroup
	var served atomic.Int64
	other.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := x.Meanwhile(i); err != nil {
				t.Errorf("the other caller: %v", err)
				return
			}
			served.Add(1)
		}
	})
	const workers = 4
	var answered atomic.Int64
	for w := range workers {
		bad.Go(func() {
			rnd := rand.New(rand.NewPCG(x.Seed, uint64(w)))
			for n := 0; n < requests/workers && !t.Failed(); {
				if x.send(t, rnd) {
					answered.Add(1)
					n++
				}
			}
		})
	}
	for i := range killed {
		bad.Go(func() { x.kill(t, rand.New(rand.NewPCG(x.Seed, uint64(1000+i))), i) })
	}
	bad.Wait()
	cancel()
	other.Wait()
	t.Logf("%d malformed requests were answered, %d clients were killed, the other caller was served %d times",
		answered.Load(), killed, served.Load())
	if served.Load() == 0 {
		t.Error("the other caller was not served")
	}
	return int(served.Load())
}

func pick(rnd *rand.Rand, lists ...[]string) string {
	n := 0
	for _, l := range lists {
		n += len(l)
	}
	n = rnd.IntN(n)
	for _, l := range lists {
		if n < len(l) {
			return l[n]
		}
		n -= len(l)
	}
	return ""
}

// path returns a random path.
func (x *Target) path(rnd *rand.Rand) string {
	path := pick(rnd, x.Paths)
	for {
		before, rest, ok := strings.Cut(path, "{")
		name, after, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			break
		}
		path = before + pick(rnd, parts, x.Parts[name]) + after
	}
	if rnd.IntN(4) == 0 {
		path += pick(rnd, queries)
	}
	return path
}

// send sends one faulty request, and reports whether the server received it.
func (x *Target) send(t *testing.T, rnd *rand.Rand) bool {
	path, method, body := x.path(rnd), pick(rnd, methods), []byte(pick(rnd, bodies, x.Bodies))
	if rnd.IntN(3) == 0 && len(body) > 0 { // a flipped byte
		body[rnd.IntN(len(body))] ^= byte(1 << rnd.IntN(8))
	}
	if method == "GET" || method == "HEAD" {
		body = nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+x.Addr+path, bytes.NewReader(body))
	if err != nil {
		return false // the client refuses to send it
	}
	req.Header.Set("Content-Type", pick(rnd, kinds, x.Kinds))
	if x.Prepare != nil {
		x.Prepare(rnd, req)
	}
	if rnd.IntN(4) == 0 {
		h := headers[rnd.IntN(len(headers))]
		req.Header.Set(h[0], h[1])
	}
	res, err := http.DefaultTransport.RoundTrip(req) // RoundTrip does not follow redirects
	if err != nil {
		if said := err.Error(); t.Context().Err() == nil && !strings.Contains(said, "invalid header") &&
			!strings.Contains(said, "EOF") && !strings.Contains(said, "reset") {
			t.Errorf("%s %s %q: %v", method, path, body, err)
		}
		return false
	}
	defer res.Body.Close()
	var b []byte
	// A stream of events does not end.
	if method != "GET" || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		b, err = io.ReadAll(res.Body)
	}
	if err != nil {
		t.Errorf("%s %s %q: reading the answer: %v", method, path, body, err)
	}
	if x.Check != nil {
		err = x.Check(req, res.StatusCode, string(b))
	} else if res.StatusCode >= 500 {
		err = fmt.Errorf("status %d", res.StatusCode)
	}
	if err != nil {
		t.Errorf("%s %s %q %v: %v: %.400s", method, path, body, req.Header, err, b)
	}
	return true
}

// kill simulates a client that is killed during its request, or before the response.
func (x *Target) kill(t *testing.T, rnd *rand.Rand, i int) {
	c, err := net.DialTimeout("tcp", x.Addr, 10*time.Second)
	if err != nil {
		t.Error(err)
		return
	}
	text := x.Killed(i)
	if i%2 == 0 {
		text = text[:rnd.IntN(len(text))]
	}
	if _, err := c.Write([]byte(text)); err != nil {
		t.Error(err)
	}
	_ = c.(*net.TCPConn).SetLinger(0) // close with a reset, like a killed process
	c.Close()
}

// Post returns the text of a POST request with a JSON body.
func Post(path, body string, header ...string) string {
	var h strings.Builder
	for i := 0; i+1 < len(header); i += 2 {
		h.WriteString(header[i] + ": " + header[i+1] + "\r\n")
	}
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"%sContent-Length: %d\r\n\r\n%s",
		path, h.String(), len(body), body)
}

// Log collects log output. Several goroutines may use it.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// String returns the output so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// NoPanic fails the test if a handler panicked.
func (l *Log) NoPanic(t *testing.T) {
	t.Helper()
	if _, after, ok := strings.Cut(l.String(), "panic"); ok {
		t.Errorf("a handler panicked: %.3000s", after)
	}
}

// Requests returns the number of malformed requests of a test. Short runs, such as those with the race
// detector, send fewer.
func Requests() int {
	if testing.Short() {
		return 1600
	}
	return 10_000
}
