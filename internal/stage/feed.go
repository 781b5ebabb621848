package stage

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Feed reads new ledger entries once for all stages of a process. So there is one consumer for the whole process, and
// each entry is delivered and parsed once, instead of once for each stage.
//
// A Feed does not delay any stage. A stage starts with its own consumer and joins the feed once both have read the same
// entry, compared by sequence, salt and time stamp. A stage that falls too far behind is released: it continues with
// its own consumer and joins again later. So each stage sees the ledger in order and without gaps, whatever the feed
// and the other stages do.
//
// With a nil Feed, each stage reads with its own consumer.
type Feed struct {
	log *slog.Logger
	c   *consumption

	mu     sync.Mutex
	recent []*arrival      // the last messages, newest last; guarded by mu
	bytes  int             // size of their bodies; guarded by mu
	taps   []*ledgerReader // readers that have joined; guarded by mu
	// Entries that this process has published, or is publishing, and has not read back, in order; guarded by mu.
	made   []made
	cuts   int  // how often a reader was released; guarded by mu
	closed bool // guarded by mu
}

const (
	// feedRecent is the number of messages in Feed.recent. A stage that is at most this many messages behind can join
	// the feed, even under constant load.
	feedRecent      = 512
	feedRecentBytes = 1 << 20 // target size of their bodies in bytes; at times there is twice as much
)

// OpenFeed starts a feed at the end of the ledger. nc needs no permission except to read the ledger.
func OpenFeed(ctx context.Context, nc *nats.Conn, log *slog.Logger) (*Feed, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	st, err := Stream(ctx, js, streams.LedgerStream)
	if err != nil {
		return nil, err
	}
	f := &Feed{log: log}
	// Start at the last entry, so that a stage that has read it can join at once.
	if f.c, err = consume(ctx, js, streams.LedgerStream, nil, st.CachedInfo().State.LastSeq, log, f.take); err != nil {
		return nil, err
	}
	return f, nil
}

// made is an entry that this process publishes, and the entry's decoded body.
type made struct {
	salt    [streams.SaltSize]byte
	body    []byte
	decoded any
}

// mostMade is the maximum length of Feed.made.
const mostMade = 4 * batchMaxMsgs

// announce stores the decoded bodies of entries that are about to be published, so that no stage of this process
// decodes them again. If the server refuses an announced entry, its decoded body does no harm: it is used only for an
// entry that is read back with the same salt and the same body.
func (f *Feed) announce(entries []*streams.Entry, decoded func(i int) any) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, e := range entries {
		if d := decoded(i); d != nil {
			f.made = append(f.made, made{e.Salt, e.Body, d})
		}
	}
	f.dropMade(len(f.made) - mostMade)
}

// know sets Decoded of an entry that was read back, if this process announced the entry. Entries are read back in the
// order in which they were published, so know drops the entries that were announced before e. The caller must hold mu.
func (f *Feed) know(e *streams.Entry) {
	if e.Stage != streams.StageIngest {
		return // other stages announce nothing
	}
	i := slices.IndexFunc(f.made, func(m made) bool { return m.salt == e.Salt })
	if i < 0 {
		return
	}
	if m := &f.made[i]; bytes.Equal(m.body, e.Body) {
		e.Body, e.Decoded = m.body, m.decoded
	}
	f.dropMade(i + 1)
}

// dropMade drops the first n announced entries. The caller must hold mu.
func (f *Feed) dropMade(n int) {
	if n > 0 {
		clear(f.made[:n])
		f.made = f.made[n:]
	}
}

// take passes a message to all readers that have joined. The consumer's goroutine calls it, in ledger order.
func (f *Feed) take(m jetstream.Msg) {
	a := arrive(m, f.log)
	if a == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range a.entries {
		f.know(&a.entries[i])
	}
	if t := a.first().Type; t == streams.TypeForgotten || t == streams.TypeErased {
		f.forgetRecent(len(f.recent)) // recent messages may contain content that this entry orders to forget
		f.dropMade(len(f.made))
	}
	f.remember(a)
	f.taps = slices.DeleteFunc(f.taps, func(r *ledgerReader) bool {
		if a.first().Seq < r.next || r.offer(a) {
			return false
		}
		f.release(r)
		return true
	})
}

// remember adds a message to recent. The caller must hold mu.
func (f *Feed) remember(a *arrival) {
	f.recent = append(f.recent, a)
	f.bytes += a.size()
	if len(f.recent) >= 2*feedRecent {
		f.forgetRecent(len(f.recent) - feedRecent)
	}
	if f.bytes > 2*feedRecentBytes {
		drop, left := 0, f.bytes
		for ; left > feedRecentBytes && drop < len(f.recent)-1; drop++ {
			left -= f.recent[drop].size()
		}
		f.forgetRecent(drop)
	}
}

// forgetRecent drops the n oldest messages of recent. The caller must hold mu.
func (f *Feed) forgetRecent(n int) {
	for _, a := range f.recent[:n] {
		f.bytes -= a.size()
	}
	f.recent = slices.Delete(f.recent, 0, n)
}

// offer passes a message to a reader that has joined, and reports whether the reader had room. The caller must hold
// Feed.mu.
func (r *ledgerReader) offer(a *arrival) bool {
	if !r.wants(a) {
		return true
	}
	if r.full(a) {
		return false
	}
	size := int64(a.size())
	r.held.Add(size)
	select {
	case r.msgs <- a:
		r.next = a.first().Seq + 1
		return true
	default:
		r.held.Add(-size)
		return false
	}
}

// join passes the recent messages that a reader has not read yet to the reader, and from then on all later ones. It
// returns false if reader and feed have no message in common, or if too many messages wait for the reader's stage.
func (f *Feed) join(r *ledgerReader) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.recent) == 0 || f.closed {
		return false
	}
	bySeq := func(a, b *arrival) int { return cmp.Compare(a.first().Seq, b.first().Seq) }
	// Find the last message that both have read: the reader's last one, or the feed's if that one is earlier.
	last, newest := r.trail[len(r.trail)-1], f.recent[len(f.recent)-1]
	at, found := len(f.recent)-1, false
	if newest.first().Seq < last.first().Seq {
		var i int
		if i, found = slices.BinarySearchFunc(r.trail, newest, bySeq); found {
			found = r.trail[i].same(newest)
		}
	} else if at, found = slices.BinarySearchFunc(f.recent, last, bySeq); found {
		found = f.recent[at].same(last)
	}
	if !found {
		return false
	}
	// Leave half of the reader's room free, so that the feed does not release the reader at once.
	more, size := f.recent[at+1:], r.held.Load()
	for _, a := range more {
		size += int64(a.size())
	}
	if len(r.msgs)+len(more) <= cap(r.msgs)/2 && size <= ledgerAheadBytes/2 {
		for _, a := range more {
			r.offer(a)
		}
		f.taps = append(f.taps, r)
		return true
	}
	return false
}

// release makes a reader continue with its own consumer, because it has no room or the feed ends. The caller must hold
// mu.
func (f *Feed) release(r *ledgerReader) {
	f.cuts++
	f.log.Debug("a stage has fallen behind the feed", "at", r.next)
	r.cut <- struct{}{} // does not block: a reader gets one signal for each time it joined
}

// leave removes a reader that is being closed.
func (f *Feed) leave(r *ledgerReader) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taps = slices.DeleteFunc(f.taps, func(t *ledgerReader) bool { return t == r })
}

// Close stops the feed. Its readers continue with their own consumers. A nil Feed may be closed.
func (f *Feed) Close() {
	if f == nil {
		return
	}
	f.c.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, r := range f.taps {
		f.release(r)
	}
	f.taps = nil
}
