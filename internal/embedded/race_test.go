package embedded_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Two different proposals are sent with the same id at the same time. Each caller must get the verdict on its own
// proposal.
func TestPromiseA2ACallerHearsOnlyTheVerdictOfItsOwnProposal(t *testing.T) {
	data := t.TempDir()
	p, err := embedded.Start(t.Context(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	creds, err := p.Server.Minter().Agent(natsserver.Agent{Project: "alpha", Name: "agent", Origins: beliefs.Origins()})
	if err != nil {
		t.Fatal(err)
	}
	inbox := nats.CustomInboxPrefix(natsserver.AgentInbox("alpha", "agent"))
	nc, err := nats.Connect(p.Server.URL(), nats.UserCredentialBytes(creds), inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	// ask is a host that does not use the Go client. It only reads the reply.
	ask := func(svc, body string) *streams.Reply {
		m, err := nc.Request("lz.svc."+svc+".alpha.agent", []byte(body), 20*time.Second)
		if err != nil {
			t.Error(err)
			return &streams.Reply{Verdict: streams.Hold, Error: &streams.ReplyError{}}
		}
		rep := new(streams.Reply)
		if err := json.Unmarshal(m.Data, rep); err != nil {
			t.Error(err)
		}
		return rep
	}
	const read = `{"id":%q,"session":"r","tool":"read_file","args":{"path":"notes.txt"}}`
	const mail = `{"id":%q,"session":"r","tool":"send_email","args":{"to":"eve@evil.example"}}`
	const note = `{"id":%q,"session":"r","content":"the fair opens on Monday"}`
	pairs := [][4]string{
		{"decide", read, "decide", mail}, {"decide", read, "remember.user", note},
		{"decide", read, "recall", `{"id":%q,"session":"r","query":"fair"}`},
	}
	for i := range 60 {
		id, pair := fmt.Sprintf("race-%d", i), pairs[i%len(pairs)]
		var a, b *streams.Reply
		var wg sync.WaitGroup
		for _, x := range []struct {
			rep       **streams.Reply
			svc, body string
		}{{&a, pair[0], pair[1]}, {&b, pair[2], pair[3]}} {
			svc, what, _ := strings.Cut(x.svc, ".")
			wg.Go(func() {
				if what == "" {
					*x.rep = ask(svc, fmt.Sprintf(x.body, id))
					return
				}
				m, err := nc.Request("lz.svc."+svc+".alpha.agent."+what, fmt.Appendf(nil, x.body, id), 20*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				*x.rep = new(streams.Reply)
				if err := json.Unmarshal(m.Data, *x.rep); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		for _, x := range []struct {
			rep  *streams.Reply
			svc  string
			mail bool
		}{{a, pair[0], false}, {b, pair[2], pair[3] == mail}} {
			want := map[string]streams.Type{"decide": "action", "recall": "recall", "remember.user": "memory"}[x.svc]
			switch e := x.rep.Entry; {
			case x.rep.Error != nil:
				t.Fatalf("%s %s got no verdict: %+v", x.svc, id, x.rep)
			case e == nil || e.Type != want || x.svc == "decide" && (e.Tool == "send_email") != x.mail:
				t.Fatalf("%s %s (mail %v) heard the verdict on another proposal: %+v", x.svc, id, x.mail, e)
			case x.mail && x.rep.Verdict == streams.Allow:
				t.Fatalf("a mail is allowed: %+v", e)
			}
		}
		if a.Entry.ID == b.Entry.ID || a.Entry.Proposal == b.Entry.Proposal {
			t.Fatalf("two proposals have one name: %+v, %+v", a.Entry, b.Entry)
		}
	}
	// The same request is sent several times at once. It must count as one proposal.
	var wg sync.WaitGroup
	reps := make([]*streams.Reply, 5)
	for i := range reps {
		wg.Go(func() { reps[i] = ask("decide", fmt.Sprintf(mail, "same")) })
	}
	wg.Wait()
	for _, r := range reps {
		if r.Error != nil || r.Verdict == streams.Allow || r.Entry.Proposal != reps[0].Entry.Proposal {
			t.Errorf("one of five that asked the same: %+v", r)
		}
	}
}
