package embedded_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// raw is a client with an implementation of the NATS protocol of its own. So the headers and bodies of its messages can
// have any bytes.
type raw struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

// dialRaw connects with a credential.
func dialRaw(t testing.TB, url string, creds []byte) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &raw{t, conn, bufio.NewReader(conn)}
	var info struct {
		Nonce string `json:"nonce"`
	}
	line := c.line()
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		t.Fatal(err)
	}
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		t.Fatal(err)
	}
	key, err := jwt.ParseDecoratedNKey(creds)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := key.Sign([]byte(info.Nonce))
	if err != nil {
		t.Fatal(err)
	}
	hello, err := json.Marshal(map[string]any{"jwt": token, "sig": base64.RawURLEncoding.EncodeToString(sig),
		"headers": true, "no_responders": true, "verbose": false, "protocol": 1})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "CONNECT %s\r\nPING\r\n", hello)
	for line = c.line(); line != "PONG"; line = c.line() {
		if strings.HasPrefix(line, "-ERR") {
			t.Fatal(line)
		}
	}
	return c
}

func (c *raw) line() string {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	s, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimRight(s, "\r\n")
}

// publish sends a message and returns when the server has accepted it. header has the bytes of the headers. It may be
// empty.
func (c *raw) publish(subject string, header, body []byte) {
	c.t.Helper()
	if len(header) == 0 {
		fmt.Fprintf(c.conn, "PUB %s %d\r\n%s\r\nPING\r\n", subject, len(body), body)
	} else {
		fmt.Fprintf(c.conn, "HPUB %s %d %d\r\n%s%s\r\nPING\r\n", subject, len(header), len(header)+len(body), header, body)
	}
	for line := c.line(); line != "PONG"; line = c.line() {
		switch {
		case line == "PING":
			fmt.Fprint(c.conn, "PONG\r\n")
		case strings.HasPrefix(line, "-ERR"):
			c.t.Fatal(line)
		}
	}
}

// outsider is a party that may publish to a subject from which stages read.
type outsider struct {
	name     string
	subjects []string
	creds    func(m *natsserver.Minter) ([]byte, error)
}

// outsiders returns the parties from which the stages read messages: retention, a third-party sentinel group, operators
// and an agent.
func outsiders() []*outsider {
	role := func(r natsserver.Role, subjects ...string) *outsider {
		return &outsider{string(r), subjects, func(m *natsserver.Minter) ([]byte, error) { return m.Role(r) }}
	}
	demo, judge := streams.PartitionOf("demo"), streams.SentinelStage("judge")
	return []*outsider{
		role(natsserver.RoleRetention, streams.LedgerSubject(0, streams.StageRetention),
			streams.LedgerSubject(demo, streams.StageRetention), "lz.ledger.99.retention"),
		role(natsserver.Role(judge), streams.LedgerSubject(demo, judge), "lz.ledger.x."+judge),
		role(natsserver.RoleOperator, streams.ControlSubject(demo), "lz.ctl.99"),
		{"agent", []string{"lz.in.demo.other.obs.web", "lz.in.demo.other.act"}, func(m *natsserver.Minter) ([]byte, error) {
			return m.Agent(natsserver.Agent{Project: "demo", Name: "other", Origins: beliefs.Origins()})
		}},
	}
}

func (o *outsider) dial(t testing.TB, p *embedded.Pipeline) *raw {
	t.Helper()
	creds, err := o.creds(p.Server.Minter())
	if err != nil {
		t.Fatal(err)
	}
	return dialRaw(t, p.Server.URL(), creds)
}

// entryHeader returns the headers of a ledger entry of a type.
func entryHeader(typ streams.Type) string {
	return fmt.Sprintf("NATS/1.0\r\nLz-Type: %s\r\nLz-Project: demo\r\nLz-Src: 1\r\nLz-Salt: %032d\r\n\r\n", typ, 0)
}

// hostile returns pairs of headers and bodies that the pipeline itself never writes.
func hostile() [][2]string {
	out := [][2]string{
		{"", ""}, {"", "no JSON"}, {"", `{"trimmed":18446744073709551615}`}, {"", `{"id":1}`}, {"", "\xff\xfe"},
		{"NATS/1.0 409 Consumer Deleted\r\n\r\n", ""}, {"NATS/1.0 404 No Messages\r\n\r\n", ""}, {"NATS/1.0 503\r\n\r\n", ""},
		{"NATS/1.0\r\nStatus: 400\r\nDescription: Bad Request\r\n\r\n", ""},
		{"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 1\r\n\r\n", ""},
		{"NATS/1.0\r\nno colon\r\n\r\n", "{}"}, {"\x00\x01", "{}"}, {"NATS/1.0\r\nLz-Src: x\r\n\r\n", "{}"},
	}
	for _, typ := range []streams.Type{streams.TypeTrim, streams.TypeTrimmed, streams.TypeAlerts, streams.TypeAssessment,
		streams.TypeForgotten, streams.TypeErased, "nonsense"} {
		for _, body := range []string{"", "no JSON", "[]", "{}",
			`{"id":"a","up_to":18446744073709551615,"trimmed":18446744073709551615}`,
			`{"id":"b","up_to":1099511627776,"trimmed":1099511627776}`, `{"id":"c","up_to":2,"trimmed":2}`,
			`{"verdict":"allow","alerts":[{"time":"9999-12-31T23:59:59-12:00","severity":"critical","mode":"enforce","rule":"\u0000","subject":{"kind":"belief","id":""}}]}`} {
			out = append(out, [2]string{entryHeader(typ), body})
		}
	}
	return out
}

// asks requests verdicts; each must arrive.
type asks struct {
	t testing.TB
	c *client.Client
}

var asked atomic.Int64

func (a asks) decide(after string) {
	a.t.Helper()
	act := &streams.Action{Head: streams.Head{ID: fmt.Sprint("asked-", asked.Add(1)), Session: "s"}, Tool: "read_file",
		Args: []byte(`{"path":"notes.txt"}`)}
	if rep, err := a.c.Decide(a.t.Context(), act); err != nil {
		a.t.Fatalf("after %s: %+v, %v", after, rep, err)
	}
}

func upForeign(t testing.TB, data string) *embedded.Pipeline {
	t.Helper()
	p, err := embedded.Start(context.Background(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true,
		AnswerTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Parties with other credentials publish hostile messages to the subjects from which stages read. No such message may
// stop a stage or prevent its restart.
func TestPromiseC22NoForeignMessageStopsAStage(t *testing.T) {
	long(t)
	data := t.TempDir()
	for range 2 {
		p := upForeign(t, data)
		a := asks{t, agent(t, p, data, "demo")}
		a.decide("the start")
		for _, o := range outsiders() {
			conn := o.dial(t, p)
			for _, subject := range o.subjects {
				for _, h := range hostile() {
					conn.publish(subject, []byte(h[0]), []byte(h[1]))
					a.decide(fmt.Sprintf("%s wrote %q %q to %s", o.name, h[0], h[1], subject))
				}
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// lasting is a testing.TB that runs its cleanups when end is called. Fuzzing uses it to run many inputs with the same
// pipeline and connections.
type lasting struct {
	testing.TB
	ends *[]func()
}

func (l lasting) Cleanup(f func()) { *l.ends = append(*l.ends, f) }

// FuzzForeignSubjects publishes any bytes as retention, as a third-party sentinel group, as an operator or as an agent.
// The pipeline must still answer after that, and sometimes after a restart too.
func FuzzForeignSubjects(f *testing.F) {
	for i, h := range hostile() {
		f.Add(uint8(i), []byte(h[0]), []byte(h[1]))
	}
	data, others, tried := f.TempDir(), outsiders(), 0
	var p *embedded.Pipeline
	var conns []*raw
	var asker *client.Client
	var ends []func()
	up := func(t testing.TB) {
		t = lasting{t, &ends}
		p, conns = upForeign(t, data), nil
		for _, o := range others {
			conns = append(conns, o.dial(t, p))
		}
		asker = agent(t, p, data, "demo")
	}
	down := func(t testing.TB) {
		for _, end := range ends {
			end()
		}
		ends = nil
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	up(f)
	f.Cleanup(func() { down(f) })
	f.Fuzz(func(t *testing.T, which uint8, header, body []byte) {
		if len(header) > 60<<10 {
			return // the server accepts no more messages
		}
		if tried++; tried%2000 == 0 {
			down(t)
			up(t)
		}
		o, conn := others[int(which)%len(others)], conns[int(which)%len(others)]
		conn.t = t
		subject := o.subjects[int(which)/len(others)%len(o.subjects)]
		conn.publish(subject, header, body)
		asks{t, asker}.decide(fmt.Sprintf("%s wrote %q %q to %s", o.name, header, body, subject))
	})
}
