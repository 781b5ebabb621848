package stage

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// marks has what the retention stage announced: up to which sequence ledger entries may have been removed. The
// announcements are entries of type trim and trimmed in partition 0. Invalid messages there are ignored.
type marks struct {
	seq     uint64 // sequence of the last message that was read
	trimmed uint64 // ledger entries up to this sequence may have been removed; 0: none
}

// read reads the messages that were added since the last call. It calls ignored with the error of each invalid message,
// unless ignored is nil.
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

// Trimmed returns the ledger sequence up to which old entries may have been removed, or 0. The stream's first sequence
// does not show that, because a trim leaves the last entry of each subject.
func Trimmed(ctx context.Context, js jetstream.JetStream) (uint64, error) {
	var m marks
	err := m.read(ctx, js, nil)
	return m.trimmed, err
}

// Hole returns the same sequence as Trimmed, but only if the ledger lacks an entry between from and that sequence. If
// none is missing there, it returns 0.
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

// missing reports whether the ledger lacks an entry in [from, to].
func missing(ctx context.Context, js jetstream.JetStream, from, to uint64) (bool, error) {
	st, err := Stream(ctx, js, streams.LedgerStream)
	if err != nil {
		return false, err
	}
	if st.CachedInfo().State.FirstSeq > from {
		return true, nil
	}
	// First count the entries after to. If entries are added before the second count, only the second count includes
	// them. So a missing entry may be overlooked, but no existing entry is reported as missing.
	behind, err := pendingFrom(ctx, js, to+1)
	if err != nil {
		return false, err
	}
	all, err := pendingFrom(ctx, js, from)
	return all < behind+(to-from+1), err
}

// pendingFrom returns the number of entries that the ledger has from sequence seq on.
func pendingFrom(ctx context.Context, js jetstream.JetStream, seq uint64) (uint64, error) {
	c, err := js.CreateConsumer(ctx, streams.LedgerStream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq, HeadersOnly: true,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: consumerLives, Replicas: 1, MemoryStorage: true})
	if err != nil {
		return 0, fmt.Errorf("counting the entries of %s from %d on: %w", streams.LedgerStream, seq, err)
	}
	n := c.CachedInfo().NumPending
	// If this fails, the server removes the consumer later.
	_ = js.DeleteConsumer(ctx, streams.LedgerStream, c.CachedInfo().Name)
	return n, nil
}

// guardEvery is how often a running stage checks whether entries were removed that it had not read.
const guardEvery = 5 * time.Second

// guard returns an error if entries were trimmed before this process read them. read is the ledger sequence up to which
// the process has read. If a process folds the ledger again, or was disconnected, entries may be removed before it
// reads them. Its reader then continues after them without an error, so guard must check.
//
// At the last successful call of guard, everything up to the sequence whole had been read. So no entry after whole may
// be missing. guard counts the entries in the ledger and does not rely on the announcements, because a process with the
// retention credential can announce anything.
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
		if err := r.checkComplete(ctx, r.whole+1, read); err != nil {
			return err
		}
	}
	r.whole = max(r.whole, read)
	r.guarded = time.Now()
	return nil
}

// ignore logs and counts a message that no stage of Lazaret wrote.
func (r *runtime) ignore(err error) {
	r.stats.Ignored.Add(1)
	r.log.Error("a message in the ledger is from no stage of Lazaret; it is ignored", "err", err)
}

// guardDue calls guard if guardEvery has passed. If the server does not answer, it only logs the error.
func (r *runtime) guardDue(ctx context.Context, read uint64) error {
	if time.Since(r.guarded) < guardEvery {
		return nil
	}
	err := r.guard(ctx, read)
	if err == nil || refusal(err) {
		return err
	}
	r.guarded = time.Now()
	r.log.Warn("cannot check whether the ledger was trimmed", "err", err)
	return nil
}

// sync writes all committed changes to disk, so that they survive a crash of the machine.
func (s *store) sync() error {
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.db.Flush(); err != nil {
		return fmt.Errorf("syncing stage state: %w", err)
	}
	return nil
}

// trimOf returns what a trim entry announces: which entries will be removed. It returns nil for entries of another
// type, and for a trim entry that revokes an earlier announcement.
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

// secured returns the entry that answers the trim entry with the given id. It says that the state has folded the ledger
// up to sequence folded, and is on disk.
func secured(id string, folded uint64) (*Output, error) {
	return NewOutput(streams.TypeSecured, streams.SystemProject, &streams.SecuredEntry{ID: id, Folded: folded})
}
