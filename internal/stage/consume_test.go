package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/streams"
)

// read consumes the ledger and counts the messages. It fails the test if a message does not follow
// the previous one.
func read(t *testing.T, nc *nats.Conn, gate <-chan struct{}) *atomic.Uint64 {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	came := new(atomic.Uint64)
	c, err := consume(t.Context(), js, streams.LedgerStream, nil, 1, slog.New(slog.DiscardHandler), func(m jetstream.Msg) {
		<-gate
		md, err := m.Metadata()
		if err != nil {
			t.Error(err)
			return
		}
		if n := came.Load() + 1; md.Sequence.Stream != n {
			t.Errorf("message %d came, want message %d", md.Sequence.Stream, n)
		}
		came.Store(md.Sequence.Stream)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	return came
}

// A reader whose consumer fails in any way must still get every message once and in order, also the last message before
// a quiet period.
func TestAReaderOutlivesItsConsumer(t *testing.T) {
	srv := natstest.Start(t)
	l := newLedger(t, srv)
	consumers := func(yield func(string)) {
		names := must(l.js.Stream(t.Context(), streams.LedgerStream)).ConsumerNames(t.Context())
		for name := range names.Name() {
			yield(name)
		}
		if err := names.Err(); err != nil {
			t.Error(err)
		}
	}
	open := make(chan struct{})
	close(open)
	nc := srv.Connect()
	came := read(t, nc, open)
	for round := range 4 {
		go func() {
			if round%2 == 0 {
				consumers(func(name string) { _ = l.js.DeleteConsumer(t.Context(), streams.LedgerStream, name) })
			} else if err := nc.ForceReconnect(); err != nil {
				t.Error(err)
			}
		}()
		l.add(2000)
		natstest.Eventually(t, time.Minute, "all that was published", func() bool { return came.Load() == uint64(l.n) })
	}
	// If a reconnection prevents the removal of a consumer, the server removes it after a minute without pull requests.
	natstest.Eventually(t, 3*time.Minute, "one consumer", func() bool {
		n := 0
		consumers(func(string) { n++ })
		return n == 1
	})
}

// As long as a server runs without JetStream, it answers API requests with "no responders". The reader must repeat its
// request until JetStream is enabled.
func TestAReaderWaitsForTheServersAPI(t *testing.T) {
	srv := natstest.Start(t)
	l := newLedger(t, srv)
	l.add(3)
	cfg := *srv.JetStreamConfig()
	srv.Shutdown()
	srv.WaitForShutdown()
	later := must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true}))
	later.Start()
	t.Cleanup(func() { later.Shutdown(); later.WaitForShutdown() })
	if !later.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server did not start")
	}
	nc := must(nats.Connect(later.ClientURL()))
	t.Cleanup(nc.Close)
	if _, err := must(jetstream.New(nc)).Stream(t.Context(), streams.LedgerStream); !errors.Is(err, nats.ErrNoResponders) {
		t.Fatalf("a server without JetStream answers %v", err)
	}
	enabled := make(chan error, 1)
	heard := nc.Stats().InMsgs
	go func() {
		for nc.Stats().InMsgs == heard { // until the reader got "no responders"
			time.Sleep(time.Millisecond)
		}
		enabled <- later.EnableJetStream(&server.JetStreamConfig{StoreDir: filepath.Dir(cfg.StoreDir)})
	}()
	open := make(chan struct{})
	close(open)
	came := read(t, nc, open)
	if err := <-enabled; err != nil {
		t.Error(err)
	}
	natstest.Eventually(t, time.Minute, "all that was published", func() bool { return came.Load() == uint64(l.n) })
}

// A reader whose stage is slow must request no more messages than it can hold, so that the NATS client drops none. When
// the stage continues, the reader must get all messages.
func TestASlowReaderDropsNothing(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { t.Error(err) })
	gate := make(chan struct{})
	came := read(t, nc, gate)
	js := must(jetstream.New(srv.Connect()))
	const n, size = 24, readAheadBytes / 8
	publish := func(size int) {
		if _, err := js.Publish(t.Context(), streams.LedgerSubject(0, streams.StageArbiter), make([]byte, size)); err != nil {
			t.Error(err)
		}
	}
	for range n {
		publish(size)
	}
	publish(readAheadBytes * 3 / 2) // it is requested by itself
	publish(size)
	natstest.Eventually(t, time.Minute, "as much as was asked for", func() bool {
		return nc.Stats().InBytes > readAheadBytes-size-size/2
	})
	if got := nc.Stats().InBytes; got > readAheadBytes+size {
		t.Errorf("%d bytes were sent to a reader that asked for %d", got, readAheadBytes)
	}
	close(gate)
	natstest.Eventually(t, time.Minute, "all that was published", func() bool { return came.Load() == n+2 })
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestAQuestionIsAskedAgainWhenNobodyAnswered(t *testing.T) {
	asked := 0
	answers := []error{nats.ErrTimeout, context.DeadlineExceeded, fmt.Errorf("reading: %w", nats.ErrDisconnected), nil}
	err := Patiently(t.Context(), slog.New(slog.DiscardHandler), "a test", func() error {
		asked++
		return answers[asked-1]
	})
	if err != nil || asked != len(answers) {
		t.Errorf("asked %d times, then: %v", asked, err)
	}
	refused := errors.New("refused")
	if err := Patiently(t.Context(), slog.New(slog.DiscardHandler), "a test", func() error { return refused }); err != refused {
		t.Errorf("another error came back as %v", err)
	}
}

// Large messages of the intake must not take one pull request each.
func TestLargeMessagesOfTheIntakeAreReadManyAtATime(t *testing.T) {
	const messages, size = 64, 900 << 10
	nc := natstest.Start(t).Connect()
	js := must(jetstream.New(nc))
	for range messages {
		must(js.Publish(t.Context(), "lz.in.demo.agent.obs.web", make([]byte, size)))
	}
	pulls := must(nc.SubscribeSync("$JS.API.CONSUMER.MSG.NEXT." + streams.IntakeStream + ".>"))
	var came atomic.Uint64
	c, err := consume(t.Context(), js, streams.IntakeStream, nil, 1, slog.New(slog.DiscardHandler),
		func(jetstream.Msg) { came.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	natstest.Eventually(t, time.Minute, "all messages", func() bool { return came.Load() == messages })
	if n, _, err := pulls.Pending(); err != nil || n == 0 || n > messages/4 {
		t.Errorf("%d pull requests for %d messages of %d bytes, %v; want at most %d", n, messages, size, err, messages/4)
	}
}

// If the messages of a pull request have exactly its maximum size, the server ends it without saying so. The reader must
// request more messages all the same. An agent chooses the sizes of its messages, and must not be able to stop ingest.
func TestAPullRequestThatIsFilledToItsLastByteIsFollowedByAnother(t *testing.T) {
	nc := natstest.Start(t).Connect()
	js := must(jetstream.New(nc))
	var logged bytes.Buffer
	sizes := make(chan int, 10)
	c, err := consume(t.Context(), js, streams.IntakeStream, nil, 1, slog.New(slog.NewTextHandler(&logged, nil)),
		func(m jetstream.Msg) { sizes <- m.(*stored).m.Size() })
	if err != nil {
		t.Fatal(err)
	}
	publish := func(n int) (size int) {
		must(js.Publish(t.Context(), "lz.in.demo.agent.obs.web", make([]byte, n)))
		return <-sizes
	}
	size := publish(100)
	if size += publish(readAheadBytes - size - (size - 100)); size != readAheadBytes {
		t.Fatalf("two messages of %d bytes do not fill a pull request of %d bytes", size, readAheadBytes)
	}
	publish(100)
	c.stop()
	if logged.Len() > 0 {
		t.Errorf("the reader needed another consumer: %s", &logged)
	}
}
