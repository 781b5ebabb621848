package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/datafolder"
	"lazaret/internal/embedded"
	"lazaret/internal/malformed"
	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
	"lazaret/internal/token"
	"lazaret/pkg/approval"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// pipe is a pipeline with a gateway. The tests of this package share one.
type pipe struct {
	*embedded.Pipeline
	*Gateway
	data, dir string
	log       *malformed.Log // of the gateway and of net/http
	signer    func() note.Signer
	names     int
	mu        sync.Mutex // guards names
}

var started *pipe // set by shared

var shared = sync.OnceValues(func() (*pipe, error) {
	dir, err := os.MkdirTemp("", "gateway-")
	if err != nil {
		return nil, err
	}
	p := &pipe{data: dir + "/data", dir: dir, log: new(malformed.Log)}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if p.Pipeline, err = embedded.Start(ctx, embedded.Config{Data: p.data, Listen: "127.0.0.1:0",
		NoSync: true}); err != nil {
		return nil, err
	}
	p.signer = sync.OnceValue(func() note.Signer { return p.approver(ctx) })
	p.signer()
	started = p
	p.Gateway, err = Start(Config{Data: p.data, Listen: "127.0.0.1:0",
		Log: slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Dial: p.Server.Dial})
	return p, err
})

// dial connects as a gateway apart from the server does.
func (p *pipe) dial(name string, opts ...nats.Option) (*nats.Conn, error) {
	file := natsfiles.Creds(p.data, name)
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return nats.Connect(p.Server.URL(), append(opts, nats.UserCredentials(file),
		nats.CustomInboxPrefix(natsfiles.Inbox(b)))...)
}

func TestMain(m *testing.M) {
	code := m.Run()
	if p := started; p != nil {
		p.Gateway.Close()
		p.Pipeline.Close()
		if out := p.log.String(); strings.Contains(out, "panic") {
			fmt.Println("a handler panicked:\n" + out)
			code = 1
		}
		os.RemoveAll(p.dir)
	}
	os.Exit(code)
}

func newPipe(t *testing.T) *pipe {
	t.Helper()
	p, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// approver makes a key that may approve holds.
func (p *pipe) approver(ctx context.Context) note.Signer {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	trust, err := keys.LoadTrust(datafolder.TrustFile(p.data))
	must(err)
	private, public, err := keys.Generate("alice")
	must(err)
	must(trust.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleApprover}}))
	signer, err := note.NewSigner(private)
	must(err)
	b, err := trust.Marshal()
	must(err)
	operator, err := keys.LoadSigner(datafolder.OperatorKey(p.data))
	must(err)
	op, err := p.Server.Connect(natsserver.RoleOperator)
	must(err)
	defer op.Close()
	must(embedded.Activate(ctx, op, operator, streams.DoActivateTrust, b))
	must(embedded.AwaitTrust(ctx, op, streams.Digest(b)))
	return signer
}

// approve releases the hold of an action of a project.
func (p *pipe) approve(t *testing.T, project string, v *streams.VerdictEntry) {
	t.Helper()
	s := &approval.Statement{Version: approval.Version, Project: project, Hold: v.Hold.ID, Revision: v.Hold.Revision,
		Action:   v.Digest,
		Decision: approval.Approve, Expires: time.Now().UTC().Add(10 * time.Minute).Truncate(time.Second),
		Nonce: approval.NewNonce()}
	text, err := s.Sign(p.signer())
	if err != nil {
		t.Fatal(err)
	}
	subject, err := streams.ResolveSubject(project, v.Hold.ID)
	if err != nil {
		t.Fatal(err)
	}
	body, err := streams.Marshal(streams.ResolveRequest{Note: string(text)})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := p.Server.Connect(natsserver.RoleApprover)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m, err := nc.Request(subject, body, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	rep := new(streams.ResolveReply)
	if err := streams.Unmarshal(m.Data, rep); err != nil || rep.Error != nil {
		t.Fatalf("%s, %v", m.Data, err)
	}
}

// agent creates a project with a credential, and a token for it.
func (p *pipe) agent(t *testing.T, origins []beliefs.Origin, kinds ...streams.Kind) (project, secret string) {
	t.Helper()
	p.mu.Lock()
	p.names++
	project = fmt.Sprintf("p%d", p.names)
	p.mu.Unlock()
	return project, p.agentIn(t, project, "bot", origins, kinds...)
}

// agentIn returns the token of a new agent of a project.
func (p *pipe) agentIn(t *testing.T, project, name string, origins []beliefs.Origin, kinds ...streams.Kind) string {
	t.Helper()
	g := natsserver.Grant{Name: project + "." + name, Agent: &natsserver.Agent{Project: project, Name: name,
		Origins: origins, Kinds: kinds}, Lasts: time.Hour}
	if err := p.Server.Minter().Install(g, p.Server.URL(), false); err != nil {
		t.Fatal(err)
	}
	return p.token(t, g.Name)
}

func (p *pipe) token(t *testing.T, credential string) string {
	t.Helper()
	secret, _, err := token.New(p.data, credential, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// send sends a request, validates the answer against the document, and returns it.
func (p *pipe) send(t *testing.T, secret, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var r io.Reader
	if method == "POST" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.URL()+path, r)
	if err != nil {
		t.Fatal(err)
	}
	if method == "POST" {
		req.Header.Set("Content-Type", "application/json")
	}
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	at, _, _ := strings.Cut(path, "?")
	if strings.HasPrefix(at, "/v1/holds/") {
		at = "/v1/holds/{id}"
	}
	if req.Header.Get("Content-Type") != typeBatch {
		described(t, method, at, res.StatusCode, b)
	}
	if kind := res.Header.Get("Content-Type"); (res.StatusCode == 200) != (kind == "application/json") ||
		(res.StatusCode != 200) != (kind == "application/problem+json") {
		t.Errorf("%s %s: %d as %s", method, path, res.StatusCode, kind)
	}
	return res.StatusCode, string(b)
}

// verdict sends a request whose answer must be a verdict.
func (p *pipe) verdict(t *testing.T, secret, method, path, body string, headers ...string) *streams.Reply {
	t.Helper()
	code, b := p.send(t, secret, method, path, body, headers...)
	rep := new(streams.Reply)
	if err := streams.Unmarshal([]byte(b), rep); err != nil || code != 200 {
		t.Fatalf("%s %s: %d %s, %v", method, path, code, b, err)
	}
	return rep
}
