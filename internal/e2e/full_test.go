package e2e

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/client"
	"lazaret/internal/embedded"
	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/streams"
)

// shrink bounds a stream to what it holds now.
func (p *pipeline) shrink(srv *embedded.Pipeline, name string, bytes func(used uint64) int64) {
	p.t.Helper()
	nc, err := srv.Server.Connect(natsserver.RoleSetup)
	if err != nil {
		p.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		p.t.Fatal(err)
	}
	st, err := js.Stream(p.ctx, name)
	if err != nil {
		p.t.Fatal(err)
	}
	cfg := st.CachedInfo().Config
	cfg.MaxBytes = bytes(st.CachedInfo().State.Bytes)
	if _, err := js.UpdateStream(p.ctx, cfg); err != nil {
		p.t.Fatal(err)
	}
}

// What cannot be journaled is answered with an error and hold, and answered
// under the same id once there is room.
func TestAFullLedgerIsAnErrorAndNotSilence(t *testing.T) {
	p, srv := startPipeline(t, embedded.Config{AnswerTimeout: 3 * time.Second})
	if v := p.decide(read("s")); v.Verdict != streams.Allow {
		t.Fatalf("%+v", v)
	}
	p.shrink(srv, streams.LedgerStream, func(used uint64) int64 { return int64(used) })
	a := &streams.Action{Head: streams.Head{ID: "waits", Session: "s"}, Tool: "read_file"}
	began := time.Now()
	_, err := p.c.Decide(p.ctx, a)
	var le *client.Error
	if !errors.As(err, &le) || le.Code != streams.CodeTimeout {
		t.Fatalf("with a full ledger: %v", err)
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("it took %v to say so", d)
	}
	m, err := p.agent.Request("lz.svc.decide.demo.agent", []byte(`{"id":"waits","session":"s","tool":"read_file"}`), 20*time.Second)
	if err != nil || m.Header.Get("Nats-Service-Error-Code") != string(streams.CodeTimeout) || !strings.Contains(string(m.Data), `"verdict":"hold"`) {
		t.Errorf("the raw answer is %v, %v", m, err)
	}
	p.shrink(srv, streams.LedgerStream, func(uint64) int64 { return -1 })
	var v *streams.Reply
	natstest.Eventually(t, 40*time.Second, "a verdict once there is room", func() bool {
		v, err = p.c.Decide(p.ctx, a)
		return err == nil
	})
	if v.Verdict != streams.Allow {
		t.Errorf("%+v", v.Entry)
	}
	if n := p.proposals("waits"); n != 1 {
		t.Errorf("%d proposals of one id", n)
	}
}

func TestAFullIntakeIsAnErrorAndNotSilence(t *testing.T) {
	p, srv := startPipeline(t, embedded.Config{})
	if v := p.decide(read("s")); v.Verdict != streams.Allow {
		t.Fatalf("%+v", v)
	}
	p.shrink(srv, streams.IntakeStream, func(uint64) int64 { return 1 })
	_, err := p.c.Decide(p.ctx, &streams.Action{Head: streams.Head{ID: "refused", Session: "s"}, Tool: "read_file"})
	var le *client.Error
	if !errors.As(err, &le) || le.Code != streams.CodeIntakeFull {
		t.Fatalf("with a full intake: %v", err)
	}
	p.shrink(srv, streams.IntakeStream, func(uint64) int64 { return streams.IntakeBytes })
	rep, err := p.c.Decide(p.ctx, &streams.Action{Head: streams.Head{ID: "refused", Session: "s"}, Tool: "read_file"})
	if err != nil || rep.Verdict != streams.Allow || rep.Entry.Again {
		t.Errorf("once there is room: %+v, %v", rep, err)
	}
	if n := p.proposals("refused"); n != 1 {
		t.Errorf("%d proposals of one id", n)
	}
}

// proposals counts the action entries of an id.
func (p *pipeline) proposals(id string) (n int) {
	for _, e := range p.entries(streams.TypeAction) {
		var a streams.ActionEntry
		if err := streams.Unmarshal(e.Body, &a); err != nil {
			p.t.Fatal(err)
		}
		if a.ID == id {
			n++
		}
	}
	return n
}
