package stage

import (
	"context"
	gort "runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Preparer is an [IntakeFold] that can do a part of Admit's work in advance: the part that depends only on the message.
type Preparer interface {
	// Prepare returns the value for Message.Prepared, which Admit uses. It is called from several goroutines at once,
	// and must depend only on m.
	Prepare(m *Message) any
}

// readers is the number of goroutines of one lookAhead. They mostly wait for the server.
const readers = 4

// lookAhead prepares messages that will be decided soon, while the loop decides others: it reads data that is not in
// memory from the intake, parses batches, and calls the fold's Prepare. If it cannot read a message, the loop reads the
// message when it decides it.
func (s *intakeStage) lookAhead(ctx context.Context, soon []*queued) {
	type job struct {
		events []*queued
		done   chan struct{}
	}
	jobs := make(chan job, len(soon))
	for len(soon) > 0 {
		n := slices.IndexFunc(soon, func(q *queued) bool { return q.msg.Seq != soon[0].msg.Seq })
		if n < 0 {
			n = len(soon)
		}
		done := make(chan struct{})
		for _, q := range soon[:n] {
			q.early = done
		}
		jobs <- job{soon[:n], done}
		soon = soon[n:]
	}
	close(jobs)
	for range min(readers, len(jobs)) {
		go func() {
			for j := range jobs {
				if ctx.Err() == nil {
					s.readEarly(ctx, j.events)
				}
				close(j.done)
			}
		}()
	}
}

// readEarly does the work of lookAhead for events of one stored message.
func (s *intakeStage) readEarly(ctx context.Context, events []*queued) {
	var all []*Message // the events of the stored message
	for _, q := range events {
		if !q.lean && q.events == 0 {
			s.prepareOne(q.msg)
			continue
		}
		if all == nil {
			all, _ = s.eventsIn(ctx, q)
		}
		if q.read = all; all == nil {
			return
		}
		if q.events == 0 {
			if m := eventAt(all, q.msg); m != nil {
				s.prepareOne(m)
			}
			continue
		}
		for _, m := range all {
			s.prepareOne(m)
		}
	}
}

// soon returns those messages from index i of the line on that lookAhead has not prepared: at most n events, and at
// most the given size in bytes, unless a single message is larger.
func (l *line) soon(i, n, bytes int) (soon []*queued) {
	for _, q := range l.queue[i:] {
		if n <= 0 || bytes <= 0 {
			break
		}
		n, bytes = n-max(q.events, 1), bytes-q.cost()
		if q.early == nil && q.read == nil && q.msg.Prepared == nil {
			soon = append(soon, q)
		}
	}
	return soon
}

// await waits until lookAhead has finished with the event.
func (q *queued) await() {
	if q.early != nil {
		<-q.early
		q.early = nil
	}
}

// prepare calls the fold's Prepare for the messages of a batch that lookAhead has not prepared, on all processors. It
// does nothing for a batch of one message, because Admit does the work as fast.
func (s *intakeStage) prepare(batch []*queued) {
	var rest []*Message
	for _, q := range batch {
		if q.await(); q.msg.Prepared == nil && q.why == nil {
			rest = append(rest, q.msg)
		}
	}
	if len(rest) < 2 {
		return
	}
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(rest)); i = next.Add(1) - 1 {
			s.prepareOne(rest[i])
		}
	}
	var wg sync.WaitGroup
	for range min(gort.GOMAXPROCS(0), len(rest)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// prepareOne calls the fold's Prepare, unless it was called already.
func (s *intakeStage) prepareOne(m *Message) {
	if fold, ok := s.fold.(Preparer); ok && m.Prepared == nil {
		m.Prepared = fold.Prepare(m)
	}
}
