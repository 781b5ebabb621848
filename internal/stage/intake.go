package stage

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/pkg/position"
	"lazaret/streams"
)

// Message is one event of the intake: a message as the stream stored it, or an event of
// a batch.
type Message struct {
	Seq     uint64    // of the message
	Index   int       // in the batch that the message is
	Time    time.Time // the stream's stamp
	Subject string
	Address streams.Address
	// BadSubject is why the subject does not parse, or nil. The partition
	// always does: the server wrote it.
	BadSubject error
	// Bad is why a batch, or an element of one, is invalid; or nil.
	Bad    *streams.RejectError
	Header nats.Header
	Data   []byte
	// Prepared is what the fold's Prepare returned, or nil if it was not asked.
	Prepared any
}

// Position tells the event from all others of the intake, see package position.
func (m *Message) Position() uint64 { return position.At(m.Seq, m.Index) }

// IntakeFold is ingest: it decides on what the intake holds, knowing what the
// ledger holds.
//
// Its state is a fold over the ledger in the order in which ingest saw it: an
// entry of another stage comes before one of ingest's own exactly if its
// sequence is not above the own entry's At. That order stands in the ledger,
// so every process arrives at the same state.
//
// The methods are called from one goroutine and must be deterministic.
type IntakeFold interface {
	// Admit decides on one message and returns what the ledger is to say of
	// it: never nil, since every message leaves an entry. It must not change
	// the state; Apply does, with the entry that Admit returned.
	Admit(st *State, m *Message) (*Admission, error)
	// Reject makes the entry of a message that is not admitted. The entry fits into
	// the ledger whatever the message holds.
	Reject(st *State, m *Message, why *streams.RejectError) (*Admission, error)
	// Apply folds one entry into the state: an own one, of which neither
	// sequence nor stamp may be used, or another stage's. decided is what
	// Admit put into Admission.Decided if the entry was decided just now, and
	// nil if it was read from the ledger.
	Apply(st *State, e *streams.Entry, decided any) error
	// Relevant reports whether another stage's entry means anything to Apply.
	Relevant(e *streams.Entry) bool
	// Owed returns an entry that the ledger is owed though no message asks for
	// it, or nil. Like Admit it must not change the state. Applying the entry
	// has to bring the fold closer to owing nothing.
	Owed(st *State) (*Admission, error)
	// Wakes reports whether an entry may be a reason to owe one.
	Wakes(e *streams.Entry) bool
	// Reset drops whatever the fold holds outside of State.
	Reset()
}

// Admission is what ingest makes of one message.
type Admission struct {
	Output
	// Together groups entries that may share a ledger message: those with the same text.
	// Empty: the entry has its own message. Entries that may have to be forgotten apart
	// must not share one.
	Together string
	Decided  any // the value that Body encodes
}

const (
	intakeQueue = 4096 // messages held in memory
	intakeBatch = 500  // messages decided at once
	// intakeBatchBytes is how many bytes of messages are decided at once, unless one
	// alone has more. A message for another partition waits for at most so many.
	intakeBatchBytes = 1 << 20
	// intakeHeld bounds the bytes of messages held in memory. Beyond it, messages above
	// leanFrom are held without their data, which is read again for the decision.
	intakeHeld   = 32 << 20
	leanFrom     = 4 << 10
	purgeEvery   = 2 * time.Second
	purgeAtLeast = 1 // messages
	// purgeBacklog is how many messages are purged sooner than that: a subject may hold
	// streams.IntakePerSubject, and decided messages must not make it refuse new ones.
	purgeBacklog = streams.IntakePerSubject / 8
)

// intakeStage is the loop of an IntakeFold.
//
// All fields are owned by the loop. Between two batches the state holds what
// the ledger is known to hold and nothing else.
type intakeStage struct {
	*runtime
	fold   IntakeFold
	in     *reader
	ledger *ledgerReader
	read   uint64 // last ledger sequence that came in
	known  uint64 // every entry up to here came in or was published here
	// foreign are other stages' entries that wait for the next own entry, by
	// partition, in ledger order.
	foreign  [streams.Partitions][]*streams.Entry
	noted    [streams.Partitions]uint64 // up to which those that wait are noted in the store
	queue    [streams.Partitions][]*queued
	queued   int
	held     int    // bytes of messages that are queued
	turn     int    // partition that is served first
	seen     uint64 // last intake sequence that came in
	active   [streams.Partitions]bool
	owes     [streams.Partitions]bool               // possibly
	progress [streams.Partitions]time.Time          // wall clock of the last own entry by others
	trims    [streams.Partitions]*streams.Retention // announced and not answered
	purged   uint64
	purgedAt time.Time
	// purgeFailed waits for the next time instead of trying at once.
	purgeFailed bool
	blind       int // proposals to decide without foresee
}

type queued struct {
	msg   *Message
	since time.Time
	size  int  // bytes of the message
	lean  bool // the message is held without its data
}

// RunIntake runs ingest until ctx ends or the state or a stream is found
// unusable. It returns nil when ctx ended.
//
// queries, if not nil, are answered between batches.
func RunIntake(ctx context.Context, cfg Config, fold IntakeFold, queries <-chan Query) error {
	return runs(cfg, func(cfg Config) error { return runIntake(ctx, cfg, fold, queries) })
}

func runIntake(ctx context.Context, cfg Config, fold IntakeFold, queries <-chan Query) (err error) {
	r, err := newRuntime(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(ended(ctx, err), r.store.close()) }()
	s := &intakeStage{runtime: r, fold: fold}
	fold.Reset()
	err = r.loadErasures(ctx, func(p int) (uint64, error) {
		var m *jetstream.RawStreamMsg
		err := Patiently(ctx, r.log, "its last entry", func() (err error) {
			m, err = lastOn(ctx, r.js, streams.LedgerSubject(p, cfg.Name))
			return err
		})
		if err != nil || m == nil {
			return 0, err
		}
		return m.Sequence, nil
	})
	if err != nil {
		return err
	}
	var last uint64
	if s.ledger, last, err = s.openLedger(ctx); err != nil {
		return err
	}
	defer s.ledger.close()
	s.read = s.oldest()
	s.known = s.read
	if err = s.loadWaiting(ctx); err == nil {
		err = s.foldTo(ctx, last)
	}
	if err == nil {
		err = s.again()
	}
	if err != nil {
		if ctx.Err() != nil {
			return s.commitFolded()
		}
		return err
	}
	// Nothing is published over a hole that was made during the fold.
	err = Patiently(ctx, r.log, "what was trimmed", func() error { return s.guard(ctx, s.read) })
	if err != nil {
		return ended(ctx, err)
	}
	var src uint64
	for _, p := range r.cfg.Partitions {
		s.active[p] = !r.cfg.Standby
		s.owes[p] = true
		s.progress[p] = time.Now()
		src = max(src, position.Sequence(r.cursors[p].src))
	}
	err = Patiently(ctx, r.log, "the intake", func() error {
		if _, err := checkStart(ctx, r.js, streams.IntakeStream, src+1); err != nil {
			return err
		}
		s.in, err = openReader(ctx, r.js, streams.IntakeStream, s.intakeFilters(), 1, r.log)
		return err
	})
	if err != nil {
		return err
	}
	defer s.in.close()
	s.ready()
	return s.loop(ctx, queries)
}

func (s *intakeStage) intakeFilters() []string {
	if s.all() {
		return nil
	}
	var f []string
	for _, p := range s.cfg.Partitions {
		f = append(f, streams.IntakeFilter(p), streams.ControlSubject(p))
	}
	return f
}

func (s *intakeStage) loop(ctx context.Context, queries <-chan Query) error {
	tick := time.NewTicker(idleTick)
	defer tick.Stop()
	for {
		// While messages are queued that this process is to decide on, nothing
		// else is waited for.
		var onward <-chan struct{}
		if s.waits() {
			onward = closed
		}
		select {
		case <-ctx.Done():
			return s.commitFolded()
		case m := <-s.arriving():
			if err := s.take(m); err != nil {
				return err
			}
		case m := <-s.ledger.msgs:
			s.ledger.took(m)
			if err := s.fromLedger(ctx, m); err != nil {
				return err
			}
			if err := s.drainLedger(ctx); err != nil {
				return err
			}
			if err := s.commitFolded(); err != nil {
				return err
			}
		case q := <-queries:
			if err := s.answer(ctx, q); err != nil {
				return err
			}
		case <-onward:
		case <-tick.C:
			if err := s.store.settle(); err != nil {
				return err
			}
		}
		err := s.guardDue(ctx, s.read)
		if err == nil {
			err = s.again()
		}
		if err == nil {
			err = s.work(ctx)
		}
		if err == nil {
			err = s.owed(ctx)
		}
		if err != nil {
			if ctx.Err() != nil {
				return s.commitFolded()
			}
			return err
		}
		s.purge(ctx)
	}
}

// again ends the loop if a partition is to be folded anew.
func (s *intakeStage) again() error {
	if !s.refolding {
		return nil
	}
	if err := s.commitFolded(); err != nil {
		return err
	}
	return errRefold
}

// closed is a closed channel: a receive from it returns at once.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// waits reports whether messages are queued in a partition where this process is
// active.
func (s *intakeStage) waits() bool {
	for _, p := range s.cfg.Partitions {
		if s.active[p] && len(s.queue[p]) > 0 {
			return true
		}
	}
	return false
}

// arriving are messages, if there is room for some.
func (s *intakeStage) arriving() <-chan jetstream.Msg {
	if s.queued >= intakeQueue {
		return nil
	}
	return s.in.msgs
}

// take queues a message and those that have arrived after it.
func (s *intakeStage) take(m jetstream.Msg) error {
	for {
		if err := s.enqueue(m); err != nil {
			return err
		}
		select {
		case m = <-s.arriving():
		default:
			return nil
		}
	}
}

func (s *intakeStage) enqueue(m jetstream.Msg) error {
	md, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("intake message without metadata: %w", err)
	}
	a, bad := streams.ParseIntake(m.Subject())
	s.seen = md.Sequence.Stream
	if !s.mine[a.Partition] || s.seen < position.Sequence(s.cursors[a.Partition].src) {
		return nil
	}
	now := time.Now()
	for _, e := range eventsOf(&Message{Seq: s.seen, Time: md.Timestamp.UTC(), Subject: m.Subject(), Address: a,
		BadSubject: bad, Header: m.Headers(), Data: m.Data()}) {
		if position.Compare(e.Position(), s.cursors[a.Partition].src) <= 0 {
			continue
		}
		q := &queued{since: now, size: len(e.Data), msg: e}
		if s.held+q.size > intakeHeld && q.size > leanFrom {
			q.lean, q.msg.Data = true, nil
		} else {
			s.held += q.size
		}
		s.queue[a.Partition] = append(s.queue[a.Partition], q)
		s.queued++
	}
	return nil
}

// eventsOf are the events of a message: itself, or those of the batch that it is.
func eventsOf(m *Message) []*Message {
	if m.BadSubject != nil || m.Address.Kind == streams.KindCtl || !streams.IsBatch(m.Header) {
		return []*Message{m}
	}
	events, bad := streams.ParseBatch(m.Address.Kind, m.Data)
	if bad != nil {
		m.Bad = bad
		return []*Message{m}
	}
	all := make([]*Message, len(events))
	for i, e := range events {
		one := *m
		one.Index, one.Bad, one.Data, one.Header = i, e.Bad, e.Data, nats.Header{streams.HeaderCloudEventID: {e.ID}}
		if trace := m.Header.Get(streams.HeaderTraceparent); trace != "" {
			one.Header.Set(streams.HeaderTraceparent, trace)
		}
		all[i] = &one
	}
	return all
}

// unqueue takes the first message off a partition's queue.
func (s *intakeStage) unqueue(p int) {
	q := s.queue[p][0]
	s.queue[p] = s.queue[p][1:]
	s.queued--
	if !q.lean {
		s.held -= q.size
	}
}

// load reads the data of messages held without. It reports whether all have theirs; if
// the server does not answer, they wait.
func (s *intakeStage) load(ctx context.Context, batch []*queued) bool {
	for _, q := range batch {
		if !q.lean {
			continue
		}
		m, err := messageAt(ctx, s.js, streams.IntakeStream, q.msg.Seq)
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			s.stats.refused(err)
			s.log.Warn("a message waits for the intake", "seq", q.msg.Seq, "err", err)
			return false
		}
		if err == nil { // one that is gone is decided on as an empty one
			whole := *q.msg
			whole.Index, whole.Header, whole.Data = 0, m.Header, m.Data
			q.msg.Data = eventsOf(&whole)[q.msg.Index].Data
		}
		q.lean = false
		s.held += q.size
	}
	return true
}

// fromLedger takes in one ledger message.
func (s *intakeStage) fromLedger(ctx context.Context, a *arrival) error {
	if err := s.follows(ctx, a); err != nil {
		return err
	}
	entries, ok := s.entries(a)
	seq, p := a.first().Seq, a.first().Partition
	if seq > s.read {
		s.read = seq
		s.known = max(s.known, seq)
		s.stats.Folded.Store(seq)
		if ok {
			s.stats.Entries.Add(uint64(len(entries)))
		}
	}
	if !ok {
		return nil
	}
	c := &s.cursors[p]
	if a.first().Stage != s.cfg.Name {
		for i := range entries {
			e := &entries[i]
			if t := s.trimOf(e); t != nil {
				s.trims[p] = t
			}
			if seq > c.folded && s.fold.Relevant(e) {
				s.foreign[p] = append(s.foreign[p], e)
				s.owes[p] = s.owes[p] || s.fold.Wakes(e)
			}
		}
		return nil
	}
	if seq <= c.own {
		return nil // published here
	}
	// Another process of this stage wrote it, or this one before a restart.
	for i := range entries {
		e := &entries[i]
		if err := s.applyForeign(p, e.At); err != nil {
			return err
		}
		if err := s.apply(e, nil); err != nil {
			return err
		}
		c.src, c.folded = e.Src, max(c.folded, e.At)
	}
	c.own = seq
	s.progress[p] = time.Now()
	for len(s.queue[p]) > 0 && position.Compare(s.queue[p][0].msg.Position(), c.src) <= 0 {
		s.unqueue(p)
	}
	return nil
}

func (s *intakeStage) apply(e *streams.Entry, decided any) error {
	if e.Type == streams.TypeSecured && e.Stage == s.cfg.Name {
		return s.answered(e) // the fold has no part in it
	}
	if s.without(e) {
		return nil
	}
	own := *e
	if own.Stage == s.cfg.Name {
		own.Seq, own.Index, own.Time = 0, 0, time.Time{}
	}
	if err := s.fold.Apply(s.states[e.Partition], &own, decided); err != nil {
		return fmt.Errorf("stage %s, applying %s entry of input %d: %w", s.cfg.Name, e.Type, e.Src, err)
	}
	if e.Type == streams.TypeForgotten && e.Stage == s.cfg.Name {
		if err := s.erase(); err != nil {
			return err
		}
	}
	if s.refolds(e) {
		if err := s.refold(e); err != nil {
			return err
		}
	}
	s.owes[e.Partition] = s.owes[e.Partition] || s.fold.Wakes(e)
	return nil
}

// applyForeign folds other stages' entries up to at.
func (s *intakeStage) applyForeign(p int, at uint64) error {
	f := s.foreign[p]
	for len(f) > 0 && f[0].Seq <= at {
		if err := s.apply(f[0], nil); err != nil {
			return err
		}
		if f[0].Seq <= s.noted[p] {
			if err := s.store.delete(waitingKey(p, f[0].Seq)); err != nil {
				return err
			}
		}
		f = f[1:]
	}
	s.foreign[p] = f
	return nil
}

func (s *intakeStage) drainLedger(ctx context.Context) error {
	for {
		select {
		case m := <-s.ledger.msgs:
			s.ledger.took(m)
			if err := s.fromLedger(ctx, m); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// foldTo reads the ledger up to seq.
func (s *intakeStage) foldTo(ctx context.Context, seq uint64) error {
	for n := 0; s.read < seq; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-s.ledger.msgs:
			s.ledger.took(m)
			if err := s.fromLedger(ctx, m); err != nil {
				return err
			}
		}
		if n%commitEvery == commitEvery-1 {
			if err := s.commitFolded(); err != nil {
				return err
			}
		}
	}
	return s.commitFolded()
}

// commitFolded commits all partitions as folded up to the reader. Foreign entries that
// wait are noted.
func (s *intakeStage) commitFolded() error {
	for _, p := range s.cfg.Partitions {
		if err := s.note(p); err != nil {
			return err
		}
		s.cursors[p].folded = max(s.cursors[p].folded, s.read)
	}
	return s.commit()
}

// waitingKey notes a message with foreign entries that wait for the next own entry. A
// partition may be quiet for long: without the note its cursor would stay before them,
// and a start would reread the entries of other partitions since.
func waitingKey(p int, seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{spaceMeta, 'h', byte(p)}, seq)
}

// note notes the waiting entries of a partition.
func (s *intakeStage) note(p int) error {
	f := s.foreign[p]
	for i := len(f) - 1; i >= 0 && f[i].Seq > s.noted[p]; i-- {
		if err := s.store.set(waitingKey(p, f[i].Seq), nil); err != nil {
			return err
		}
	}
	if len(f) > 0 {
		s.noted[p] = max(s.noted[p], f[len(f)-1].Seq)
	}
	return nil
}

// loadWaiting reads the entries that waited when the state was committed.
func (s *intakeStage) loadWaiting(ctx context.Context) error {
	for _, p := range s.cfg.Partitions {
		var waiting []uint64
		err := s.store.scan([]byte{spaceMeta, 'h', byte(p)}, func(k, _ []byte) (bool, error) {
			waiting = append(waiting, binary.BigEndian.Uint64(k[3:]))
			return true, nil
		})
		if err != nil {
			return err
		}
		for _, seq := range waiting {
			s.noted[p] = max(s.noted[p], seq)
			m, err := messageAt(ctx, s.js, streams.LedgerStream, seq)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				err = s.hole(ctx, seq, seq, time.Time{}) // forgotten, or it is an error
				if err == nil {
					err = s.store.delete(waitingKey(p, seq))
				}
				if err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return err
			}
			entries, err := streams.ParseEntries(m.Subject, m.Header, m.Data, m.Sequence, m.Time)
			if err != nil {
				return fmt.Errorf("ledger message %d waits for stage %s: %w", seq, s.cfg.Name, err)
			}
			for i := range entries {
				if e := &entries[i]; s.fold.Relevant(e) {
					s.foreign[p] = append(s.foreign[p], e)
				}
			}
		}
	}
	return nil
}

// takenIn is the ledger sequence up to which a partition's state holds every entry.
func (s *intakeStage) takenIn(p int) uint64 {
	if f := s.foreign[p]; len(f) > 0 {
		return min(s.saved[p].folded, f[0].Seq-1)
	}
	return s.saved[p].folded
}

// work decides on what is queued in the partitions where this process is
// active.
func (s *intakeStage) work(ctx context.Context) error {
	now := time.Now()
	active := false
	var oldest time.Time
	for _, p := range s.cfg.Partitions {
		q := s.queue[p]
		if !s.active[p] && len(q) > 0 && now.Sub(q[0].since) > s.cfg.Takeover && now.Sub(s.progress[p]) > s.cfg.Takeover {
			s.log.Info("taking over", "partition", p, "waiting", len(q))
			s.stats.TakenOver.Add(1)
			s.active[p] = true
		}
		active = active || s.active[p]
		if s.active[p] && len(q) > 0 && (oldest.IsZero() || q[0].since.Before(oldest)) {
			oldest = q[0].since
		}
	}
	s.owing(oldest)
	s.stats.Active.Store(active)
	s.stats.Waiting.Store(int64(s.queued))
	batch := s.next()
	if len(batch) == 0 {
		return nil
	}
	if !s.load(ctx, batch) {
		return sleep(ctx, 200*time.Millisecond)
	}
	one := len(batch) == 1 && batch[0].msg.Address.Kind.Proposal()
	s.store.early = one && batch[0].msg.Address.Kind == streams.KindRecall
	if one && s.foresees() {
		return s.foresee(ctx, batch)
	}
	if err := s.barrier(ctx, batch); err != nil {
		return err
	}
	if err := s.again(); err != nil {
		return err
	}
	if err := s.decide(ctx, batch); err != nil {
		return err
	}
	return s.again()
}

// mistaken is how many proposals are not decided ahead after one that was in vain.
const mistaken = 16

// foresees reports whether to decide a proposal before it is known that the ledger ends
// where it was read to. Under load that is mostly in vain.
func (s *intakeStage) foresees() bool {
	s.blind = max(s.blind-1, 0)
	// The end of a part of the ledger is unknown, and an empty one has no sequence to
	// expect.
	return s.blind == 0 && s.known > 0 && s.all()
}

// foresee decides a proposal on the entries read so far, and publishes on the condition
// that the ledger ends there: a barrier without asking for the tail first. If the ledger
// has more, the decision is dropped, and the proposal is decided again behind it.
func (s *intakeStage) foresee(ctx context.Context, batch []*queued) error {
	s.stats.Foreseen.Add(1)
	f := s.flight()
	f.end = s.known
	if err := s.admit(f, batch); err != nil {
		return err
	}
	if err := s.fly(ctx, f); err != nil {
		return err
	}
	return s.again()
}

// next takes a batch off the heads of the queues, behind what is in flight: an equal
// share of messages and bytes of each partition that has some, and at least one message
// of as many partitions as the bytes allow. Those that got none are first the next time.
// Each partition keeps its order, so that one sequence for each says where to go on after
// a crash.
func (s *intakeStage) next(flights ...*flight) []*queued {
	var heads [streams.Partitions][]*queued
	n := 0
	for _, p := range s.cfg.Partitions {
		if !s.active[p] {
			continue
		}
		heads[p] = s.queue[p]
		for _, f := range flights {
			heads[p] = heads[p][f.taken[p]:]
		}
		if len(heads[p]) > 0 {
			n++
		}
	}
	var batch []*queued
	size := 0
	for i := range streams.Partitions {
		p := (s.turn + i) % streams.Partitions
		if len(heads[p]) == 0 {
			continue
		}
		if size > 0 && size+heads[p][0].size > intakeBatchBytes {
			s.turn = p
			return batch
		}
		share := 0
		for k, q := range heads[p][:min(len(heads[p]), intakeBatch/n)] {
			if share += q.size; k > 0 && share > intakeBatchBytes/n {
				break
			}
			batch, size = append(batch, q), size+q.size
		}
	}
	return batch
}

// answerTail is how long a query waits for the sequence at which the ledger ends.
const answerTail = time.Second

// answer runs a query on the state as it would be if the next own entry were decided now,
// and discards that state. It folds the ledger to its end first, so that the answer
// reflects every published verdict.
func (s *intakeStage) answer(ctx context.Context, q Query) error {
	short, cancel := context.WithTimeout(ctx, answerTail)
	tail, err := s.tail(short, q.Partition)
	cancel()
	if err != nil {
		s.log.Debug("the ledger's tail is unknown, a query is answered by what was read", "err", err)
	}
	if err := s.foldTo(ctx, tail); err != nil {
		return err
	}
	if err := s.drainLedger(ctx); err != nil {
		return err
	}
	if err := s.again(); err != nil {
		return err // the query times out
	}
	if err := s.commitFolded(); err != nil {
		return err
	}
	held := s.foreign
	if err := s.applyForeign(q.Partition, s.read); err != nil {
		return err
	}
	q.Run(s.states[q.Partition])
	s.foreign = held
	if err := s.store.discard(); err != nil {
		return err
	}
	s.fold.Reset()
	return nil
}

// barrier folds the ledger to its present tail in the partitions of the batch that hold a
// proposal: a proposal's entry must know all alerts published so far.
func (s *intakeStage) barrier(ctx context.Context, batch []*queued) error {
	var asked [streams.Partitions]bool
	var tail uint64
	for _, q := range batch {
		p := q.msg.Address.Partition
		if asked[p] || !q.msg.Address.Kind.Proposal() {
			continue
		}
		asked[p] = true
		last, err := s.tail(ctx, p)
		if err != nil {
			s.stats.refused(err)
			s.log.Warn("the ledger's tail is unknown, proposals wait", "err", err)
			return sleep(ctx, 200*time.Millisecond)
		}
		tail = max(tail, last)
	}
	return s.foldTo(ctx, tail)
}

// tail is the sequence up to which the ledger has to be read to know all entries of a
// partition; 0 if they are known.
func (s *intakeStage) tail(ctx context.Context, p int) (uint64, error) {
	m, err := lastOn(ctx, s.js, streams.LedgerFilter(p))
	// An own last entry proves nothing about the entries before it: it may have been
	// decided before they were read.
	if err != nil || m == nil || m.Sequence == s.cursors[p].own && s.read+1 >= m.Sequence {
		return 0, err
	}
	return m.Sequence, nil
}

// flight is a batch that was decided and is not known to be in the ledger.
type flight struct {
	entries []*streams.Entry
	outs    []*Admission
	at      uint64                               // what the ledger was read up to
	end     uint64                               // where it has to end for the only entry to be added; 0: anywhere
	held    [streams.Partitions][]*streams.Entry // foreign entries before it
	taken   [streams.Partitions]int              // messages off the queues
	size    int                                  // bytes of those messages
	fences  [streams.Partitions]uint64
	n       int // entries that are in the ledger for certain
	err     error
}

// aheadMost is how many batches are decided before the ledger is read again.
const aheadMost = 8

// decide admits a batch, publishes the entries and commits. The next batch is decided on
// top of it meanwhile. If the fence was lost, both are dropped.
func (s *intakeStage) decide(ctx context.Context, batch []*queued) error {
	f := s.flight()
	if err := s.admit(f, batch); err != nil {
		return err
	}
	return s.fly(ctx, f)
}

// fly is decide for an admitted batch.
func (s *intakeStage) fly(ctx context.Context, f *flight) error {
	for ahead := 0; len(f.entries) > 0; ahead++ {
		for p, c := range s.cursors {
			f.fences[p] = c.own
		}
		s.store.seal()
		f.gather()
		s.cfg.Feed.announce(f.entries, func(i int) any { return f.outs[i].Decided })
		landed := make(chan struct{})
		go func() {
			defer close(landed)
			f.n, f.err = f.publish(ctx, s.pub)
		}()
		next := s.flight()
		var err error
		if ahead < aheadMost {
			err = s.ahead(ctx, f, next, landed)
		}
		<-landed
		if err != nil {
			return err
		}
		if err := s.land(ctx, f); err != nil || f.err != nil {
			return err
		}
		f = next
	}
	// With nothing in flight the files may be written anew.
	return s.commit()
}

// gather puts the entries of each partition together, in their order, so that they can
// share messages.
func (f *flight) gather() {
	type decided struct {
		e   *streams.Entry
		out *Admission
	}
	all := make([]decided, len(f.entries))
	for i, e := range f.entries {
		all[i] = decided{e, f.outs[i]}
	}
	slices.SortStableFunc(all, func(a, b decided) int { return cmp.Compare(a.e.Partition, b.e.Partition) })
	for i, d := range all {
		f.entries[i], f.outs[i] = d.e, d.out
	}
}

// ahead decides on queued and arriving messages until a flight landed, up to the first
// proposal: that one waits for the ledger's present tail.
func (s *intakeStage) ahead(ctx context.Context, f, next *flight, landed <-chan struct{}) error {
	for !s.erasing && !s.refolding && len(next.entries) < intakeBatch && next.size < intakeBatchBytes {
		batch := s.next(f, next)
		if slices.ContainsFunc(batch, func(q *queued) bool { return q.msg.Address.Kind.Proposal() }) {
			return nil
		}
		if !s.load(ctx, batch) {
			return nil
		}
		if len(batch) > 0 {
			if len(next.entries) == 0 {
				s.stats.Ahead.Add(1)
			}
			if err := s.admit(next, batch); err != nil {
				return err
			}
		}
		select {
		case <-landed:
			return nil
		default:
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-landed:
			return nil
		case m := <-s.arriving():
			if err := s.take(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish adds the entries to the ledger and returns as publisher.publish does.
func (f *flight) publish(ctx context.Context, pub *publisher) (int, error) {
	if f.end == 0 || len(f.entries) != 1 {
		return pub.publish(ctx, f.entries, func(i int) string { return f.outs[i].Together }, &f.fences)
	}
	if err := pub.atEnd(ctx, f.entries[0], &f.fences, f.end); err != nil {
		return 0, err
	}
	return 1, nil
}

func (s *intakeStage) flight() *flight { return &flight{at: s.read, held: s.foreign} }

// admit decides on messages and applies what it decides.
func (s *intakeStage) admit(f *flight, batch []*queued) error {
	s.prepare(batch)
	for _, q := range batch {
		p := q.msg.Address.Partition
		if !s.active[p] || position.Compare(q.msg.Position(), s.cursors[p].src) <= 0 {
			continue // another process came first while the barrier was folded
		}
		if err := s.applyForeign(p, f.at); err != nil {
			return err
		}
		out, err := s.fold.Admit(s.states[p], q.msg)
		if err == nil {
			out, err = s.fits(p, q.msg, out)
		}
		if err != nil {
			return fmt.Errorf("stage %s, intake message %d: %w", s.cfg.Name, q.msg.Seq, err)
		}
		e := &streams.Entry{Partition: p, Stage: s.cfg.Name, Type: out.Type, Project: out.Project,
			Src: q.msg.Position(), At: f.at, Salt: streams.NewSalt(), Body: out.Body}
		if err := s.apply(e, out.Decided); err != nil {
			return err
		}
		f.entries, f.outs = append(f.entries, e), append(f.outs, out)
		f.taken[p]++
		f.size += q.size
		if s.refolding {
			return nil // the rest is decided on once that is done
		}
	}
	return nil
}

// fits returns what was made of a message, or its rejection if the ledger cannot
// take that.
func (s *intakeStage) fits(p int, m *Message, out *Admission) (*Admission, error) {
	why := tooLarge(&out.Output)
	if why == nil {
		return out, nil
	}
	s.stats.Oversized.Add(1)
	s.log.Warn("an entry does not fit into the ledger, its message is rejected", "type", out.Type, "intake", m.Seq,
		"bytes", len(out.Body), "code", why.Code)
	return s.fold.Reject(s.states[p], m, why)
}

// land commits a batch that is in the ledger, or undoes it.
func (s *intakeStage) land(ctx context.Context, f *flight) error {
	s.stats.Published.Add(uint64(f.n))
	for i, e := range f.entries[:f.n] {
		s.added(e, f.outs[i].Live, f.outs[i].Decided)
	}
	if f.err != nil {
		return s.undo(ctx, f.entries, f.n, f.held, f.err)
	}
	for _, e := range f.entries {
		c := &s.cursors[e.Partition]
		c.own, c.src, c.folded = e.Seq, e.Src, max(c.folded, f.at)
		s.knows(e.Seq)
		s.unqueue(e.Partition)
	}
	return s.commitSealed()
}

// knows notes an own entry: it extends known if it follows directly.
func (s *intakeStage) knows(seq uint64) {
	if seq == s.known+1 {
		s.known = seq
	}
}

// owed adds at most one entry in each partition that no message asks for, one at a time
// and between batches, so that messages do not wait for many. Such an entry names the
// input of the entry before it and moves no cursor. The remaining debt is in the state, a
// fold of the ledger, so that another process neither skips nor repeats one.
func (s *intakeStage) owed(ctx context.Context) error {
	for _, p := range s.cfg.Partitions {
		if s.trims[p] != nil && (s.active[p] || time.Since(s.progress[p]) > s.cfg.Takeover) {
			if err := s.secure(ctx, p); err != nil {
				return err
			}
		}
		if !s.owes[p] || !s.active[p] && time.Since(s.progress[p]) <= s.cfg.Takeover {
			continue
		}
		if err := s.owedIn(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (s *intakeStage) owedIn(ctx context.Context, p int) error {
	at, held := s.read, s.foreign
	if err := s.applyForeign(p, at); err != nil {
		return err
	}
	out, err := s.fold.Owed(s.states[p])
	if err != nil {
		return fmt.Errorf("stage %s, partition %d: %w", s.cfg.Name, p, err)
	}
	if out != nil && tooLarge(&out.Output) != nil {
		// The debt stays in the state, and messages go on.
		s.stats.Oversized.Add(1)
		s.log.Error("an entry that the ledger is owed does not fit into it", "type", out.Type, "partition", p, "bytes",
			len(out.Body), "code", streams.CodeEntrySize)
		out = nil
	}
	if out == nil {
		// Other stages' entries are folded with an own one and not before.
		s.foreign, s.owes[p] = held, false
		return s.forget()
	}
	return s.add(ctx, p, out, at, held)
}

// secure answers a trim entry: it says how far the state is on disk. Other
// stages' entries are folded with an own one and not before, so that this may
// not be far enough; the entry that says so takes the fold to the ledger's end.
func (s *intakeStage) secure(ctx context.Context, p int) error {
	s.syncing = true
	if err := s.commitFolded(); err != nil {
		return err
	}
	out, err := secured(s.trims[p].ID, s.takenIn(p))
	if err != nil {
		return err
	}
	at, held := s.read, s.foreign
	if err := s.applyForeign(p, at); err != nil {
		return err
	}
	return s.add(ctx, p, &Admission{Output: *out}, at, held)
}

// answered notes an own entry that says how far the state is on disk.
func (s *intakeStage) answered(e *streams.Entry) error {
	b := new(streams.SecuredEntry)
	if err := streams.Unmarshal(e.Body, b); err != nil {
		return fmt.Errorf("decoding own %s entry: %w", e.Type, err)
	}
	if t := s.trims[e.Partition]; t != nil && t.ID == b.ID && b.Folded >= t.UpTo {
		s.trims[e.Partition] = nil
		s.syncing = true // a stand-by secures its state too
	}
	return nil
}

// add publishes an entry that no message asks for.
func (s *intakeStage) add(ctx context.Context, p int, out *Admission, at uint64,
	held [streams.Partitions][]*streams.Entry) error {
	if !s.active[p] {
		s.log.Info("taking over", "partition", p, "owed", out.Type)
		s.active[p] = true
	}
	e := &streams.Entry{Partition: p, Stage: s.cfg.Name, Type: out.Type, Project: out.Project,
		Src: s.cursors[p].src, At: at, Salt: streams.NewSalt(), Body: out.Body}
	trims := s.trims
	if err := s.apply(e, out.Decided); err != nil {
		return err
	}
	var fences [streams.Partitions]uint64
	for i, c := range s.cursors {
		fences[i] = c.own
	}
	entries := []*streams.Entry{e}
	n, err := s.pub.publish(ctx, entries, nil, &fences)
	s.stats.Published.Add(uint64(n))
	if err != nil {
		s.trims = trims
		return s.undo(ctx, entries, n, held, err)
	}
	s.live(e, out.Live)
	c := &s.cursors[p]
	c.own, c.folded = e.Seq, max(c.folded, at)
	s.knows(e.Seq)
	return s.commit()
}

// forget drops what was applied since the last commit.
func (s *intakeStage) forget() error {
	s.refolding = false // the mark was among them, or is committed and found again
	if err := s.store.discard(); err != nil {
		return err
	}
	s.fold.Reset()
	return nil
}

// undo drops what was applied of a batch of which the first n entries are in the ledger
// for certain.
func (s *intakeStage) undo(ctx context.Context, entries []*streams.Entry, n int,
	held [streams.Partitions][]*streams.Entry, err error) error {
	// The applied entries are not, or not for certain, in the ledger: drop them. Entries
	// that are come back through the reader.
	s.foreign, s.cursors = held, s.saved
	if err := s.forget(); err != nil {
		return err
	}
	for _, e := range entries {
		s.owes[e.Partition] = true
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errBehind) {
		s.stats.InVain.Add(1)
		s.blind = mistaken
		return nil
	}
	if !errors.Is(err, errFenced) {
		s.stats.refused(err)
		s.log.Warn("entries wait for the ledger", "waiting", len(entries)-n, "err", err)
		if n == 0 {
			return sleep(ctx, 200*time.Millisecond)
		}
	}
	return s.settleOwn(ctx, entries[:n])
}

// settleOwn folds the ledger up to its last own entry, and stands by in the partitions
// where another process wrote that.
func (s *intakeStage) settleOwn(ctx context.Context, ours []*streams.Entry) error {
	var tail uint64
	for _, p := range s.cfg.Partitions {
		m, err := lastOn(ctx, s.js, streams.LedgerSubject(p, s.cfg.Name))
		if err != nil {
			s.log.Warn("cannot tell who holds the fence", "partition", p, "err", err)
			return sleep(ctx, 200*time.Millisecond)
		}
		if m == nil || m.Sequence <= s.cursors[p].own {
			continue
		}
		tail = max(tail, m.Sequence)
		if s.active[p] && !slices.ContainsFunc(ours, func(e *streams.Entry) bool { return e.Seq == m.Sequence }) {
			s.active[p] = false
			s.stats.FenceLost.Add(1)
			s.log.Info("standing by", "partition", p)
		}
	}
	return s.foldTo(ctx, tail)
}

// purge removes decided messages from the intake. It only frees disk space.
func (s *intakeStage) purge(ctx context.Context) {
	if time.Since(s.purgedAt) < purgeEvery && (s.purgeFailed || s.seen < s.purged+purgeBacklog+uint64(s.queued)) {
		return
	}
	s.purgedAt = time.Now()
	if s.queued > 0 || s.seen < s.purged+purgeAtLeast {
		// Between batches of a backlog the watermark is the lowest queue head.
		low := s.seen + 1
		for _, p := range s.cfg.Partitions {
			if q := s.queue[p]; len(q) > 0 {
				low = min(low, q[0].msg.Seq)
			}
		}
		if low == 0 || low-1 < s.purged+purgeAtLeast {
			return
		}
		s.purgeTo(ctx, low-1)
		return
	}
	s.purgeTo(ctx, s.seen)
}

func (s *intakeStage) purgeTo(ctx context.Context, seq uint64) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	st, err := s.js.Stream(ctx, streams.IntakeStream)
	if err == nil && s.all() {
		err = st.Purge(ctx, jetstream.WithPurgeSequence(seq+1))
	} else if err == nil {
		for _, f := range s.intakeFilters() {
			if err = st.Purge(ctx, jetstream.WithPurgeSubject(f), jetstream.WithPurgeSequence(seq+1)); err != nil {
				break
			}
		}
	}
	s.purgeFailed = err != nil
	if err != nil {
		s.log.Warn("intake not purged", "to", seq, "err", err)
		return
	}
	s.purged = seq
}
