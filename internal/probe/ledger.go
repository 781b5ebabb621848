package probe

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// ledger follows the ledger and stores the entries of some projects.
type ledger struct {
	stop func()

	mu    sync.Mutex
	of    map[string][]streams.Entry // by project; guarded by mu
	seq   uint64                     // last sequence read; guarded by mu
	err   error                      // why the ledger is no longer followed; guarded by mu
	moved chan struct{}              // closed at the next change; guarded by mu
}

// follow reads the ledger from the entry after from, and stores the entries of projects for which keep
// returns true.
func follow(ctx context.Context, nc *nats.Conn, from uint64, keep func(project string) bool) (*ledger, error) {
	js := wire.JetStream(nc)
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return nil, err
	}
	cons, err := st.OrderedConsumer(ctx,
		jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from + 1})
	if err != nil {
		return nil, err
	}
	it, err := cons.Messages()
	if err != nil {
		return nil, err
	}
	l := &ledger{of: make(map[string][]streams.Entry), seq: from, moved: make(chan struct{})}
	done := make(chan struct{})
	l.stop = func() { it.Stop(); <-done }
	go func() {
		defer close(done)
		for {
			m, err := it.Next()
			if err == nil {
				err = l.take(m, keep)
			}
			if err != nil {
				l.change(func() { l.err = err })
				return
			}
		}
	}()
	return l, nil
}

func (l *ledger) take(m jetstream.Msg, keep func(string) bool) error {
	entries, err := wire.Entries(m)
	if err != nil {
		return err
	}
	l.change(func() {
		l.seq = entries[0].Seq
		if p := entries[0].Project; keep(p) {
			l.of[p] = append(l.of[p], entries...)
		}
	})
	return nil
}

func (l *ledger) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.moved)
	l.moved = make(chan struct{})
}

// await waits until done returns true. done gets the entries of a project and the last sequence read.
func (l *ledger) await(ctx context.Context, project string, done func(entries []streams.Entry, seq uint64) (bool,
	error)) error {
	for {
		l.mu.Lock()
		entries, seq, err, moved := l.of[project], l.seq, l.err, l.moved
		l.mu.Unlock()
		if ok, derr := done(entries, seq); ok || derr != nil {
			return derr
		}
		if err != nil {
			return fmt.Errorf("reading the ledger: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

// entries returns the entries of a project so far.
func (l *ledger) entries(project string) []streams.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[project]
}

// alerts returns the rules that raised an alert without an exception in a project so far.
func (l *ledger) alerts(project string) (map[string]bool, error) {
	out := make(map[string]bool)
	for _, e := range l.entries(project) {
		if e.Type != streams.TypeAlerts && e.Type != streams.TypeAssessment {
			continue
		}
		var a struct {
			Alerts []streams.Alert `json:"alerts"`
		}
		if err := streams.Unmarshal(e.Body, &a); err != nil {
			return nil, fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
		}
		for _, x := range a.Alerts {
			if x.Exception == "" {
				out[x.Rule] = true
			}
		}
	}
	return out, nil
}
