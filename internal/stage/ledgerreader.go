package stage

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// arrival is a ledger message that was read. Several stages may share an arrival. So neither the arrival nor any value
// that its entries refer to may be modified.
type arrival struct {
	entries []streams.Entry // at least one; if err is set, the entries have only the fields that could be read
	err     error           // set if no stage of Lazaret wrote the message, or if a later version did
}

// first returns the message's first entry. Code that needs only the sequence, time stamp, partition or stage uses it,
// because these are the same for all entries of a message.
func (a *arrival) first() *streams.Entry { return &a.entries[0] }

// size returns the total size of the entries' bodies in bytes.
func (a *arrival) size() (n int) {
	for i := range a.entries {
		n += len(a.entries[i].Body)
	}
	return n
}

// arrive parses a ledger message. It returns nil if the message has no metadata.
func arrive(m jetstream.Msg, log *slog.Logger) *arrival {
	md, err := m.Metadata()
	if err != nil {
		log.Error("ledger message without metadata", "err", err)
		return nil
	}
	a := new(arrival)
	a.entries, a.err = streams.ParseEntries(m.Subject(), m.Headers(), m.Data(), md.Sequence.Stream, md.Timestamp)
	return a
}

// same reports whether a and b are the same message of the same stream.
func (a *arrival) same(b *arrival) bool {
	x, y := a.first(), b.first()
	return a.err == nil && b.err == nil && x.Seq == y.Seq && x.Salt == y.Salt && x.Time.Equal(y.Time)
}

// ledgerReader delivers the ledger's messages in order, from a sequence on. It first reads with its own consumer. Once
// it has caught up with the process's feed, it takes messages from the feed instead. If its stage falls too far behind
// the feed, it uses its own consumer again.
type ledgerReader struct {
	msgs chan *arrival
	done chan struct{}

	feed    *Feed
	only    string // deliver only messages with entries of this stage; empty: all messages
	filters []string
	nc      *nats.Conn
	log     *slog.Logger
	cut     chan struct{} // signals that the feed has released this reader
	ended   chan struct{}

	held atomic.Int64  // total size in bytes of the bodies in messages that wait for the stage
	room chan struct{} // signals that the stage took a message

	// Only the goroutine that delivers messages uses these fields. That is the goroutine of the reader's own consumer
	// or, while holding Feed.mu, that of the feed.
	next  uint64     // next sequence
	trail []*arrival // last messages from the reader's own consumer, newest last
}

// trailMost is the maximum length of ledgerReader.trail. A reader that is ahead of the feed can join it only if the
// feed's last message is in its trail.
const trailMost = 32

// ledgerAhead is the maximum number of messages that wait for the reader's stage. It is more than the messages that
// ingest can publish before it reads the ledger again.
const ledgerAhead = 8192

// ledgerAheadBytes is the maximum size in bytes of the bodies in messages that wait for the reader's stage, unless a
// single message is larger.
const ledgerAheadBytes = 16 << 20

// full reports whether a message must wait, because with it the waiting bodies would be larger than ledgerAheadBytes.
func (r *ledgerReader) full(a *arrival) bool {
	held := r.held.Load()
	return held > 0 && held+int64(a.size()) > ledgerAheadBytes
}

// took records that the stage took a message, which makes room for another one.
func (r *ledgerReader) took(a *arrival) {
	r.held.Add(-int64(a.size()))
	select {
	case r.room <- struct{}{}:
	default:
	}
}

// openLedgerReader starts to read the ledger from a sequence on. If only is not empty, it reads the messages with
// entries of that stage. If there are filters, it reads only subjects that match one of them, and never joins the feed.
// feed may be nil; then the reader reads only with its own consumer.
func openLedgerReader(ctx context.Context, nc *nats.Conn, feed *Feed, filters []string, only string, from uint64,
	log *slog.Logger) (*ledgerReader, error) {
	switch {
	case len(filters) > 0:
		feed = nil
	case only != "" && feed == nil:
		filters = streams.StageFilters(only)
	}
	r := &ledgerReader{msgs: make(chan *arrival, ledgerAhead), done: make(chan struct{}), feed: feed, only: only,
		filters: filters, nc: nc, log: log,
		cut: make(chan struct{}, 1), ended: make(chan struct{}), room: make(chan struct{}, 1), next: from}
	c, joined, err := r.own(ctx)
	if err != nil {
		return nil, err
	}
	go r.keep(c, joined)
	return r, nil
}

// own starts to read with the reader's own consumer. Once the reader has joined the feed, own closes joined, and the
// consumer delivers nothing more.
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
			for r.full(a) {
				select {
				case <-r.room:
				case <-r.done:
					return
				}
			}
			r.held.Add(int64(a.size()))
			select {
			case r.msgs <- a:
			case <-r.done:
				return
			}
		}
		r.next = a.first().Seq + 1
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

// keep gives the reader a consumer of its own again whenever the feed releases the reader, until the reader is closed.
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
				r.log.Warn("cannot read the ledger; trying again", "err", err)
			}
			select {
			case <-r.done:
				return
			case <-time.After(reopenEvery):
			}
		}
	}
}

func (r *ledgerReader) wants(a *arrival) bool {
	return r.only == "" || r.only == a.first().Stage || a.first().Joint
}

// close stops the reader. Messages that wait for the stage are dropped.
func (r *ledgerReader) close() {
	close(r.done)
	<-r.ended
}

// drainBytes is the size of a batch in bytes at which drain stops. The buffers for larger batches would not be kept for
// the next one.
const drainBytes = 2 << 20

// drain appends waiting messages to buf, up to its capacity. It stops at the first message with which the entries of
// buf have drainBytes or more.
func (r *ledgerReader) drain(buf []*arrival) []*arrival {
	size := 0
	for _, a := range buf {
		size += a.size()
	}
	for len(buf) < cap(buf) && size < drainBytes {
		select {
		case a := <-r.msgs:
			r.took(a)
			buf = append(buf, a)
			size += a.size()
		default:
			return buf
		}
	}
	return buf
}
