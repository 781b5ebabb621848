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

// Message is one event of the intake: a stored message, or an event of a batch.
type Message struct {
	Seq     uint64    // sequence of the message, or of the intake's last one if it is an Offer
	Index   int       // index in the batch, if the message is one; at least streams.MaxBatch in an Offer
	Time    time.Time // time stamp of the stream
	Subject string
	Address streams.Address
	// BadSubject is the error of parsing the subject, or nil. The partition is always valid because
	// the server wrote it.
	BadSubject error
	// Bad is the reason why a batch, or an element of one, is invalid, or nil.
	Bad    *streams.RejectError
	Header nats.Header
	Data   []byte
	// Prepared is the result of the fold's Prepare, or nil if it was not called.
	Prepared any
}

// Position returns the position of the event in the intake, see package position.
func (m *Message) Position() uint64 { return position.At(m.Seq, m.Index) }

// Place returns the event's place in the order of ingest's inputs: the message's sequence, or the
// position of an offered proposal.
func (m *Message) Place() uint64 {
	if m.Index >= streams.MaxBatch {
		return m.Position()
	}
	return m.Seq
}

// IntakeFold is the logic of ingest: it decides on intake messages, with the ledger as its state.
//
// Its state is a fold over the ledger. The order of the fold is the order in which ingest read the entries, not their
// order in the ledger: an entry of another stage is folded before ingest's entry E if and only if its sequence is at
// most E.At. The ledger records At, so every process arrives at the same state.
//
// The methods are called from one goroutine and must be deterministic.
type IntakeFold interface {
	// Admit decides on one message and returns the entry for it. It never returns nil without an
	// error, because every message gets an entry. It must not change the state. Apply does that,
	// with the entry that Admit returned.
	Admit(st *State, m *Message) (*Admission, error)
	// Reject returns the entry for a message that is rejected. The entry fits into the ledger,
	// whatever the message contains.
	Reject(st *State, m *Message, why *streams.RejectError) (*Admission, error)
	// Shed returns the rejection of a message, or of an event of a batch, for a reason. The message's
	// data and headers are then dropped, and Reject makes the entry from the rejection. Shed depends
	// only on the message and the reason.
	Shed(m *Message, reason string) *streams.RejectError
	// Apply folds one entry into the state. It may be an own entry, whose sequence and time stamp
	// must not be used, or another stage's. decided is Admission.Decided if the entry was decided
	// just now, and nil if it was read from the ledger.
	Apply(st *State, e *streams.Entry, decided any) error
	// Relevant reports whether Apply uses an entry of another stage.
	Relevant(e *streams.Entry) bool
	// Owed returns an entry that must be added to the ledger although no message asks for it, or
	// nil. Like Admit it must not change the state. Applying such entries must eventually leave
	// none.
	Owed(st *State) (*Admission, error)
	// Wakes reports whether an entry may cause Owed to return one.
	Wakes(e *streams.Entry) bool
	// Reset drops everything that the fold stores outside State.
	Reset()
}

// Admission is ingest's decision on one message.
type Admission struct {
	Output
	// Together groups entries that may share a ledger message: those with the same text. If it is
	// empty, the entry has its own message. Entries that may have to be forgotten separately must
	// not share one.
	Together string
	Decided  any // the decoded Body
}

const (
	intakeBatch = 500 // messages decided at once
	// intakeBatchBytes is the maximum size of the messages decided at once, unless a single message
	// is larger. It also limits how long messages of other projects wait for their turn.
	intakeBatchBytes = 1 << 20
	// intakeHeld is the maximum size of the messages in memory, in bytes. Beyond it, messages
	// larger than leanFrom are stored without their data, which is read again for the decision.
	intakeHeld = 32 << 20
	leanFrom   = 2 << 10
	// intakeLoaded is the room beyond intakeHeld for events of batches that were read again for the
	// decision on an earlier event.
	intakeLoaded = 8 << 20
	purgeEvery   = 2 * time.Second
	purgeAtLeast = 1 // messages
	// purgeBacklog is the number of messages after which a purge happens earlier. A subject may
	// hold streams.IntakePerSubject messages, and decided messages must not make it refuse new
	// ones.
	purgeBacklog = streams.IntakePerSubject / 8
)

// intakeStage is the loop of an IntakeFold.
//
// All fields are owned by the loop. Between two batches, the state contains exactly the entries
// that are known to be in the ledger.
type intakeStage struct {
	*runtime
	fold   IntakeFold
	in     *reader
	ledger *ledgerReader
	read   uint64 // last ledger sequence that was read
	known  uint64 // every entry up to here was read or published by this process
	// foreign are entries of other stages that wait for the next own entry, by partition, in ledger
	// order.
	foreign   [streams.Partitions][]*streams.Entry
	noted     [streams.Partitions]uint64 // last entry in foreign that is recorded in the store
	lines     map[lineKey]*line
	turns     []*line // all lines, in the order of their turns
	queued    int     // number of queued messages, and of events of opened batches
	within    int     // number of further events in batches that are not opened
	held      int     // bytes of queued messages
	backlog   backlog
	deletions deletions
	seen      uint64 // last intake sequence that was read, or purged before the start
	active    [streams.Partitions]bool
	owes      [streams.Partitions]bool               // Owed may return an entry
	progress  [streams.Partitions]time.Time          // wall clock time of the last own entry of another process
	trims     [streams.Partitions]*streams.Retention // announced and not answered
	purged    uint64
	purgedAt  time.Time
	// purgeFailed delays the next purge instead of trying again at once.
	purgeFailed bool
	blind       int // number of proposals to decide without speculation
	// offersNext is the index of the next offer, if no message comes after offersAfter. It is 0 before the first
	// offer.
	offersNext  int
	offersAfter uint64
	// allows is set for the partitions in which this process may publish joint frames: those where the last
	// message on ingest's own subject is an entry of this process with streams.HeaderOpen.
	allows [streams.Partitions]bool
	// foreigners is set if the ledger has recent entries of a sentinel group of another process.
	foreigners [streams.Partitions]bool
	told       []string // groups of other processes that were logged
	// unsure is set if the ledger may still get a joint frame of which this process does not know.
	// Nothing is decided in such a partition before claim.
	unsure  [streams.Partitions]bool
	jointAt time.Time // time of the last joint frame of this process
	// waited is the number of proposals that are not decided jointly because an earlier one waited for
	// a group of another process.
	waited [streams.Partitions]int
}

// RunIntake runs ingest until ctx ends, or until the state or a stream is found unusable. It
// returns nil when ctx ended.
//
// If queries is not nil, it answers queries between batches.
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
	// Check again for holes that appeared during the fold, before anything is published.
	err = Patiently(ctx, r.log, "whether the ledger was trimmed", func() error { return s.guard(ctx, s.read) })
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
	if err := s.findOpen(ctx); err != nil {
		return ended(ctx, err)
	}
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
		// Do not wait for other events while messages are queued that this process must decide.
		var onward <-chan struct{}
		var offer *Offer
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
		case offer = <-s.offers():
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
		if err == nil && offer != nil {
			err = s.offered(ctx, offer)
		}
		if err == nil {
			err = s.work(ctx)
		}
		if err == nil {
			err = s.owed(ctx)
		}
		if err != nil {
			offer.conclude(0)
			if ctx.Err() != nil {
				return s.commitFolded()
			}
			return err
		}
		s.purge(ctx)
	}
}

// again ends the loop if a partition must be refolded.
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
