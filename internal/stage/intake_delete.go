package stage

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"

	"lazaret/streams"
)

const (
	// bulky is a size in bytes. A decided message of at least this size is deleted individually if older messages are
	// undecided, because a purge removes only messages before the oldest undecided one.
	bulky = 64 << 10
	// mayDelete is the maximum number of messages that wait in deletions. Messages beyond it are removed later, by a
	// purge.
	mayDelete = 64 << 10
	// deleters is the number of concurrent deletions. The server does one at a time. With few concurrent requests, a
	// busy server often waits for the next one, and one agent's large messages fill the intake.
	deleters = 32
)

// deletions deletes decided messages from the intake in the background. It only frees disk space early: messages that
// it does not delete are purged once all older messages are decided.
type deletions struct {
	nc  *nats.Conn
	log *slog.Logger

	mu    sync.Mutex
	seqs  []uint64      // sequences to delete; guarded by mu
	ready chan struct{} // signals that seqs is not empty
}

// run deletes messages until ctx ends.
func (d *deletions) run(ctx context.Context) {
	var wg sync.WaitGroup
	for range deleters {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-d.ready:
				}
				for seq, ok := d.next(); ok && ctx.Err() == nil; seq, ok = d.next() {
					d.delete(ctx, seq)
				}
			}
		})
	}
	wg.Wait()
}

func (d *deletions) add(seq uint64) {
	d.mu.Lock()
	if len(d.seqs) < mayDelete {
		d.seqs = append(d.seqs, seq)
	}
	d.mu.Unlock()
	d.wake()
}

func (d *deletions) wake() {
	select {
	case d.ready <- struct{}{}:
	default:
	}
}

func (d *deletions) next() (seq uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.seqs) == 0 {
		return 0, false
	}
	seq, d.seqs = d.seqs[0], d.seqs[1:]
	if len(d.seqs) > 0 {
		d.wake() // so that another goroutine deletes a message at the same time
	}
	return seq, true
}

// delete deletes a message. Like a purge, it does not overwrite the message's bytes. It ignores a message that is gone
// already. If the server does not answer, delete leaves all waiting messages to the purge.
func (d *deletions) delete(ctx context.Context, seq uint64) {
	soon, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	req := fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq)
	_, err := d.nc.RequestWithContext(soon, "$JS.API.STREAM.MSG.DELETE."+streams.IntakeStream, req)
	if err == nil || ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	n := len(d.seqs) + 1
	d.seqs = nil
	d.mu.Unlock()
	d.log.Warn("decided messages were not deleted from the intake; they are purged later", "messages", n, "err", err)
}

// deletes starts deleting in the background. The returned function stops that.
func (s *intakeStage) deletes(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.deletions.run(ctx)
	}()
	return func() { cancel(); <-ended }
}
