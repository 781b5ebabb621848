package stage_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/streams"
)

// slowEcho takes 250 ms for each large message until it has admitted a small message of another agent. So the reader
// has all messages long before half of the large ones are decided.
type slowEcho struct {
	echo
	other atomic.Bool
}

func (s *slowEcho) Admit(st *stage.State, m *stage.Message) (*stage.Admission, error) {
	switch {
	case len(m.Data) < 1000:
		s.other.Store(true)
	case !s.other.Load():
		time.Sleep(250 * time.Millisecond)
	}
	return s.echo.Admit(st, m)
}

// One agent sends more large messages than fit into memory, and then another agent sends a proposal in another
// partition. The proposal must be decided before three quarters of the large messages. All large messages must be
// decided in order and with their data.
func TestPromiseC21LargeMessagesOfOneAgentDoNotStarveTheOthers(t *testing.T) {
	const n, size = 60, 900_000
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	if streams.PartitionOf("flood") == streams.PartitionOf("other") {
		t.Fatal("the two projects share a partition")
	}
	for i := range n {
		body := append(bytes.Repeat([]byte("x"), size), byte('A'+i%26))
		if _, err := js.Publish(t.Context(), "lz.in.flood.agent.obs.web", body); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "lz.in.other.agent.act", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, cfg stage.Config) error { return stage.RunIntake(ctx, cfg, &slowEcho{}, nil) }
	start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, run).awaitReady()
	natstest.Eventually(t, time.Minute, "all entries", func() bool { return len(srv.Ledger()) == n+1 })
	flooded, before := 0, -1
	for _, e := range srv.Ledger() {
		if e.Project == "other" {
			before = flooded
			continue
		}
		want := strings.Repeat("x", 10) + string(rune('A'+flooded%26)) + `"}`
		if !strings.HasSuffix(string(e.Body), want) || len(e.Body) < size {
			t.Fatalf("entry %d has %d bytes and ends in %q", flooded, len(e.Body), e.Body[max(0, len(e.Body)-20):])
		}
		flooded++
	}
	// The stage holds at most 32 MiB in memory, which are 37 of the large messages.
	if before < 0 || before > n*3/4 {
		t.Errorf("%d of %d large messages were decided before the other agent's proposal", before, n)
	}
}

// dearEcho takes 150 ms for each message of the project flood, until it has admitted a message of another project.
type dearEcho struct {
	echo
	other atomic.Bool
}

func (s *dearEcho) Admit(st *stage.State, m *stage.Message) (*stage.Admission, error) {
	switch {
	case m.Address.Project != "flood":
		s.other.Store(true)
	case !s.other.Load():
		time.Sleep(150 * time.Millisecond)
	}
	return s.echo.Admit(st, m)
}

// One agent sends small messages that take long to decide, and then another agent sends a proposal. The proposal must
// wait for few of these messages, although a batch has room for all of them.
func TestSmallMessagesThatTakeLongDoNotDelayTheOthers(t *testing.T) {
	const n, most = 40, 8
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if _, err := js.Publish(t.Context(), "lz.in.flood.agent.out", []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "lz.in."+neighbours(1)[0]+".agent.act", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, cfg stage.Config) error { return stage.RunIntake(ctx, cfg, &dearEcho{}, nil) }
	start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, run).awaitReady()
	natstest.Eventually(t, time.Minute, "all entries", func() bool { return len(srv.Ledger()) == n+1 })
	before := slices.IndexFunc(srv.Ledger(), func(e streams.Entry) bool { return e.Project != "flood" })
	if before < 0 || before > most {
		t.Errorf("the proposal was decided after %d of %d messages, want at most %d", before, n, most)
	}
}

// One agent sends hundreds of recalls, each of which may get a large entry, and then another agent sends a proposal.
// The proposal must wait for few of the recalls.
func TestManyRecallsOfOneAgentDoNotDelayTheOthers(t *testing.T) {
	const n, most = 450, 150
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if _, err := js.Publish(t.Context(), "lz.in.flood.agent.recall", []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "lz.in."+neighbours(1)[0]+".agent.act", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, ingest).awaitReady()
	natstest.Eventually(t, time.Minute, "all entries", func() bool { return len(srv.Ledger()) == n+1 })
	before := slices.IndexFunc(srv.Ledger(), func(e streams.Entry) bool { return e.Project != "flood" })
	if before < 0 || before > most {
		t.Errorf("the proposal was decided after %d of %d recalls, want at most %d", before, n, most)
	}
}
