package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Joint lets the stages of one process decide a proposal together: ingest's entry, the sentinels' assessments and the
// verdict are published in one message, a joint frame. So a verdict waits for one sync of the ledger instead of three.
//
// Ingest leads. It decides on the proposal and passes its entry to the other stages, with the sequence and time that
// the entry will have. They fold the entry and answer. Each stage also folds the others' answers, until no stage
// answers any more. The message is published on the condition that the ledger ends right before that sequence. So the
// server either stores the message at the sequence for which the stages decided, or refuses it. If the server refuses
// it, each stage discards what it folded.
//
// A stage takes part only if it has folded the whole ledger and has nothing to publish.
type Joint struct {
	// Elsewhere, if set, reports whether a sentinel group may run outside of this process. The credential of such a
	// group may allow it to read only ingest's own subject, and not the subject of joint frames. While Elsewhere
	// returns true, nothing is decided jointly. Ingest calls it for each proposal.
	Elsewhere func() bool

	// Offers is set if the front of this process may pass proposals to ingest without the intake. That requires that
	// this process runs the server too: the proposals' times then come from the server's clock, and no replica of the
	// intake lags behind.
	Offers bool

	pub   *publisher
	names []string // names of the other stages, in the order in which they answer
	// retired is the age from which the last entry of a group of another process no longer counts. It is
	// groupRetired, except in tests.
	retired time.Duration

	offers   chan *Offer
	offering sync.Mutex // held by the caller of Offer whose offer waits for ingest

	mu    sync.Mutex
	calls map[string]chan *call // for each running stage, by name, the channel to it; guarded by mu
}

const (
	// jointWait is how long ingest waits for the other stages to say whether they take part.
	jointWait = 5 * time.Millisecond
	// jointFresh is the maximum age of a proposal that is decided jointly. The entries of a joint frame have the
	// proposal's time, so their time is at most this old.
	jointFresh = time.Second
	// jointMost is the maximum number of entries in a joint frame.
	jointMost = 32
	// groupRetired is how long a sentinel group of another process counts after its last entry. Credentials that
	// `lazaret up` creates are valid for this long. Elsewhere covers groups whose credential is valid for longer.
	groupRetired = 30 * 24 * time.Hour
)

// Alone is a reason why a proposal was not decided jointly.
type Alone int

// The reasons.
const (
	AloneLoad   Alone = iota // several messages were decided at once, or speculation is paused
	AloneClaim               // another process may still publish a joint frame in the partition: see claim
	AloneGroup               // a sentinel group runs outside of this process, or the verdict has to wait for such a group
	AloneTime                // the proposal was older than jointFresh, or the clock was set back
	AloneBehind              // a stage had not folded the whole ledger, or had entries to publish
	AloneLarge               // the answers were too large, too many, or in another project
	AloneVain                // the server refused the joint frame, since the ledger had more entries; or it did not answer
	alones
)

// String returns the reason as the label of the metric.
func (a Alone) String() string {
	return [...]string{"load", "claim", "group", "time", "behind", "large", "vain"}[a]
}

// Alones returns all reasons, in the order of their values.
func Alones() []Alone {
	out := make([]Alone, alones)
	for i := range out {
		out[i] = Alone(i)
	}
	return out
}

// NewJoint returns a Joint for ingest and the given other stages of this process. nc must be allowed to publish joint
// frames.
func NewJoint(nc *nats.Conn, stages ...string) (*Joint, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	return &Joint{pub: &publisher{nc: nc, js: js, stage: streams.StageJoint}, names: stages,
		retired: groupRetired, offers: make(chan *Offer), calls: make(map[string]chan *call)}, nil
}

// join returns the channel on which a stage receives calls. The stage must call leave when it ends. With a nil Joint,
// the channel is nil.
func (j *Joint) join(name string) (calls <-chan *call, leave func()) {
	if j == nil {
		return nil, func() {}
	}
	ch := make(chan *call)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls[name] = ch
	return ch, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.calls, name)
	}
}

// call asks one stage to take part in a round, the joint decision of one proposal. Ingest creates it.
type call struct {
	partition int
	end       uint64                // sequence at which the ledger ends
	turns     chan []*streams.Entry // from ingest: entries to fold
	replies   chan answers          // from the stage: first whether it takes part, then its answers in each turn
	stored    chan bool             // from ingest, once, at the end: whether the entries are in the ledger
}

// answers are the entries that a stage adds in one turn. ok is false if the stage does not take part.
type answers struct {
	entries []*streams.Entry
	ok      bool
}

// round is the joint decision of one proposal.
type round struct {
	partition int
	last      uint64 // sequence at which the ledger ends
	calls     []*call
	entries   []*streams.Entry // the proposal's entry and all answers so far
	size      int              // size of their bodies in bytes
	folded    []int            // for each call, the number of the round's entries that its stage has folded
}

// question is a round before its proposal is decided: the other stages are asked whether they take part.
type question struct {
	round *round
	ok    bool // all stages take part; set before done is closed
	done  chan struct{}
}

// ask asks the other stages whether they take part in deciding a proposal, given that the ledger ends with sequence
// end. A stage that folds entries and then has to drop them loses its indexes. So all stages are asked before any of
// them folds. The caller must call decide or cancel.
func (j *Joint) ask(ctx context.Context, partition int, end uint64) *question {
	a := &question{round: &round{partition: partition, last: end}, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		timeout := time.NewTimer(jointWait)
		defer timeout.Stop()
		for _, name := range j.names {
			if !j.call(ctx, a.round, name, timeout) {
				return
			}
		}
		a.ok = a.round.joined(ctx, timeout)
	}()
	return a
}

// cancel ends a round in which no stage has folded anything.
func (a *question) cancel() {
	<-a.done
	a.round.end(false)
}

// decide lets the other stages answer a proposal. If they do not decide it jointly, it returns nil and the reason. If
// it returns a round, the caller must call the round's end method.
func (a *question) decide(ctx context.Context, proposal *streams.Entry) (*round, Alone) {
	<-a.done
	r, why, ok := a.round, AloneBehind, a.ok
	if ok {
		r.add(proposal)
		why, ok = r.answer(ctx)
	}
	if !ok {
		r.end(false)
		return nil, why
	}
	return r, 0
}

// answer lets all stages fold the entries of the round, and the answers to these, until no stage answers any more. ok
// is false if there is no joint decision; why is then the reason.
func (r *round) answer(ctx context.Context) (why Alone, ok bool) {
	for r.behind() {
		if !r.fits() {
			return AloneLarge, false
		}
		if !r.turn(ctx) {
			return AloneBehind, false
		}
	}
	if !slices.ContainsFunc(r.entries, func(e *streams.Entry) bool { return e.Type == streams.TypeVerdict }) {
		return AloneGroup, false // the verdict has to wait for a group of another process
	}
	return 0, true
}

// fits reports whether the entries can share a message.
func (r *round) fits() bool {
	return len(r.entries) <= jointMost && r.size <= streams.MaxFrameBytes &&
		!slices.ContainsFunc(r.entries, func(e *streams.Entry) bool { return e.Project != r.entries[0].Project })
}

// behind reports whether a stage has not folded every entry.
func (r *round) behind() bool {
	return slices.ContainsFunc(r.folded, func(n int) bool { return n < len(r.entries) })
}

func (r *round) add(e *streams.Entry) {
	e.Seq, e.Index, e.Joint = r.last+1, len(r.entries), true
	r.entries = append(r.entries, e)
	r.size += len(e.Body)
}

// call calls one stage, and reports whether the stage received the call before the timeout.
func (j *Joint) call(ctx context.Context, r *round, name string, timeout *time.Timer) bool {
	j.mu.Lock()
	ch := j.calls[name]
	j.mu.Unlock()
	if ch == nil {
		return false
	}
	c := &call{partition: r.partition, end: r.last, turns: make(chan []*streams.Entry, 1),
		replies: make(chan answers, 1), stored: make(chan bool, 1)}
	select {
	case ch <- c:
		r.calls, r.folded = append(r.calls, c), append(r.folded, 0)
		return true
	case <-timeout.C:
	case <-ctx.Done():
	}
	return false
}

// joined reports whether all stages that were called take part.
func (r *round) joined(ctx context.Context, timeout *time.Timer) bool {
	for _, c := range r.calls {
		select {
		case a := <-c.replies:
			if !a.ok {
				return false
			}
		case <-timeout.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// turn lets all stages fold, at the same time, the entries that they have not folded, and adds their answers to the
// round. It returns false if a stage no longer takes part.
func (r *round) turn(ctx context.Context) bool {
	n := len(r.entries)
	for i, c := range r.calls {
		if r.folded[i] < n {
			c.turns <- r.entries[r.folded[i]:n]
		}
	}
	for i, c := range r.calls {
		if r.folded[i] == n {
			continue
		}
		r.folded[i] = n
		select {
		case a := <-c.replies:
			if !a.ok {
				return false
			}
			for _, e := range a.entries {
				e.Time = r.entries[0].Time
				r.add(e)
			}
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// end tells the stages whether the entries of the round are in the ledger.
func (r *round) end(stored bool) {
	for _, c := range r.calls {
		c.stored <- stored
	}
}

// errUnsure reports that it is unknown whether a joint frame is in the ledger or may still be stored later.
var errUnsure = errors.New("a joint frame may be in the ledger, or may be stored later")

// jointMsg returns the message with the entries of a joint frame. The server stores it only if the ledger ends with
// sequence end, and if the last message on ingest's own subject has the sequence fence. If the entries are not valid,
// so that no reader would accept them, jointMsg returns an error.
func jointMsg(entries []*streams.Entry, end, fence uint64) (*nats.Msg, error) {
	first := entries[0]
	f := streams.JointFrame(entries, first.Time)
	if _, err := streams.ParseEntries(f.Subject, f.Header, f.Body, end+1, time.Now()); err != nil {
		return nil, err
	}
	m := &nats.Msg{Subject: f.Subject, Header: f.Header, Data: f.Body}
	m.Header[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(end, 10)}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(fence, 10)}
	m.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{streams.LedgerSubject(first.Partition, first.Stage)}
	return m, nil
}

// publish adds a joint frame to the ledger. seq is the sequence that the frame must get; another one is an error. If
// the error is errBehind, the frame is certainly not in the ledger.
func (j *Joint) publish(ctx context.Context, m *nats.Msg, seq uint64) error {
	ack, err := j.pub.request(ctx, m)
	switch {
	case err == nil && ack.Sequence == seq:
		return nil
	case err == nil:
		err = fmt.Errorf("the ledger has a joint frame at %d, expected at %d", ack.Sequence, seq)
	case isFenceError(err):
		// The message was sent only once, so the server did not refuse it because an earlier attempt had stored it.
		return errBehind
	}
	// It is unknown whether the message is stored. In a cluster, the leader may answer with a refusal although other
	// servers already have the message.
	return errors.Join(errUnsure, err)
}
