package stage

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// marks has the announcements of the retention stage in partition 0 about removed entries. It
// ignores messages that are not valid announcements.
type marks struct {
	seq     uint64 // last message that was read
	trimmed uint64 // entries up to here may have been removed
}

// read reads the new announcements. If ignored is not nil, it is called with the error of each
// ignored message.
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

// Trimmed returns the ledger sequence up to which old entries may have been removed, or 0. The
// stream itself does not show it, because the last entry of each subject stays.
func Trimmed(ctx context.Context, js jetstream.JetStream) (uint64, error) {
	var m marks
	err := m.read(ctx, js, nil)
	return m.trimmed, err
}

// Hole returns the result of Trimmed if the ledger lacks an entry between from and that sequence.
// It returns 0 if there is none. Trimmed alone says only that entries may be missing.
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

// missing reports whether the ledger lacks an entry in a range.
func missing(ctx context.Context, js jetstream.JetStream, from, to uint64) (bool, error) {
	st, err := Stream(ctx, js, streams.LedgerStream)
	if err != nil {
		return false, err
	}
	if st.CachedInfo().State.FirstSeq > from {
		return true, nil
	}
	// Count the later entries first. Entries that are added meanwhile can then only increase the
	// second count.
	behind, err := pendingFrom(ctx, js, to+1)
	if err != nil {
		return false, err
	}
	all, err := pendingFrom(ctx, js, from)
	return all < behind+(to-from+1), err
}

// pendingFrom returns the number of entries in the ledger from a sequence on.
func pendingFrom(ctx context.Context, js jetstream.JetStream, seq uint64) (uint64, error) {
	c, err := js.CreateConsumer(ctx, streams.LedgerStream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq, HeadersOnly: true,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: consumerLives, Replicas: 1, MemoryStorage: true})
	if err != nil {
		return 0, fmt.Errorf("counting the entries of %s from %d on: %w", streams.LedgerStream, seq, err)
	}
	n := c.CachedInfo().NumPending
	// If this fails, the server removes it later.
	_ = js.DeleteConsumer(ctx, streams.LedgerStream, c.CachedInfo().Name)
	return n, nil
}

// guardEvery is how often a running stage checks for removed entries.
const guardEvery = 5 * time.Second

// guard returns an error if entries were trimmed that this process had not read before, and records
// how far it has read. A process that refolds, or that was disconnected, may have read across
// entries that were removed in the meantime. The reader does not notice that.
//
// Everything that was read before the last successful guard was complete, so no entry after that
// may be missing. guard counts the entries in the ledger, because the holder of the retention
// credential can announce anything.
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

// ignore reports a message that no stage of Lazaret wrote.
func (r *runtime) ignore(err error) {
	r.stats.Ignored.Add(1)
	r.log.Error("foreign message in the ledger, ignored", "err", err)
}

// guardDue calls guard if it is due. It only logs errors of the server.
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

// trimOf returns the announcement in a trim entry, or nil.
func (r *runtime) trimOf(e *streams.Entry) *streams.Retention {
	if e.Type != streams.TypeTrim || e.Stage != streams.StageRetention {
		return nil
	}
	b, err := streams.ReadRetention(e)
	if err != nil {
		r.ignore(err)
		return nil
	}
	r.guarded = time.Time{} // the guard must run now
	if b.UpTo == 0 {
		return nil // an announcement was revoked
	}
	return b
}

// secured returns the entry that reports that the state is on disk.
func secured(id string, folded uint64) (*Output, error) {
	return NewOutput(streams.TypeSecured, streams.SystemProject, &streams.SecuredEntry{ID: id, Folded: folded})
}
