package arbiter

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"lazaret/internal/stage"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// admissions passes ingest's results to the requests that wait for them, by their place in the intake. Requests to
// observe wait for any result. Proposals and resolutions wait only for a rejection, because otherwise the arbiter
// answers them.
type admissions struct {
	mu      sync.Mutex
	waiting int                                     // number of waiting requests to observe
	others  int                                     // number of waiting proposals and resolutions
	heard   map[uint64]*streams.ObserveReply        // results for which no request has asked yet
	order   []uint64                                // the keys of heard, oldest first
	asked   map[uint64]chan<- *streams.ObserveReply // requests that wait for a result
}

// maxHeard is the maximum length of heard.
const maxHeard = 2*MaxWaiting + 4*streams.MaxBatch

// tail starts to read ingest's entries.
func (a *admissions) tail(ctx context.Context, cfg *FrontConfig) (stop func(), err error) {
	a.heard, a.asked = make(map[uint64]*streams.ObserveReply), make(map[uint64]chan<- *streams.ObserveReply)
	return stage.TailStage(ctx, cfg.Intake, cfg.Feed, streams.StageIngest, cfg.Log, a.take)
}

// take handles an entry of ingest. The goroutine of stage.TailStage calls it, in ledger order.
func (a *admissions) take(e streams.Entry) {
	if e.Type != streams.TypeObservation && e.Type != streams.TypeRepeat && e.Type != streams.TypeRejected {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == 0 && (a.others == 0 || e.Type != streams.TypeRejected) {
		return
	}
	rep := admittedReply(&e)
	if c, ok := a.asked[e.Src]; ok {
		delete(a.asked, e.Src)
		c <- rep
		return
	}
	a.heard[e.Src], a.order = rep, append(a.order, e.Src)
	if len(a.order) > maxHeard {
		delete(a.heard, a.order[0])
		a.order = a.order[1:]
	}
}

// enter registers a message of a request to observe that is about to be published. It returns false if MaxWaiting such
// messages wait. The caller must call leave at the end.
func (a *admissions) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting >= MaxWaiting {
		return false
	}
	a.waiting++
	return true
}

// forget ends the wait for the result of one event.
func (a *admissions) forget(at uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.asked, at)
}

func (a *admissions) leave(seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting--
	a.left(seq)
}

// left removes a request. The caller must hold mu.
func (a *admissions) left(seq uint64) {
	delete(a.asked, seq)
	if a.waiting+a.others == 0 {
		clear(a.heard)
		a.order = nil
	}
}

// proposed registers a proposal or a resolution that is about to be published. Front.await limits their number. The
// caller must call answered at the end.
func (a *admissions) proposed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.others++
}

func (a *admissions) answered(seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.others--
	a.left(seq)
}

// ask returns a channel that receives ingest's result for a message. For proposals and resolutions, it receives only a
// rejection.
func (a *admissions) ask(seq uint64) <-chan *streams.ObserveReply {
	c := make(chan *streams.ObserveReply, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if rep, ok := a.heard[seq]; ok {
		c <- rep
	} else {
		a.asked[seq] = c
	}
	return c
}

// wait waits for ingest's result for a message.
func (a *admissions) wait(ctx context.Context, seq uint64) (*streams.ObserveReply, error) {
	c := a.ask(seq)
	select {
	case rep := <-c:
		return rep, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// observe answers a request to publish an observation. It replies when the observation's entry is in the ledger, so
// that the sender learns whether it was rejected.
func (f *Front) observe(r micro.Request) ([]byte, *streams.ReplyError, error) {
	rep := f.observed(r)
	body, err := streams.Marshal(rep)
	return body, rep.Error, err
}

func (f *Front) observed(r micro.Request) *streams.ObserveReplies {
	failed := func(code streams.Code, err error) *streams.ObserveReplies {
		return &streams.ObserveReplies{ObserveReply: streams.ObserveReply{Error: fail(code, err).Error}}
	}
	_, a, err := streams.ParseService(r.Subject())
	if err != nil {
		return failed(streams.CodeBadSubject, err)
	}
	subject, err := streams.IntakeSubject(a.Project, a.Agent, a.Kind, a.Origin)
	if err != nil {
		return failed(streams.CodeBadSubject, err)
	}
	if !f.admitted.enter() {
		return failed(streams.CodeShedding, fmt.Errorf("too many requests: %d wait already", MaxWaiting))
	}
	var seq uint64
	defer func() { f.admitted.leave(seq) }()
	ctx, cancel := context.WithTimeout(context.Background(), f.cfg.Timeout)
	defer cancel()
	m := &nats.Msg{Subject: subject, Data: r.Data(), Header: forwarded(r.Headers())}
	events := 0 // number of events in the batch, or 0
	if streams.IsBatch(nats.Header(r.Headers())) {
		batch, _ := streams.ParseBatch(a.Kind, r.Data())
		events = len(batch)
		m.Header.Set(streams.HeaderContentType, streams.BatchContentType)
	}
	// Malformed content is published too: the agent may have seen it, so the ledger must record it.
	ack, err := f.js.PublishMsg(ctx, m)
	if err != nil {
		return failed(notPublished("observation", err))
	}
	seq = ack.Sequence
	if events > 0 {
		return f.observedAll(ctx, seq, events)
	}
	rep, err := f.admitted.wait(ctx, seq)
	if err != nil {
		late := failed(streams.CodeTimeout, fmt.Errorf("intake message %d is not in the ledger within %v", seq,
			f.cfg.Timeout))
		late.IntakeSeq = seq
		return late
	}
	return &streams.ObserveReplies{ObserveReply: *rep}
}

// observedAll waits for ingest's results for all events of a batch.
func (f *Front) observedAll(ctx context.Context, seq uint64, events int) *streams.ObserveReplies {
	all := &streams.ObserveReplies{Results: make([]*streams.ObserveReply, events)}
	all.IntakeSeq = seq
	for i := range all.Results {
		at := position.At(seq, i)
		rep, err := f.admitted.wait(ctx, at)
		if err != nil {
			f.admitted.forget(at)
			rep = &streams.ObserveReply{Error: fail(streams.CodeTimeout,
				fmt.Errorf("event %d of intake message %d is not in the ledger within %v", i, seq, f.cfg.Timeout)).Error}
		}
		rep.IntakeSeq, rep.Index = seq, i
		all.Results[i] = rep
	}
	return all
}

// admittedReply returns the reply for an entry of ingest.
func admittedReply(e *streams.Entry) *streams.ObserveReply {
	rep := &streams.ObserveReply{IntakeSeq: position.Sequence(e.Src), Index: position.Index(e.Src), Seq: e.Position(),
		Repeat: e.Type == streams.TypeRepeat}
	if e.Type == streams.TypeRejected {
		b, err := streams.Read[streams.RejectedEntry](e)
		if err != nil {
			rep.Error = fail(streams.CodeUnavailable, fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)).Error
			return rep
		}
		rep.ID, rep.Unseen, rep.Error = b.ID, b.Unseen, fail(b.Code, errors.New(b.Reason)).Error
		return rep
	}
	if o, ok := e.Decoded.(*streams.ObservationEntry); ok {
		rep.ID, rep.Reuses = o.ID, o.Reuses
		return rep
	}
	h := new(streams.EntryHead)
	if err := streams.Unmarshal(e.Body, h); err != nil {
		rep.Error = fail(streams.CodeUnavailable, fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)).Error
		return rep
	}
	rep.ID, rep.Reuses = h.ID, h.Reuses
	return rep
}
