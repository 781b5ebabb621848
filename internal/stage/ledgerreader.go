package stage

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// arrival is a message of the ledger as it was read. Several stages may hold
// the same one: nobody changes it, nor what its entry points to.
type arrival struct {
	entry streams.Entry // with what could be read of it
	err   error         // why it is not an entry of ours, or nil
}

// arrive reads a ledger message, nil if the server did not say which one it is.
func arrive(m jetstream.Msg, log *slog.Logger) *arrival {
	md, err := m.Metadata()
	if err != nil {
		log.Error("ledger message without metadata", "err", err)
		return nil
	}
	a := new(arrival)
	a.entry, a.err = streams.ParseEntry(m.Subject(), m.Headers(), m.Data(), md.Sequence.Stream, md.Timestamp)
	return a
}

// same reports whether two readers have read the same message of the same stream.
func (a *arrival) same(b *arrival) bool {
	return a.err == nil && b.err == nil && a.entry.Seq == b.entry.Seq && a.entry.Salt == b.entry.Salt && a.entry.Time.Equal(b.entry.Time)
}

// ledgerReader delivers the ledger's messages in order, from a sequence on. It
// has a consumer of its own until it has come as far as the process's feed, if
// there is one, and again whenever its stage falls too far behind it.
type ledgerReader struct {
	msgs chan *arrival
	done chan struct{}

	feed    *Feed
	only    string // the stage whose entries are wanted; empty: all
	filters []string
	nc      *nats.Conn
	log     *slog.Logger
	cut     chan struct{} // the feed has let go of this reader
	ended   chan struct{}

	// Owned by whoever delivers: the own consumer's goroutine or, guarded by
	// Feed.mu, the feed.
	next  uint64     // sequence to go on with
	trail []*arrival // read last over its own consumer, newest last
}

// trailMost is how many entries a reader may be ahead of the feed and join it.
const trailMost = 32

// ledgerAhead is how many entries a reader holds for its stage: more than the
// batches that ingest decides before it looks at the ledger again.
const ledgerAhead = 8192

// openLedgerReader starts to read the ledger from a sequence on: of one stage if
// only is set, and only subjects that match filters if there are any; such a
// reader stays alone.
func openLedgerReader(ctx context.Context, nc *nats.Conn, feed *Feed, filters []string, only string, from uint64, log *slog.Logger) (*ledgerReader, error) {
	switch {
	case len(filters) > 0:
		feed = nil
	case only != "" && feed == nil:
		filters = []string{streams.LedgerStageFilter(only)}
	}
	r := &ledgerReader{msgs: make(chan *arrival, ledgerAhead), done: make(chan struct{}), feed: feed, only: only, filters: filters, nc: nc, log: log,
		cut: make(chan struct{}, 1), ended: make(chan struct{}), next: from}
	c, joined, err := r.own(ctx)
	if err != nil {
		return nil, err
	}
	go r.keep(c, joined)
	return r, nil
}

// own reads over a consumer of its own. joined is closed when the feed has taken
// over; the consumer delivers nothing any more then.
func (r *ledgerReader) own(ctx context.Context) (c *consumption, joined chan struct{}, err error) {
	js, err := jetstream.New(r.nc)
	if err != nil {
		return nil, nil, err
	}
	joined, over := make(chan struct{}), false
	c, err = consume(ctx, js, streams.LedgerStream, r.filters, r.next, r.log, func(m jetstream.Msg) {
		if over {
			return
		}
		a := arrive(m, r.log)
		if a == nil {
			return
		}
		if r.wants(a) {
			select {
			case r.msgs <- a:
			case <-r.done:
				return
			}
		}
		r.next = a.entry.Seq + 1
		if r.feed == nil {
			return
		}
		if r.trail = append(r.trail, a); len(r.trail) > trailMost {
			r.trail = append(r.trail[:0], r.trail[trailMost/2:]...)
		}
		if r.feed.join(r) {
			over, r.trail = true, nil
			close(joined)
		}
	})
	return c, joined, err
}

// keep sees to it that there is somebody who delivers, until the reader is closed.
func (r *ledgerReader) keep(c *consumption, joined chan struct{}) {
	defer close(r.ended)
	for {
		select {
		case <-r.done:
			c.stop()
			r.feed.leave(r)
			return
		case <-joined:
			c.stop()
		}
		select {
		case <-r.done:
			r.feed.leave(r)
			return
		case <-r.cut:
		}
		for {
			ctx, cancel := context.WithTimeout(context.Background(), ackTimeout)
			var err error
			c, joined, err = r.own(ctx)
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, nats.ErrConnectionClosed) {
				r.log.Warn("the ledger cannot be read", "err", err)
			}
			select {
			case <-r.done:
				return
			case <-time.After(reopenEvery):
			}
		}
	}
}

func (r *ledgerReader) wants(a *arrival) bool { return r.only == "" || r.only == a.entry.Stage }

// close stops the reader. What it still holds is dropped.
func (r *ledgerReader) close() {
	close(r.done)
	<-r.ended
}

// drain appends what is there already to buf, up to its capacity.
func (r *ledgerReader) drain(buf []*arrival) []*arrival {
	for len(buf) < cap(buf) {
		select {
		case a := <-r.msgs:
			buf = append(buf, a)
		default:
			return buf
		}
	}
	return buf
}
