package stage

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Trimmed is the ledger sequence up to which entries may have been removed
// because they were old, or 0. What is left of the stream does not tell: of
// each subject the last entry stays.
func Trimmed(ctx context.Context, js jetstream.JetStream) (uint64, error) {
	m, err := lastOn(ctx, js, streams.LedgerSubject(0, streams.StageRetention))
	if err != nil || m == nil {
		return 0, err
	}
	var b streams.Retention
	if err := streams.Unmarshal(m.Data, &b); err != nil {
		return 0, fmt.Errorf("ledger entry %d says up to where the ledger is trimmed, and cannot be read: %w", m.Sequence, err)
	}
	return b.Trimmed, nil
}

// guardEvery is how often a stage that runs makes sure that it is not reading
// over a hole.
const guardEvery = 5 * time.Second

// guard makes sure that nothing was trimmed that this process had not read
// before, and notes how far it has read. A process that refolds, or that was cut
// off, may have read over a hole that was made in the meantime: the reader does
// not show it.
//
// What was read before the last guard that found it untrimmed was whole. So the
// ledger has to be trimmed no further than that.
func (r *runtime) guard(ctx context.Context, read uint64) error {
	trimmed, err := Trimmed(ctx, r.js)
	if err != nil {
		return err
	}
	if trimmed > r.whole {
		return &TrimmedError{Stream: streams.LedgerStream, From: r.whole + 1, First: trimmed + 1, Stage: r.cfg.Name}
	}
	r.whole = max(r.whole, read)
	r.guarded = time.Now()
	return nil
}

// guardDue is guard once it is due. That the server is away is no finding.
func (r *runtime) guardDue(ctx context.Context, read uint64) error {
	if time.Since(r.guarded) < guardEvery {
		return nil
	}
	err := r.guard(ctx, read)
	if _, trimmed := asTrimmed(err); err == nil || trimmed {
		return err
	}
	r.guarded = time.Now()
	r.log.Warn("whether the ledger was trimmed is unknown", "err", err)
	return nil
}

// sync makes what was committed so far durable, whatever happens to the machine.
func (s *store) sync() error {
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		return fmt.Errorf("syncing stage state: %w", err)
	}
	return nil
}

// trimOf is the announcement in a trim entry, or nil if it is none.
func (r *runtime) trimOf(e *streams.Entry) *streams.Retention {
	if e.Type != streams.TypeTrim || e.Stage != streams.StageRetention {
		return nil
	}
	b := new(streams.Retention)
	if err := streams.Unmarshal(e.Body, b); err != nil {
		r.log.Error("unreadable trim entry", "seq", e.Seq, "err", err)
		return nil
	}
	r.guarded = time.Time{} // the guard is due
	return b
}

// secured is the entry that says that the state is on disk.
func secured(id string, folded uint64) (*Output, error) {
	return NewOutput(streams.TypeSecured, streams.SystemProject, &streams.SecuredEntry{ID: id, Folded: folded})
}
