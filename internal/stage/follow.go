package stage

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Follower takes ledger entries of every partition, in ledger order, and adds
// none of its own.
type Follower interface {
	// Next is the ledger sequence to begin or go on with.
	Next() uint64
	// Take takes a batch, durably before it returns, unless more is to come: then
	// it may still be on its way, and is there once Next is above it. The batch is
	// empty when nothing came for a while.
	Take(entries []streams.Entry, more bool) error
}

// followEvery is the shortest time between two batches. Nobody waits for a
// follower, and its syncs slow down those of the streams that a verdict waits
// for.
const followEvery = 20 * time.Millisecond

// Follow feeds a follower until ctx ends, and returns nil then. ready is
// called once, when the follower has everything that was there at the start.
//
// feed and stats may be nil.
func Follow(ctx context.Context, nc *nats.Conn, feed *Feed, f Follower, batch int, log *slog.Logger, stats *Stats,
	ready func()) error {
	if stats == nil {
		stats = new(Stats)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	from := f.Next()
	var last uint64
	var rd *ledgerReader
	err = Patiently(ctx, log, "the beginning of a follower", func() (err error) {
		if err = checkLedger(ctx, js, ""); err != nil {
			return err
		}
		if last, err = checkStart(ctx, js, streams.LedgerStream, from); err != nil {
			return err
		}
		rd, err = openLedgerReader(ctx, nc, feed, nil, "", from, log)
		return err
	})
	if err != nil {
		return err
	}
	stats.Folded.Store(from - 1)
	defer rd.close()
	tick := time.NewTicker(10 * idleTick)
	defer tick.Stop()
	buf := make([]*arrival, 0, batch)
	var took time.Time
	entries := make([]streams.Entry, 0, batch)
	for {
		if !stats.Ready.Load() && f.Next() > last {
			stats.Ready.Store(true)
			if ready != nil {
				ready()
			}
		}
		buf, entries = buf[:0], entries[:0]
		select {
		case <-ctx.Done():
			return nil
		case m := <-rd.msgs:
			// Messages of a short time are taken together: each batch is a sync.
			if err := sleep(ctx, followEvery-time.Since(took)); err != nil {
				return nil
			}
			rd.took(m)
			buf = rd.drain(append(buf, m))
			took = time.Now()
		case <-tick.C:
		}
		for _, m := range buf {
			if err := later(m, ""); err != nil {
				return err
			}
			if m.err != nil {
				// A follower takes it like the rest; its empty type shows that no stage
				// wrote it.
				log.Error("foreign message in the ledger", "err", m.err)
			}
			entries = append(entries, m.entries...) // all of a message, or the follower could not go on
		}
		if err := f.Take(entries, len(rd.msgs) > 0); err != nil {
			return err
		}
		stats.Folded.Store(f.Next() - 1)
		stats.Entries.Add(uint64(len(entries)))
	}
}
