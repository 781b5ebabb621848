package stage

import (
	gort "runtime"
	"sync"
	"sync/atomic"
)

// Preparer is an [IntakeFold] that does a part of Admit's work before it: the part that
// follows from the message alone.
type Preparer interface {
	// Prepare returns what Admit finds in Message.Prepared. It is called for several
	// messages at once, and depends on nothing but the message.
	Prepare(m *Message) any
}

// prepare has the fold prepare a batch on all processors. A message alone is left to
// Admit, which needs no help to be as fast.
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
