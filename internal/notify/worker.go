package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// Pauses between two attempts of a delivery.
const (
	leastPause = 250 * time.Millisecond
	maxPause   = time.Minute
)

const (
	tick     = 100 * time.Millisecond
	mostOf   = 100             // maximum number of notifications in one message
	reminded = 5 * time.Second // interval of checks for due reminders
	// maxSettled is the number of delivered entries that are remembered. It exceeds the number that can
	// be redelivered.
	maxSettled = 2 * maxWaiting
)

// worker runs one route. Its fields belong to the goroutine of run.
type worker struct {
	*Route
	dir, console string
	seen         *sensitivities
	log          *slog.Logger
	cons         jetstream.Consumer

	waiting map[uint64]*waiting // unacknowledged ledger messages, by sequence
	groups  map[string]*batch   // batches that still collect notifications, by Notice.group
	queue   []*batch            // ready to be sent
	told    reminders
	changed bool     // the reminders differ from their file
	settled []uint64 // sequences of the latest delivered entries
	forgot  int      // number of statements of seen.erased that forget has applied
}

// waiting is a ledger message with undelivered notifications.
type waiting struct {
	msg  jetstream.Msg
	left int
}

// batch is the content of one message.
type batch struct {
	notices []*Notice
	from    []uint64 // ledger sequence of each; 0: a reminder
	since   time.Time
	tries   int
	first   time.Time // time of the first attempt
	next    time.Time // earliest time of the next attempt
}

// arrival is a ledger message with the route's notifications for it.
type arrival struct {
	msg     jetstream.Msg
	seq     uint64
	notices []*Notice
	err     error // why the message cannot be read
}

// open finds the route's consumer. It writes a dead letter for entries that were trimmed before the
// route read them.
func (w *worker) open(ctx context.Context, nc *nats.Conn) (err error) {
	js := wire.JetStream(nc)
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	w.cons, err = js.Consumer(ctx, streams.LedgerStream, Consumer(w.Name))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("the ledger has no consumer %s: run lazaret notify init", Consumer(w.Name))
	}
	if err != nil {
		return fmt.Errorf("consumer %s: %w", Consumer(w.Name), err)
	}
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return err
	}
	info, first := w.cons.CachedInfo(), st.CachedInfo().State.FirstSeq
	if from := info.AckFloor.Stream + 1; from > 1 && from < first {
		w.log.Error("entries were trimmed before they were read: their notifications are lost", "from", from, "to",
			first-1)
		if err := bury(w.dir, Dead{Time: time.Now().UTC(), Route: w.Name, Entry: from, To: first - 1,
			Error: "the ledger was trimmed before these entries were read"}); err != nil {
			return err
		}
	}
	w.waiting, w.groups = make(map[uint64]*waiting), make(map[string]*batch)
	w.told, err = readJSON[reminders](remindersFile(w.dir, w.Name))
	if w.told == nil {
		w.told = make(reminders)
	}
	return err
}

// pull sends the consumer's messages to a channel until ctx ends.
func (w *worker) pull(ctx context.Context, to chan<- arrival) {
	for ctx.Err() == nil {
		it, err := w.cons.Messages(jetstream.PullMaxMessages(128))
		if err == nil {
			stop := context.AfterFunc(ctx, it.Stop)
			err = w.pullFrom(ctx, it, to)
			stop()
			it.Stop()
		}
		if ctx.Err() == nil {
			w.log.Warn("the ledger cannot be read, trying again", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (w *worker) pullFrom(ctx context.Context, it jetstream.MessagesContext, to chan<- arrival) error {
	for {
		m, err := it.Next()
		if errors.Is(err, jetstream.ErrNoHeartbeat) {
			continue // the server cannot be reached
		}
		if err != nil {
			return err
		}
		md, err := m.Metadata()
		if err != nil {
			return err
		}
		a := arrival{msg: m, seq: md.Sequence.Stream}
		entries, err := wire.Entries(m)
		a.err = err
		for i := range entries {
			if err != nil {
				break
			}
			list, rerr := noticesOf(&entries[i])
			if rerr != nil {
				a.err = rerr
			}
			for _, n := range list {
				// A settled hold ends its reminders, even if the route does not send notifications
				// of settled holds.
				if !w.wants(n) && n.Kind != KindSettled {
					continue
				}
				w.seen.await(ctx, a.seq)
				if w.seen.gone(&entries[i]) {
					break
				}
				if n.Kind == KindAlert && w.seen.silenced(n, entries[i].Seq) {
					continue
				}
				w.seen.redact(n, w.Route, entries[i].Position())
				n.link(w.console)
				a.notices = append(a.notices, n)
			}
		}
		select {
		case to <- a:
		case <-ctx.Done():
			return nil
		}
	}
}

// run delivers until ctx ends. It makes one delivery at a time, which preserves the order as long as
// none fails.
func (w *worker) run(ctx context.Context) {
	arrivals := make(chan arrival)
	done := make(chan struct{})
	go func() { defer close(done); w.pull(ctx, arrivals) }()
	defer func() { <-done }()
	type outcome struct {
		b   *batch
		err error
	}
	results := make(chan outcome, 1)
	busy := false
	clock := time.NewTicker(tick)
	defer clock.Stop()
	alive, remind := time.Now(), time.Time{}
	for {
		if b := w.due(time.Now()); b != nil && !busy {
			busy = true
			m := newMessage(b.notices)
			go func() {
				sctx, cancel := context.WithTimeout(ctx, sendTime+hangUp)
				defer cancel()
				results <- outcome{b, w.cleaned(w.receiver.send(sctx, m))}
			}()
		}
		select {
		case <-ctx.Done():
			if busy {
				if r := <-results; r.err == nil {
					w.settle(r.b, nil)
				}
			}
			for _, x := range w.waiting {
				_ = x.msg.Nak() // the next process gets it immediately
			}
			return
		case a := <-arrivals:
			w.take(a)
		case r := <-results:
			busy = false
			w.settle(r.b, r.err)
		case now := <-clock.C:
			w.forget()
			w.flush(now)
			if now.Sub(alive) > ackWait/4 {
				alive = now
				for _, x := range w.waiting {
					_ = x.msg.InProgress()
				}
			}
			if w.Repeat > 0 && now.Sub(remind) > reminded {
				remind = now
				w.remind(now)
			}
		}
	}
}

// take adds a ledger message.
func (w *worker) take(a arrival) {
	if old := w.waiting[a.seq]; old != nil {
		old.msg = a.msg // the server delivered it again
		return
	}
	if slices.Contains(w.settled, a.seq) { // its acknowledgment was lost, or it was queued here twice
		w.acknowledge(&waiting{msg: a.msg})
		return
	}
	now := time.Now()
	if a.err != nil {
		// The error may quote the entry.
		w.log.Error("a ledger entry cannot be read and becomes a dead letter", "entry", a.seq)
		if err := bury(w.dir, Dead{Time: now.UTC(), Route: w.Name, Entry: a.seq, Error: "it cannot be read"}); err != nil {
			w.log.Error("a dead letter cannot be written", "err", err)
			return // the server delivers it again
		}
	}
	x := &waiting{msg: a.msg}
	for _, n := range a.notices {
		if n.Kind == KindSettled {
			w.ended(n.thread())
		}
		if !w.wants(n) {
			continue
		}
		x.left++
		key := n.group()
		if w.Group == 0 {
			key = n.ID
		}
		g := w.groups[key]
		if g == nil {
			g = &batch{since: now}
			w.groups[key] = g
		}
		g.notices, g.from = append(g.notices, n), append(g.from, a.seq)
		if w.Group == 0 || len(g.notices) >= mostOf {
			delete(w.groups, key)
			w.queue = append(w.queue, g)
		}
	}
	if x.left == 0 {
		w.acknowledge(x)
		return
	}
	w.waiting[a.seq] = x
}

// ended removes the reminders of a hold, even if its notification is not delivered yet.
func (w *worker) ended(thread string) {
	if w.told[thread] != nil {
		delete(w.told, thread)
		w.changed = true
	}
	all := slices.Clone(w.queue)
	for _, g := range w.groups {
		all = append(all, g)
	}
	for _, b := range all {
		for _, n := range b.notices {
			n.over = n.over || n.Kind == KindHold && n.thread() == thread
		}
	}
}

// flush queues the groups whose collection time has passed. If half of the messages that the consumer may have
// unacknowledged are waiting, it queues all groups.
func (w *worker) flush(now time.Time) {
	var keys []string
	for k, g := range w.groups {
		if now.Sub(g.since) >= w.Group || len(w.waiting) >= maxWaiting/2 {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		w.queue = append(w.queue, w.groups[k])
		delete(w.groups, k)
	}
}

// due returns the first queued batch whose next attempt is due, or nil.
func (w *worker) due(now time.Time) *batch {
	for _, b := range w.queue {
		if !now.Before(b.next) {
			return b
		}
	}
	return nil
}

// settle handles the result of a delivery: err is nil if the receiver accepted the batch.
func (w *worker) settle(b *batch, err error) {
	if len(b.notices) == 0 {
		return // forget dropped it during the delivery
	}
	now := time.Now()
	var refused refusal
	if b.tries++; b.tries == 1 {
		b.first = now
	}
	switch {
	case err == nil:
	case errors.As(err, &refused) || now.Sub(b.first) >= w.GiveUp:
		w.log.Error("a notification was not delivered: see lazaret notify dead", "id", b.notices[0].ID, "notifications",
			len(b.notices), "tries", b.tries, "err", err)
		var letters []Dead
		for _, n := range b.notices {
			letters = append(letters, Dead{Time: now.UTC(), Route: w.Name, ID: n.ID, Kind: n.Kind, Project: n.Project,
				Entry: n.Entry, Link: n.Link, Error: err.Error()})
		}
		if berr := bury(w.dir, letters...); berr != nil {
			w.log.Error("dead letters cannot be written, trying again", "err", berr)
			b.next = now.Add(maxPause)
			return
		}
	default:
		pause := min(leastPause<<min(b.tries-1, 10), maxPause)
		var said later
		if errors.As(err, &said) {
			pause = said.after
		}
		b.next = now.Add(pause + rand.N(pause/4))
		w.log.Warn("a notification is not delivered, trying again", "id", b.notices[0].ID, "tries", b.tries, "err", err)
		return
	}
	w.queue = slices.DeleteFunc(w.queue, func(x *batch) bool { return x == b })
	for i, n := range b.notices {
		if w.Repeat > 0 && err == nil && b.from[i] != 0 && n.Kind != KindSettled && !n.over {
			w.told.add(n, now)
			w.changed = true
		}
	}
	w.save()
	for _, seq := range b.from {
		w.finish(seq)
	}
}

// finish counts one notification of a ledger message as finished, and acknowledges the message after its last one.
func (w *worker) finish(seq uint64) {
	x := w.waiting[seq]
	if x == nil {
		return
	}
	if x.left--; x.left == 0 {
		w.acknowledge(x)
		delete(w.waiting, seq)
		w.settled = append(w.settled, seq)
		w.settled = w.settled[max(0, len(w.settled)-maxSettled):]
	}
}

// forget drops the notifications and reminders of entries that a statement orders to forget. A delivery that has begun
// is not stopped.
func (w *worker) forget() {
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	if w.forgot == w.seen.erasures {
		return
	}
	w.forgot = w.seen.erasures
	gone := func(n *Notice) bool { return w.seen.erased.Covers(n.Project, n.Entry) }
	dropped := 0
	empty := func(b *batch) bool {
		// The slices are made anew, because a delivery may read the old ones.
		var notices []*Notice
		var from []uint64
		for i, n := range b.notices {
			if gone(n) {
				w.finish(b.from[i])
				dropped++
			} else {
				notices, from = append(notices, n), append(from, b.from[i])
			}
		}
		b.notices, b.from = notices, from
		return len(notices) == 0
	}
	w.queue = slices.DeleteFunc(w.queue, empty)
	maps.DeleteFunc(w.groups, func(_ string, b *batch) bool { return empty(b) })
	for k, t := range w.told {
		if gone(&t.Notice) {
			delete(w.told, k)
			w.changed = true
		}
	}
	w.save()
	if dropped > 0 {
		w.log.Info("notifications of forgotten entries are not sent", "notifications", dropped)
	}
}

func (w *worker) acknowledge(x *waiting) {
	if err := x.msg.Ack(); err != nil {
		w.log.Warn("an entry could not be acknowledged: its notifications will be delivered again", "err", err)
	}
}

// save writes the reminders if they changed. It runs before the acknowledgement.
func (w *worker) save() {
	if !w.changed {
		return
	}
	if err := writeJSON(remindersFile(w.dir, w.Name), w.told); err != nil {
		w.log.Error("reminders could not be saved and are lost at a restart", "err", err)
		return
	}
	w.changed = false
}

// remind queues due reminders. It removes the reminders of threads that were acknowledged, settled, or
// repeated often enough.
func (w *worker) remind(now time.Time) {
	acks, err := readJSON[[]Ack](ackFile(w.dir))
	if err != nil {
		w.log.Warn("acknowledgements cannot be read", "err", err)
	}
	for _, a := range acks {
		if t := w.told[a.Thread]; t != nil && a.ends(t) {
			delete(w.told, a.Thread)
			w.changed = true
		}
	}
	for k, t := range w.told {
		ended := !t.Notice.Expires.IsZero() && now.After(t.Notice.Expires)
		if ended || t.Times >= w.Times {
			delete(w.told, k)
			w.changed = true
			continue
		}
		if now.Sub(t.Sent) < w.Repeat {
			continue
		}
		t.Times, t.Sent, w.changed = t.Times+1, now, true
		n := t.Notice
		n.Repeat = t.Times
		w.queue = append(w.queue, &batch{notices: []*Notice{&n}, from: []uint64{0}})
	}
	w.save()
}
