package stage

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// marks hold what the retention stage announced in partition 0 about removed entries.
// Messages that are no entries of it, or that cannot be true, are ignored.
type marks struct {
	seq     uint64 // the last message that was read
	trimmed uint64 // entries up to here may be gone
}

// read reads the new announcements. ignored, if not nil, gets the error of each ignored one.
func (m *marks) read(ctx context.Context, js jetstream.JetStream, ignored func(error)) error {
	subject := streams.LedgerSubject(0, streams.StageRetention)
	return Each(ctx, js, Span{Stream: streams.LedgerStream, Filters: []string{subject}, From: m.seq + 1},
		func(msg jetstream.Msg, seq uint64, at time.Time) error {
			m.seq = seq
			e, err := streams.ParseEntry(msg.Subject(), msg.Headers(), msg.Data(), seq, at)
			if err == nil {
				var r *streams.Retention
				if r, err = streams.ReadRetention(&e); err == nil {
					m.trimmed = max(m.trimmed, r.Trimmed)
					return nil
				}
			}
			if ignored != nil {
				ignored(err)
			}
			return nil
		})
}

// Trimmed is the ledger sequence up to which entries may have been removed because they
// were old, or 0. The stream does not show it: the last entry of each subject stays.
func Trimmed(ctx context.Context, js jetstream.JetStream) (uint64, error) {
	var m marks
	err := m.read(ctx, js, nil)
	return m.trimmed, err
}

// Hole is Trimmed if an entry from a sequence on up to there is gone, and else 0. Trimmed
// alone says only that entries may be gone.
func Hole(ctx context.Context, js jetstream.JetStream, from uint64) (uint64, error) {
	trimmed, err := Trimmed(ctx, js)
	if err != nil || trimmed < from {
		return 0, err
	}
	gone, err := missing(ctx, js, from, trimmed)
	if err != nil || !gone {
		return 0, err
	}
	return trimmed, nil
}

// missing reports whether the ledger lacks an entry from one sequence up to another.
func missing(ctx context.Context, js jetstream.JetStream, from, to uint64) (bool, error) {
	st, err := Stream(ctx, js, streams.LedgerStream)
	if err != nil {
		return false, err
	}
	if st.CachedInfo().State.FirstSeq > from {
		return true, nil
	}
	// The entries behind are counted first: what is added meanwhile makes it more.
	behind, err := pendingFrom(ctx, js, to+1)
	if err != nil {
		return false, err
	}
	all, err := pendingFrom(ctx, js, from)
	return all < behind+(to-from+1), err
}

// pendingFrom is how many entries the ledger has from a sequence on.
func pendingFrom(ctx context.Context, js jetstream.JetStream, seq uint64) (uint64, error) {
	c, err := js.CreateConsumer(ctx, streams.LedgerStream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq, HeadersOnly: true,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: consumerLives, Replicas: 1, MemoryStorage: true})
	if err != nil {
		return 0, fmt.Errorf("counting the entries of %s from %d on: %w", streams.LedgerStream, seq, err)
	}
	n := c.CachedInfo().NumPending
	// The server removes it if this fails.
	_ = js.DeleteConsumer(ctx, streams.LedgerStream, c.CachedInfo().Name)
	return n, nil
}

// guardEvery is how often a running stage checks for a hole in what it reads.
const guardEvery = 5 * time.Second

// guard makes sure that nothing was trimmed that this process had not read before, and
// notes how far it has read. A process that refolds, or that was cut off, may have read
// over a hole that was made in the meantime: the reader does not show it.
//
// Everything read before the last successful guard was whole, so no entry after that may be
// gone. guard counts them in the ledger, since the holder of the retention credential can
// announce anything.
func (r *runtime) guard(ctx context.Context, read uint64) error {
	if err := r.marks.read(ctx, r.js, r.ignore); err != nil {
		return err
	}
	if trimmed := r.marks.trimmed; trimmed > r.whole {
		gone, err := missing(ctx, r.js, r.whole+1, trimmed)
		if err != nil {
			return err
		}
		if gone {
			return &TrimmedError{Stream: streams.LedgerStream, From: r.whole + 1, First: trimmed + 1, Stage: r.cfg.Name}
		}
	}
	if !r.all() {
		if err := r.holds(ctx, r.whole+1, read); err != nil {
			return err
		}
	}
	r.whole = max(r.whole, read)
	r.guarded = time.Now()
	return nil
}

// ignore reports a message of another party that is no entry of ours.
func (r *runtime) ignore(err error) {
	r.stats.Ignored.Add(1)
	r.log.Error("foreign message in the ledger, ignored", "err", err)
}

// guardDue is guard once it is due. An error of the server is logged only.
func (r *runtime) guardDue(ctx context.Context, read uint64) error {
	if time.Since(r.guarded) < guardEvery {
		return nil
	}
	err := r.guard(ctx, read)
	if err == nil || refusal(err) {
		return err
	}
	r.guarded = time.Now()
	r.log.Warn("whether the ledger was trimmed is unknown", "err", err)
	return nil
}

// sync makes all commits so far survive a crash of the machine.
func (s *store) sync() error {
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.db.Flush(); err != nil {
		return fmt.Errorf("syncing stage state: %w", err)
	}
	return nil
}

// trimOf is the announcement in a trim entry, or nil if it is none.
func (r *runtime) trimOf(e *streams.Entry) *streams.Retention {
	if e.Type != streams.TypeTrim || e.Stage != streams.StageRetention {
		return nil
	}
	b, err := streams.ReadRetention(e)
	if err != nil {
		r.ignore(err)
		return nil
	}
	r.guarded = time.Time{} // the guard is due
	return b
}

// secured is the entry that says that the state is on disk.
func secured(id string, folded uint64) (*Output, error) {
	return NewOutput(streams.TypeSecured, streams.SystemProject, &streams.SecuredEntry{ID: id, Folded: folded})
}
