package stage

import (
	gort "runtime"
	"sync"
	"sync/atomic"
)

// Preparer is an [IntakeFold] that can do a part of Admit's work in advance: the part that depends
// on the message alone.
type Preparer interface {
	// Prepare returns the value for Message.Prepared, which Admit uses. It is called concurrently
	// and must depend only on the message.
	Prepare(m *Message) any
}

// prepare calls the fold's Prepare for a batch on all processors. It skips a batch of one message,
// for which Admit alone is as fast.
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
