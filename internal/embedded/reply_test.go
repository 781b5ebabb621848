package embedded_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/arbiter"
	"lazaret/internal/embedded"
	"lazaret/internal/embedded/embeddedtest"
	"lazaret/internal/natsserver"
	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/internal/status"
	"lazaret/streams"
)

// lines is a log to which several goroutines may write at the same time.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

// internalSubjects returns the subjects on which processes of the pipeline, or nats-server itself, receive requests.
func internalSubjects() []string {
	out := []string{streams.EraseSubject, streams.StatusSubject, "lz.svc.resolve.demo.h", "lz.svc.prove.demo.agent",
		"$SRV.PING", "$SRV.INFO", "$SRV.STATS", "$JS.API.INFO"}
	for _, s := range []streams.Service{streams.SvcDecide, streams.SvcRecall, streams.SvcGate} {
		out = append(out, "lz.svc."+string(s)+".demo.agent")
	}
	for _, s := range []streams.Service{streams.SvcRemember, streams.SvcObserve} {
		out = append(out, "lz.svc."+string(s)+".demo.agent.user")
	}
	for _, what := range []string{arbiter.AskHolds, "beliefs", "active", "lineage", "pinpoint", "calibration"} {
		out = append(out, streams.QuerySubject(what, streams.PartitionOf("demo")))
	}
	for _, st := range []string{streams.IntakeStream, streams.LedgerStream, streams.LiveStream} {
		for _, api := range []string{"STREAM.PURGE.", "STREAM.DELETE.", "STREAM.UPDATE.", "STREAM.MSG.DELETE.",
			"CONSUMER.CREATE."} {
			out = append(out, "$JS.API."+api+st)
		}
	}
	return out
}

// ledgerState returns a text with the first sequence of the ledger and of the live stream, and with the number of
// messages that were deleted between their first and last ones.
func ledgerState(t *testing.T, js jetstream.JetStream) string {
	t.Helper()
	var out string
	for _, name := range []string{streams.LedgerStream, streams.LiveStream} {
		st, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		info := st.CachedInfo()
		out += fmt.Sprintf("%s: first %d, deleted %d. ", name, info.State.FirstSeq, info.State.NumDeleted)
	}
	return out
}

// olderAgent connects with a credential as versions of Lazaret without an agents' account made them.
func olderAgent(t *testing.T, p *embedded.Pipeline, data, project, name string) *nats.Conn {
	t.Helper()
	older := t.TempDir()
	if err := os.CopyFS(natsserver.KeysDir(older), os.DirFS(natsserver.KeysDir(data))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(natsserver.KeysDir(older), "agents.pub")); err != nil {
		t.Fatal(err)
	}
	m, err := natsserver.OpenMinter(older)
	if err != nil {
		t.Fatal(err)
	}
	return embeddedtest.Connect(t, p, m, project, name)
}

// A publisher may name any reply subject, and JetStream sends its answer there (docs/decisions/0006). No process may
// take such an answer for a request.
func TestAnAcknowledgementIsNoRequest(t *testing.T) {
	var log lines
	data := t.TempDir()
	p, err := embedded.Start(context.Background(), embedded.Config{Data: data, Listen: "127.0.0.1:0", NoSync: true,
		AnswerTimeout: 20 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, _ := embeddedtest.Agent(t, p, "demo", "agent")
	// Only an agent with the credential of an older version can do this, because it is in the account of the streams.
	nc := olderAgent(t, p, data, "demo", "agent")
	a := asks{t, c}
	a.decide("the start")
	js, err := jetstream.New(operator(t, p))
	if err != nil {
		t.Fatal(err)
	}
	before, server := ledgerState(t, js), nc.ConnectedServerId()
	publish := func(reply, expected string) {
		t.Helper()
		m := &nats.Msg{Subject: "lz.in.demo.agent.obs.tool", Reply: reply, Header: nats.Header{},
			Data: fmt.Appendf(nil, `{"id":%q,"session":"replies","content":"x"}`, fmt.Sprint("r", asked.Add(1)))}
		if expected != "" {
			m.Header.Set(jetstream.ExpectedLastSeqHeader, expected)
		}
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range internalSubjects() {
		publish(s, "")          // the server answers with an acknowledgement
		publish(s, "987654321") // the server answers with an error
	}
	natstest.Eventually(t, 20*time.Second, "the requests to erase were not dropped", func() bool {
		return log.count("request to erase dropped") >= 2
	})
	a.decide("the acknowledgements")
	if nc.Stats().Reconnects != 0 || nc.ConnectedServerId() != server {
		t.Error("the server restarted")
	}
	if after := ledgerState(t, js); after != before {
		t.Errorf("the streams changed from %q to %q", before, after)
	}

	// An acknowledgement of JetStream that gets into the ledger or the live stream must not count as an entry of a
	// stage.
	phantom := streams.LedgerSubject(6, streams.SentinelStage("phantom"))
	publish(phantom, "")
	publish("lz.live.demo.alert.low.x", "")
	natstest.Eventually(t, 20*time.Second, "the acknowledgement is not in the ledger", func() bool {
		m, err := stage.LastOn(t.Context(), js, streams.LedgerStream, phantom)
		return err == nil && m != nil
	})
	seen, err := status.Collect(t.Context(), operator(t, p))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range seen.Silent {
		t.Errorf("the stage %s counts as one that is silent", x.Stage)
	}

	// A request of the retention credential must still be answered. A message with a body that is not a request must be
	// refused.
	ret, err := p.Server.Connect(natsserver.RoleRetention)
	if err != nil {
		t.Fatal(err)
	}
	defer ret.Close()
	m, err := ret.Request(streams.EraseSubject, []byte(`{"run":"none"}`), 20*time.Second)
	if err != nil || !strings.Contains(string(m.Data), "nothing is known of this run") {
		t.Fatalf("a request about an unknown run: %v, %v", m, err)
	}
	for _, body := range []string{"", `{"stream":"LZ_INTAKE","seq":7}`, `{"error":{"code":400},"stream":"LZ_INTAKE","seq":0}`,
		`{"Run":""}`, "{} {}"} {
		before := log.count("request to erase dropped")
		if err := ret.PublishRequest(streams.EraseSubject, ret.NewInbox(), []byte(body)); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, 20*time.Second, fmt.Sprintf("%q was not dropped", body), func() bool {
			return log.count("request to erase dropped") > before
		})
	}
	if m, err = ret.Request(streams.EraseSubject, []byte(`{}`), 20*time.Second); err != nil ||
		!strings.Contains(string(m.Data), `"run"`) {
		t.Fatalf("a request to erase: %v, %v", m, err)
	}
}
