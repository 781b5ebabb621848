package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/ceiling"
	"lazaret/internal/statement"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// Limits of a route's consumer.
const (
	maxWaiting = 512             // ledger messages without an acknowledgement
	ackWait    = 5 * time.Second // the time after which messages of a killed process are delivered again
)

// Consumer returns the name of a route's consumer. The route's credential has the same
// name.
func Consumer(route string) string { return "notify-" + route }

// Ensure creates the missing consumers of routes. A new consumer starts with the next ledger entry. nc must be an
// operator's connection.
func Ensure(ctx context.Context, nc *nats.Conn, c *Config) error {
	js := wire.JetStream(nc)
	for _, r := range c.Routes {
		name := Consumer(r.Name)
		_, err := js.Consumer(ctx, streams.LedgerStream, name)
		if err == nil {
			continue
		}
		if !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("looking up consumer %s: %w", name, err)
		}
		if _, err := js.CreateConsumer(ctx, streams.LedgerStream, jetstream.ConsumerConfig{Durable: name,
			Description:   "notifications: route " + r.Name,
			DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
			MaxAckPending: maxWaiting, MaxDeliver: -1}); err != nil {
			return fmt.Errorf("making consumer %s: %w", name, err)
		}
	}
	return nil
}

// Options configures Run.
type Options struct {
	Data string // the folder with notify/
	// Connect opens a connection with the credential of a route.
	Connect func(route string) (*nats.Conn, error)
	Log     *slog.Logger
}

// Run delivers the notifications of all routes until ctx ends. Run it in one process for
// each data folder.
func Run(ctx context.Context, c *Config, o Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	dir := Dir(o.Data)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var seen *sensitivities
	for _, r := range c.Routes {
		nc, err := o.Connect(r.Name)
		if err != nil {
			return fmt.Errorf("route %s: %w", r.Name, err)
		}
		defer func() { _ = nc.FlushTimeout(time.Second); nc.Close() }()
		if seen == nil {
			seen = &sensitivities{changed: make(chan struct{})}
			wg.Go(func() { seen.follow(ctx, nc, o.Log) })
		}
		w := &worker{Route: r, dir: dir, console: c.Console, seen: seen, log: o.Log.With("route", r.Name)}
		if err := w.open(ctx, nc); err != nil {
			return fmt.Errorf("route %s: %w", r.Name, err)
		}
		wg.Go(func() { w.run(ctx) })
	}
	<-ctx.Done()
	return nil
}

// Test sends a test notification through a route.
func (r *Route) Test(ctx context.Context, console string) error {
	n := &Notice{ID: fmt.Sprint("test-", time.Now().UnixNano()), Kind: KindAlert, Project: "test", Time: time.Now().UTC(),
		Severity: "info", Rule: "notify-test", Text: "This is a test of the route " + r.Name + "."}
	n.link(console)
	err := r.receiver.send(ctx, newMessage([]*Notice{n}))
	var said *answer
	if errors.As(err, &said) && said.quote != "" { // a test has no texts of the ledger that could be quoted
		said.message += ": " + said.quote
	}
	return r.cleaned(err)
}

// cleaned returns err with the route's secrets removed from its text. An error of the type refusal or
// later keeps its type.
func (r *Route) cleaned(err error) error {
	if err == nil {
		return nil
	}
	clean := errors.New(r.scrub.Replace(err.Error()))
	switch x := err.(type) {
	case refusal:
		return refusal{clean}
	case later:
		return later{clean, x.after}
	}
	return clean
}

// sensitivities reads the whole ledger for the sensitivity labels of texts, for silences, and for statements to forget
// entries. A text may be sent only when the labels of all entries up to its own entry are known.
type sensitivities struct {
	mu       sync.Mutex
	labels   ceiling.Labels
	silent   silences
	erased   statement.Erased
	erasures int           // number of statements in erased
	next     uint64        // all entries before this ledger sequence are read
	changed  chan struct{} // closed when next grows
}

const poll = 100 * time.Millisecond

func (s *sensitivities) follow(ctx context.Context, nc *nats.Conn, log *slog.Logger) {
	r, at := &wire.Reader{Conn: nc}, uint64(0)
	for ctx.Err() == nil {
		es, err := r.After(ctx, at)
		if err != nil && ctx.Err() == nil {
			log.Warn("the ledger cannot be read, trying again", "err", err)
		}
		if len(es) > 0 {
			s.mu.Lock()
			for _, e := range es {
				s.labels.Scan(ceiling.FromLedger(e))
				s.silent.add(e)
				if s.erased.Add(e) {
					s.erasures++
				}
				at = e.Seq
			}
			s.next = at + 1
			close(s.changed)
			s.changed = make(chan struct{})
			s.mu.Unlock()
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(poll):
		}
	}
}

// await returns when the labels of all entries up to seq are known, or when ctx ends.
func (s *sensitivities) await(ctx context.Context, seq uint64) {
	for {
		s.mu.Lock()
		known, changed := s.next > seq, s.changed
		s.mu.Unlock()
		if known {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// silenced reports whether an alert was silenced when it was raised.
func (s *sensitivities) silenced(n *Notice, seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent.covers(n.Project, n.Rule, n.Agent, seq, n.Time)
}

// gone reports whether an entry is to be forgotten.
func (s *sensitivities) gone(e *streams.Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.erased.CoversEntry(e)
}

// redact removes the texts from a notification that the route may not send.
func (s *sensitivities) redact(n *Notice, r *Route, at uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.redact(&s.labels, r.ceiling, at)
}
