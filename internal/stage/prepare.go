package stage

import (
	gort "runtime"
	"sync"
	"sync/atomic"
)

// Preparer is an [IntakeFold] that can do a part of Admit's work in advance: the part that depends only on the message.
type Preparer interface {
	// Prepare returns the value for Message.Prepared, which Admit uses. It is called from several goroutines at once,
	// and must depend only on m.
	Prepare(m *Message) any
}

// prepare calls the fold's Prepare for the messages of a batch, on all processors. It does nothing for a batch of one
// message, because Admit does the work as fast.
func (s *intakeStage) prepare(batch []*queued) {
	fold, ok := s.fold.(Preparer)
	if !ok || len(batch) < 2 {
		return
	}
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(batch)); i = next.Add(1) - 1 {
			if m := batch[i].msg; m.Prepared == nil && batch[i].why == nil {
				m.Prepared = fold.Prepare(m)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(gort.GOMAXPROCS(0), len(batch)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
