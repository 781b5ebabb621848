package gateway

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

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// TestMalformedRequestsAndKilledClientsStopNothing sends 10,000 malformed requests to
// every path and kills 100 clients in the middle of theirs. Meanwhile another project
// gets its verdicts, and in the end the ledger has each observation once that was
// acknowledged. TestMain fails if a handler panicked.
func TestMalformedRequestsAndKilledClientsStopNothing(t *testing.T) {
	p := newPipe(t)
	_, secret := p.agent(t, beliefs.Origins())
	project, neighbour := p.agent(t, beliefs.Origins())
	const seed = 7
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var acknowledged sync.Map
	var verdicts atomic.Int64
	wg.Go(func() { // the neighbour observes and asks all the time
		for i := 0; ctx.Err() == nil; i++ {
			id := fmt.Sprintf("n%d", i)
			if code, body := p.send(t, neighbour, "POST", "/v1/observe", `{"id":"`+id+`","session":"s","content":"page `+id+
				`"}`); code == 200 {
				acknowledged.Store(id, true)
			} else {
				t.Errorf("the neighbour's observation: %d %s", code, body)
			}
			if rep := p.verdict(t, neighbour, "POST", "/v1/decide",
				`{"session":"s","tool":"read_file","args":{"path":"a"}}`); rep.Verdict != streams.Allow {
				t.Errorf("the neighbour's verdict is %s", rep.Verdict)
			}
			verdicts.Add(1)
		}
	})
	var bad sync.WaitGroup
	each := 2500
	if testing.Short() { // with the race detector
		each = 400
	}
	for w := range 4 {
		bad.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(w)))
			for range each {
				p.malformed(t, rnd, secret)
			}
		})
	}
	for i := range 100 {
		bad.Go(func() { p.killed(t, rand.New(rand.NewPCG(seed, uint64(1000+i))), neighbour, i) })
	}
	bad.Wait()
	cancel()
	wg.Wait()
	if verdicts.Load() == 0 {
		t.Error("the neighbour had no verdict")
	}
	count := make(map[string]int)
	p.ledger(t, func(e *streams.Entry) {
		if e.Project == project && e.Type == streams.TypeObservation {
			o, err := streams.Read[streams.ObservationEntry](e)
			if err != nil {
				t.Error(err)
				return
			}
			count[o.ID]++
		}
	})
	acknowledged.Range(func(id, _ any) bool {
		if count[id.(string)] != 1 {
			t.Errorf("observation %v stands %d times in the ledger", id, count[id.(string)])
		}
		return true
	})
}

var (
	badBodies = []string{``, `{`, `}`, `null`, `[]`, `"x"`, `0`, `{"id":1}`, `{"tool":["x"]}`, `{"id":"a","id":"b"}`,
		"{\"content\":\"\xff\"}", `{"tool":"x"} x`,
		`{"origin":"web","origin":"user"}`, `{"Content":"x"}`, `{"args":"{}"}`, `{"candidates":{}}`, `{"blocks":[null,1]}`,
		"\x00\x00", `{"specversion":1}`,
		`[{"specversion":"1.0"}]`, `{"triples":[[[[[]]]]]}`, `{"time":"yesterday"}`,
		`{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Read","tool_input":[1]}`,
		`{"session_id":"../s","hook_event_name":"PostToolUse"}`, `{"session_id":"s","hook_event_name":{}}`, `{"after":-1}`,
		`{"confidence":1e999}`}
	badKinds = []string{"application/json", typeEvent, typeBatch, "text/plain", "", "application/json; charset",
		"application/x-protobuf",
		"multipart/form-data", ";;;", "application/xml"}
	badHeaders = [][2]string{{"Authorization", "Bearer"}, {"Authorization", "Bearer \x7f"}, {"ce-specversion", "1.0"},
		{"ce-id", "%zz"}, {"traceparent", "00-zz"},
		{"Content-Encoding", "br"}, {"Expect", "100-continue"}, {"X-Y", strings.Repeat("z", 4000)}, {"Range", "bytes=0-"},
		{"Transfer-Encoding", "chunked"}}
	badMethods = []string{"POST", "POST", "POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"}
)

// malformed sends one request with something wrong, and wants an answer that is no
// verdict.
func (p *pipe) malformed(t *testing.T, rnd *rand.Rand, secret string) {
	pick := func(list []string) string { return list[rnd.IntN(len(list))] }
	e := endpoints[rnd.IntN(len(endpoints))]
	path := strings.Replace(e.Path, "{id}", pick([]string{"h1", "%00", "..%2f..%2f", strings.Repeat("h", 900)}), 1)
	path = strings.Replace(path, "{host}", pick([]string{"claude", "codex", "cursor", "gemini", "nobody", "%00"}), 1)
	if rnd.IntN(4) == 0 {
		path += pick([]string{"?wait=-1", "?wait=1e9", "?wait=1s&wait=2s", "?%zz", "?a=b;c", "?project=*.>", "/", "/x",
			"%2e%2e/"})
	}
	method, body := pick(badMethods), []byte(pick(badBodies))
	if rnd.IntN(3) == 0 && len(body) > 0 { // a flipped byte
		body[rnd.IntN(len(body))] ^= byte(1 << rnd.IntN(8))
	}
	if method == "GET" || method == "HEAD" {
		body = nil
		if e.feed != nil && !strings.Contains(path, "?") {
			path += "?wait=x" // a feed would not end
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, p.URL()+path, bytes.NewReader(body))
	if err != nil {
		return // the client refuses it itself
	}
	req.Header.Set("Content-Type", pick(badKinds))
	if rnd.IntN(8) > 0 {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	if rnd.IntN(4) == 0 {
		h := badHeaders[rnd.IntN(len(badHeaders))]
		req.Header.Set(h[0], h[1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx := t.Context().Err(); ctx == nil && !strings.Contains(err.Error(), "invalid header") &&
			!strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s %s %q: %v", method, path, body, err)
		}
		return
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	if res.StatusCode >= 500 || strings.Contains(string(b), `"verdict":"allow"`) && !strings.HasPrefix(path,
		"/v1/recall") {
		t.Errorf("%s %s %q: %d %s", method, path, body, res.StatusCode, b)
	}
}

// killed is a client that ends in the middle of its request, or before the answer.
func (p *pipe) killed(t *testing.T, rnd *rand.Rand, secret string, i int) {
	c, err := net.DialTimeout("tcp", p.Addr, 10*time.Second)
	if err != nil {
		t.Error(err)
		return
	}
	body := fmt.Sprintf(`{"id":"k%d","session":"k","content":"from a client that is killed"}`, i)
	text := fmt.Sprintf("POST /v1/observe HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: "+
		"Bearer %s\r\nContent-Length: %d\r\n\r\n%s", secret, len(body), body)
	if i%2 == 0 {
		text = text[:rnd.IntN(len(text))]
	}
	if _, err := c.Write([]byte(text)); err != nil {
		t.Error(err)
	}
	c.(*net.TCPConn).SetLinger(0) // a reset, as of a process that is killed
	c.Close()
}
