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

// Feed reads the tail of the ledger once for all stages of a process: one consumer, one
// delivery and one parsed entry in the place of one each.
//
// It delays no stage. A stage begins with a consumer of its own and joins once both have
// read the same entry, by sequence, salt and stamp. One that falls too far behind is
// released, goes on with a consumer of its own from where it was, and joins again when it
// has caught up. So each stage sees the ledger's order without a gap, whatever the feed
// or the others do.
//
// A nil Feed is none: every stage reads for itself.
type Feed struct {
	log *slog.Logger
	c   *consumption

	mu     sync.Mutex
	recent []*arrival      // guarded by mu; what was read last, newest last
	bytes  int             // guarded by mu; of the bodies in it
	taps   []*ledgerReader // guarded by mu; those who have joined
	made   []made          // guarded by mu; what this process publishes, in order
	cuts   int             // guarded by mu; how often one was let go
	closed bool            // guarded by mu
}

const (
	// feedRecent is how many messages are kept for stages that join: a stage that is no
	// further behind catches up without a pause in the load.
	feedRecent      = 512
	feedRecentBytes = 4 << 20 // of their bodies; twice as many for a while
)

// OpenFeed starts to read the ledger's tail. The connection has to be allowed to
// read the ledger, and nothing else.
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
	// From the last entry on: a stage that has read it can join at once.
	if f.c, err = consume(ctx, js, streams.LedgerStream, nil, st.CachedInfo().State.LastSeq, log, f.take); err != nil {
		return nil, err
	}
	return f, nil
}

// made is an entry that this process publishes, with what its body encodes.
type made struct {
	salt    [streams.SaltSize]byte
	body    []byte
	decoded any
}

// mostMade is how many of them are remembered until they are read back.
const mostMade = 4 * batchMaxMsgs

// announce stores the decoded bodies of entries that are about to be published, so that
// no stage in this process decodes them. It does not matter whether they get into the
// ledger: an entry that is read back is matched by its salt and its body, byte for byte.
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
	f.unmake(len(f.made) - mostMade)
}

// know gives an entry what its body encodes, if it was announced. Entries come
// back in the order in which they were published, so that those before it never
// will. Guarded by mu.
func (f *Feed) know(e *streams.Entry) {
	if e.Stage != streams.StageIngest {
		return // the others announce nothing
	}
	i := slices.IndexFunc(f.made, func(m made) bool { return m.salt == e.Salt })
	if i < 0 {
		return
	}
	if m := &f.made[i]; bytes.Equal(m.body, e.Body) {
		e.Body, e.Decoded = m.body, m.decoded
	}
	f.unmake(i + 1)
}

// unmake forgets the first n of what was announced. Guarded by mu.
func (f *Feed) unmake(n int) {
	if n > 0 {
		clear(f.made[:n])
		f.made = f.made[n:]
	}
}

// take hands a message to all who have joined. Called by the consumer's
// goroutine, in ledger order.
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
		f.forgetRecent(len(f.recent)) // what is forgotten is nowhere
		f.unmake(len(f.made))
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

// remember adds to what was read last. Guarded by mu.
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

// forgetRecent drops the first n of what was read last. Guarded by mu.
func (f *Feed) forgetRecent(n int) {
	for _, a := range f.recent[:n] {
		f.bytes -= a.size()
	}
	f.recent = slices.Delete(f.recent, 0, n)
}

// offer hands an arrival to the stage if there is room. Guarded by Feed.mu.
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

// join hands what a reader has not read yet to it, and all that comes from then
// on. It does not if both have not read the same entry or if too much waits for
// the reader's stage.
func (f *Feed) join(r *ledgerReader) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.recent) == 0 || f.closed {
		return false
	}
	bySeq := func(a, b *arrival) int { return cmp.Compare(a.first().Seq, b.first().Seq) }
	// The last that both have read: the reader's, or the feed's if that is behind.
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
	// Half of its room is left, so that it is not let go at once.
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

// release makes a reader go on by itself. Guarded by mu.
func (f *Feed) release(r *ledgerReader) {
	f.cuts++
	f.log.Debug("a stage has fallen behind the feed", "at", r.next)
	r.cut <- struct{}{} // it has joined once since the last time, so there is room
}

// leave ends what join began, if it did.
func (f *Feed) leave(r *ledgerReader) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taps = slices.DeleteFunc(f.taps, func(t *ledgerReader) bool { return t == r })
}

// Close stops the feed. Its readers go on with consumers of their own.
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
