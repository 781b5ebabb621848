package stage

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// TailStage calls fn for every entry that a stage adds from now on, in all partitions, until stop is called. The calls
// are made by one goroutine, in ledger order. fn sees every entry that is published after TailStage returns. feed may
// be nil.
func TailStage(ctx context.Context, nc *nats.Conn, feed *Feed, stage string, log *slog.Logger,
	fn func(streams.Entry)) (stop func(), err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	st, err := Stream(ctx, js, streams.LedgerStream)
	if err != nil {
		return nil, err
	}
	rd, err := openLedgerReader(ctx, nc, feed, nil, stage, st.CachedInfo().State.LastSeq+1, log)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-rd.done:
				return
			case a := <-rd.msgs:
				rd.took(a)
				if a.err != nil {
					log.Error("a message in the ledger is from no stage of Lazaret; it is skipped", "err", a.err)
					continue
				}
				for _, e := range a.entries {
					if e.Stage == stage {
						fn(e)
					}
				}
			}
		}
	}()
	return func() { rd.close(); <-done }, nil
}

// ReadEntry returns the ledger entry at a position. It returns the error jetstream.ErrMsgNotFound if there is none. If
// no stage wrote the message, it returns an error together with an entry that has the fields that could be read.
func ReadEntry(ctx context.Context, js jetstream.JetStream, at uint64) (streams.Entry, error) {
	m, err := messageAt(ctx, js, streams.LedgerStream, position.Sequence(at))
	if err != nil {
		return streams.Entry{}, err
	}
	entries, err := wire.RawEntries(m)
	if i := position.Index(at); i < len(entries) {
		return entries[i], err
	}
	return streams.Entry{}, fmt.Errorf("ledger message %d has %d entries, but none with index %d: %w", m.Sequence,
		len(entries), position.Index(at), jetstream.ErrMsgNotFound)
}
