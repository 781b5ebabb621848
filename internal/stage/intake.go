package stage

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
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
	// Shed says of a message, or of an event of a batch, that it is turned down for a reason. The
	// message's data and headers are dropped then, and Reject makes its entry from the answer.
	// It depends on nothing but the message and the reason.
	Shed(m *Message, reason string) *streams.RejectError
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
	// intakeQueue bounds the messages held in memory. It is above streams.IntakePerSubject:
	// behind the messages of one full subject those of other projects are read.
	intakeQueue = 32 << 10
	intakeBatch = 500 // messages decided at once
	// intakeBatchBytes is how many bytes of messages are decided at once, unless one
	// alone has more. A message of another project waits for at most so many in each turn.
	intakeBatchBytes = 1 << 20
	// intakeHeld bounds the bytes of messages held in memory. Beyond it, messages above
	// leanFrom are held without their data, which is read again for the decision.
	intakeHeld   = 32 << 20
	leanFrom     = 2 << 10
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
	foreign   [streams.Partitions][]*streams.Entry
	noted     [streams.Partitions]uint64 // up to which those that wait are noted in the store
	lines     map[lineKey]*line
	turns     []*line // all lines, in the order in which they are served
	queued    int     // messages
	held      int     // bytes of messages that are queued
	backlog   backlog
	deletions deletions
	seen      uint64 // last intake sequence that came in, or that was purged before the start
	active    [streams.Partitions]bool
	owes      [streams.Partitions]bool               // possibly
	progress  [streams.Partitions]time.Time          // wall clock of the last own entry by others
	trims     [streams.Partitions]*streams.Retention // announced and not answered
	purged    uint64
	purgedAt  time.Time
	// purgeFailed waits for the next time instead of trying at once.
	purgeFailed bool
	blind       int // proposals to decide without foresee
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
	s := &intakeStage{runtime: r, fold: fold, lines: make(map[lineKey]*line),
		deletions: deletions{nc: cfg.Conn, log: r.log, ready: make(chan struct{}, 1)}}
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
	// Messages that were purged from the intake are decided.
	err = Patiently(ctx, r.log, "the intake", func() error {
		st, err := Stream(ctx, r.js, streams.IntakeStream)
		if err == nil {
			s.seen = max(st.CachedInfo().State.FirstSeq, 1) - 1
			s.backlog.most = wire.AgentBytes(&st.CachedInfo().Config)
		}
		return err
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
		src = max(src, position.Sequence(r.decided[p].last()))
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
	defer s.deletes(ctx)()
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
			err = s.drainIntake()
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
