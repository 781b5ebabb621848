package stage

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Follower receives the ledger entries of all partitions in ledger order. It adds no entries itself.
type Follower interface {
	// Next returns the ledger sequence from which to read, at the start and after a batch was taken.
	Next() uint64
	// Take stores a batch. more says that further entries have arrived already. If it is false, the batch must be
	// durable when Take returns. If it is true, Take may return before that; the batch is durable once Next returns a
	// sequence above those of the batch. The batch is empty if nothing arrived for 200 ms.
	Take(entries []streams.Entry, more bool) error
}

// followEvery is the minimum time between two batches. No verdict waits for a follower, but the follower's syncs slow
// down the streams that verdicts wait for.
const followEvery = 20 * time.Millisecond

// Follow passes ledger entries to f until ctx ends, and then returns nil. It calls ready once, when f has all entries
// that existed at the start. batch is the maximum number of messages for one Take. feed, stats and ready may be nil.
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
	err = Patiently(ctx, log, "where to start reading", func() (err error) {
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
			// Collect messages for a short time, because each batch costs a sync.
			if err := sleep(ctx, followEvery-time.Since(took)); err != nil {
				return nil
			}
			rd.took(m)
			buf = rd.drain(append(buf, m))
			took = time.Now()
		case <-tick.C:
		}
		for _, m := range buf {
			if err := laterVersion(m, ""); err != nil {
				return err
			}
			if m.err != nil {
				// A follower also stores messages that no stage wrote. Such a message becomes an entry with only the
				// fields that could be read.
				log.Error("a message in the ledger is from no stage of Lazaret", "err", m.err)
			}
			entries = append(entries, m.entries...) // whole messages only, so that Next is the start of a message
		}
		if err := f.Take(entries, len(rd.msgs) > 0); err != nil {
			return err
		}
		stats.Folded.Store(f.Next() - 1)
		stats.Entries.Add(uint64(len(entries)))
	}
}
