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

// Message is one event for ingest: a message of the intake, one event of a batch in the intake, or a proposal that was
// offered without the intake (see Offer).
type Message struct {
	Seq     uint64    // sequence of the message; for an Offer, of the intake's last message
	Index   int       // index in the batch, 0 for a single message, at least streams.MaxBatch for an Offer
	Time    time.Time // time stamp of the stream
	Subject string
	Address streams.Address
	// BadSubject is the error of parsing the subject, or nil. Address.Partition is valid even then, because the server
	// inserts the partition into the subject.
	BadSubject error
	// Bad is the reason why a batch, or this event of a batch, is invalid, or nil.
	Bad    *streams.RejectError
	Header nats.Header
	Data   []byte
	// Prepared is the result of Preparer.Prepare, or nil if Prepare was not called.
	Prepared any
}

// Position returns the event's position in the intake: sequence and index in one number, see package position.
func (m *Message) Position() uint64 { return position.At(m.Seq, m.Index) }

// Place returns the event's place in the order of ingest's inputs. For a message of the intake that is its sequence.
// For an Offer it is the position, because several offers have the same sequence.
func (m *Message) Place() uint64 {
	if m.Index >= streams.MaxBatch {
		return m.Position()
	}
	return m.Seq
}

// IntakeFold is the logic of ingest: it decides on intake messages, with the ledger as its state.
//
// Its state is a fold of the ledger, in the order in which ingest read the entries, which is not always their order in
// the ledger. An entry X of another stage is folded before ingest's entry E exactly if the sequence of X is at most
// E.At. The ledger records At, so every process arrives at the same state.
//
// The methods are called from one goroutine and must be deterministic.
type IntakeFold interface {
	// Admit decides on one message and returns the entry for it, because every message gets an entry. It returns nil
	// only with an error. Admit must not change the state. Apply changes the state later, with the entry that Admit
	// returned.
	Admit(st *State, m *Message) (*Admission, error)
	// Reject returns the rejected entry for a message, with why as the reason. The entry must be at most
	// streams.MaxEntry bytes long, whatever the message contains.
	Reject(st *State, m *Message, why *streams.RejectError) (*Admission, error)
	// Shed returns the rejection of an event for which ingest has no room. reason is the text in it. The stage then
	// drops the event's data and headers and passes the rejection to Reject. Shed must depend only on m and reason.
	Shed(m *Message, reason string) *streams.RejectError
	// Apply folds one entry into the state. If the entry is ingest's own, its sequence and time stamp are 0; else it is
	// an entry of another stage. decided is Admission.Decided if this process has just decided on the entry, and nil if
	// it read the entry from the ledger.
	Apply(st *State, e *streams.Entry, decided any) error
	// Relevant reports whether Apply uses this entry of another stage. The stage skips other entries.
	Relevant(e *streams.Entry) bool
	// FollowUp returns an entry that must be added to the ledger although no message asks for it, such as the expiry of
	// a belief, or nil. FollowUp must not change the state. Once a finite number of its entries have been applied, it
	// must return nil.
	FollowUp(st *State) (*Admission, error)
	// Wakes reports whether FollowUp may return an entry after the given entry was applied. The stage then calls
	// FollowUp.
	Wakes(e *streams.Entry) bool
	// Reset drops everything that the fold stores outside State.
	Reset()
}

// Admission is ingest's decision on one message, or the result of FollowUp.
type Admission struct {
	Output
	// Entries with the same non-empty Together may share a ledger message. An entry with an empty Together gets its own
	// message. Entries that may have to be forgotten separately must have different values, because a message can only
	// be deleted as a whole.
	Together string
	Decided  any // the value that Body encodes
}

const (
	intakeBatch = 500 // maximum number of messages decided at once
	// intakeBatchBytes is the maximum size in bytes of the messages that are decided in one batch, unless a single
	// message is larger. So it also limits how long one project's messages delay those of other projects.
	intakeBatchBytes = 1 << 20
	// batchTime is the time after which a batch ends, even if messages are left. Some small messages take long to decide,
	// for example an answer that is compared with many sources. The decisions do not depend on where a batch ends.
	batchTime = 50 * time.Millisecond
	// intakeHeld is the maximum size of the queued messages in memory, in bytes. Beyond it, messages larger than
	// leanFrom are queued without their data. The data is read again when the message is decided.
	intakeHeld = 32 << 20
	leanFrom   = 2 << 10
	// intakeLoaded is additional memory, in bytes. When the data of one event of a batch is read again, the data of the
	// batch's later events is kept here too.
	intakeLoaded = 8 << 20
	purgeEvery   = 2 * time.Second
	purgeAtLeast = 1 // minimum number of messages to purge
	// purgeBacklog is a number of decided messages. If there are as many, a purge does not wait for purgeEvery. The
	// intake accepts at most streams.IntakePerSubject messages on a subject, so many decided messages could make the
	// server refuse new ones.
	purgeBacklog = streams.IntakePerSubject / 8
	// purgeBytes is a size of decided messages in bytes. If there are as many, a purge does not wait for purgeEvery. In
	// a small intake, the size is the intake's maximum size divided by purgeShare.
	purgeBytes = 8 << 20
	purgeShare = 16
)

// intakeStage is the loop of an IntakeFold.
//
// Only the loop uses its fields. Between two batches, the state contains exactly the entries that are known to be in
// the ledger.
type intakeStage struct {
	*runtime
	fold   IntakeFold
	in     *reader
	ledger *ledgerReader
	read   uint64 // last ledger sequence that was read
	known  uint64 // last ledger sequence up to which this process has read or published every entry
	// By partition: entries of other stages, in ledger order, that will be folded before the next entry of ingest.
	waiting [streams.Partitions][]*streams.Entry
	noted   [streams.Partitions]uint64 // sequence of the last entry in waiting that is recorded in the store
	lines   map[lineKey]*line
	turns   []*line // all lines, in the order in which they get their turns
	queued  int     // number of queued messages, and of events of opened batches
	// Number of events in unopened batches, minus the number of these batches, which queued already counts.
	within    int
	held      int // bytes of queued messages whose data is in memory
	backlog   backlog
	deletions deletions
	seen      uint64                                 // last intake sequence that was read, or purged before the start
	active    [streams.Partitions]bool               // this process publishes in the partition
	followUps [streams.Partitions]bool               // FollowUp may return an entry
	progress  [streams.Partitions]time.Time          // when an entry of another ingest process was last read; wall clock
	trims     [streams.Partitions]*streams.Retention // trim entry that ingest has not answered yet
	purged    uint64                                 // intake sequence up to which decided messages were purged
	purgedAt  time.Time                              // wall clock time of the last attempt to purge
	// decidedBytes is the size of the messages that were decided since purgedAt and that the next purge removes. If it
	// is at least purgeBytes, the next purge does not wait for purgeEvery.
	decidedBytes, purgeBytes int
	// purgeFailed is set if the last purge failed. The next one then waits for purgeEvery.
	purgeFailed bool
	pauseLeft   int // number of coming proposals to decide without speculation, see speculate
	// offersNext is the Message.Index of the next Offer, if offersAfter is still the intake's last sequence. It is 0
	// before the first offer.
	offersNext  int
	offersAfter uint64
	// allows is set for the partitions in which this process may publish joint frames: it wrote the last message on
	// ingest's own subject there, with streams.HeaderOpen.
	allows [streams.Partitions]bool
	// otherGroups is set for the partitions in which a sentinel group of another process wrote recently.
	otherGroups  [streams.Partitions]bool
	loggedGroups []string // sentinel groups of other processes whose existence was logged
	// unsure is set for the partitions in which another process may still publish a joint frame, or in which this
	// process may not have read such a frame yet. Nothing is decided there until claim has succeeded.
	unsure  [streams.Partitions]bool
	jointAt time.Time // time of the last joint frame that this process published
	// waited is the number of coming proposals in a partition that are not decided jointly. It is set when a proposal
	// had to wait for a sentinel group of another process.
	waited [streams.Partitions]int
}

// RunIntake runs ingest until ctx ends, or until the state or a stream is found to be unusable. It returns nil when ctx
// ended. Between batches, it answers the queries that it receives from queries, which may be nil.
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
		err := Patiently(ctx, r.log, "the stage's last entry", func() (err error) {
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
	// Messages that were purged from the intake before the start are decided.
	err = Patiently(ctx, r.log, "the intake", func() error {
		st, err := Stream(ctx, r.js, streams.IntakeStream)
		if err == nil {
			s.seen = max(st.CachedInfo().State.FirstSeq, 1) - 1
			s.backlog.most = wire.AgentBytes(&st.CachedInfo().Config)
			if s.purgeBytes = purgeBytes; st.CachedInfo().Config.MaxBytes > 0 {
				s.purgeBytes = int(min(purgeBytes, st.CachedInfo().Config.MaxBytes/purgeShare))
			}
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
		err = s.endForRefold()
	}
	if err != nil {
		if ctx.Err() != nil {
			return s.commitFolded()
		}
		return err
	}
	// Entries may have been removed from the ledger while the state was folded. So check for missing entries again
	// before anything is published.
	err = Patiently(ctx, r.log, "whether the ledger was trimmed", func() error { return s.guard(ctx, s.read) })
	if err != nil {
		return ended(ctx, err)
	}
	var src uint64
	for _, p := range r.cfg.Partitions {
		s.active[p] = !r.cfg.Standby
		s.followUps[p] = true
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
		// If messages are queued that this process must decide, the loop must not wait for other events.
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
		err := s.answerWaiting(ctx, queries)
		if err == nil {
			err = s.guardDue(ctx, s.read)
		}
		if err == nil {
			err = s.endForRefold()
		}
		if err == nil {
			err = s.drainIntake()
		}
		if err == nil {
			err = s.readOn(ctx)
		}
		if err == nil && offer != nil {
			err = s.offered(ctx, offer)
		}
		if err == nil {
			err = s.work(ctx)
		}
		if err == nil {
			err = s.addFollowUps(ctx)
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

// endForRefold returns errRefold, which ends the loop, if the state of a partition must be folded again.
func (s *intakeStage) endForRefold() error {
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
