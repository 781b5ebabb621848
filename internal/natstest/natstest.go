package natstest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// Server is a nats-server that is stopped at the end of the test.
type Server struct {
	*server.Server
	t testing.TB

	mu   sync.Mutex
	js   jetstream.JetStream   // guarded by mu; connection of Ledger
	read []streams.Entry       // guarded by mu; entries that Ledger has read
	at   *jetstream.StreamInfo // guarded by mu; the stream from which read was read
}

// Start starts a server with the three streams.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(),
		MaxPayload: 8 << 20, NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server did not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	srv := &Server{Server: s, t: t}
	js := wire.JetStream(srv.Connect())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := wire.Ensure(ctx, js, wire.Storage{}); err != nil {
		t.Fatal(err)
	}
	return srv
}

// Connect opens a TCP connection that is closed at the end of the test.
func (s *Server) Connect() *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// Ledger returns all entries of the ledger. It reads only those that were added since its last call.
func (s *Server) Ledger() []streams.Entry {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s.js == nil {
		s.js = wire.JetStream(s.Connect())
	}
	st, err := s.js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		s.t.Fatal(err)
	}
	now := st.CachedInfo()
	from := uint64(1)
	if s.at != nil && s.at.Created.Equal(now.Created) && s.at.State.FirstSeq == now.State.FirstSeq &&
		s.at.State.NumDeleted == now.State.NumDeleted && s.at.State.LastSeq <= now.State.LastSeq {
		from = s.at.State.LastSeq + 1
	} else {
		s.read = nil
	}
	last := now.State.LastSeq
	if from > last {
		return slices.Clip(s.read)
	}
	c, err := st.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from})
	if err != nil {
		s.t.Fatal(err)
	}
	it, err := c.Messages()
	if err != nil {
		s.t.Fatal(err)
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			s.t.Fatal(err)
		}
		entries, err := wire.Entries(m)
		if err != nil {
			s.t.Fatal(err)
		}
		s.read = append(s.read, entries...)
		if entries[0].Seq == last {
			s.at = now
			return slices.Clip(s.read)
		}
	}
}

// Eventually waits until ok returns true. It fails the test if that takes too long.
func Eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, within)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
