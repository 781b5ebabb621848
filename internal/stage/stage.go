package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Defaults of Config, and intervals of a stage's loop.
const (
	// DefaultTakeover is how long an input may wait before a stand-by handles it. It is shorter than the shortest
	// deadline for a verdict. So if a sentinel dies, verdicts come late, but no verdict is a hold only because the
	// sentinel's answer is missing.
	DefaultTakeover = time.Second
	// commitEvery is the maximum number of inputs that a stage folds between commits.
	commitEvery = 512
	// idleTick is how often an idle stage checks its timers. A stand-by checks as often whether to take over.
	idleTick = 20 * time.Millisecond
	// keepEvery is a number of entries. After each keepEvery folded entries, the state is written to files. So after a
	// kill, at most about as many entries are folded again.
	keepEvery = 4096
)

// Config configures a stage.
type Config struct {
	Name       string        // token of the stage in its ledger subject
	Conn       *nats.Conn    // with the stage's credential
	Dir        string        // folder of the Pebble cache
	Key        []byte        // key that encrypts the stored state; nil: plaintext, for tests
	Partitions []int         // partitions to work on; empty: all
	Standby    bool          // start as a stand-by, without publishing
	Takeover   time.Duration // how long an input may wait before a stand-by handles it; 0: DefaultTakeover
	Log        *slog.Logger  // nil: no log
	// Migrations are the stage's own migrations, by the format from which they start.
	Migrations map[int]Migration
	// Feed, if set, reads new ledger entries once for all stages of the process.
	Feed *Feed
	// Joint, if set, lets the stages of this process decide proposals jointly.
	Joint *Joint
	// FS replaces the operating system's file system in tests.
	FS vfs.FS
	// Ready, if set, is called once, as soon as the stage has folded all entries that the ledger had when the stage
	// started.
	Ready func()
	// Stats, if set, is updated for health checks and metrics.
	Stats *Stats
	// Published, if set, is called from the stage's loop for each entry that this process added to the ledger. note is
	// Output.Note or Admission.Decided, or nil if the entry was decided before a restart. Use Published only for
	// metrics: if an acknowledgement was lost, it may not be called for the entry.
	Published func(e *streams.Entry, note any)
}

// Stats are the progress and the counters of one stage. All fields may be read while the stage runs.
type Stats struct {
	Ready     atomic.Bool   // all entries that the ledger had at the start are folded
	Folded    atomic.Uint64 // ledger sequence up to which everything is folded
	Entries   atomic.Uint64 // entries folded by this process
	Published atomic.Uint64 // entries published by this process
	Waiting   atomic.Int64  // decided outputs that are not in the ledger yet
	Active    atomic.Bool   // this process publishes in at least one partition
	// Entries of the stage's other processes that differ from the entries that this process would have added.
	Diverged          atomic.Uint64
	FenceLost         atomic.Uint64         // times that another process published first in a partition
	TakenOver         atomic.Uint64         // partitions taken over because an input had waited for the takeover time
	Ahead             atomic.Uint64         // batches decided while the previous one was being published
	Speculated        atomic.Uint64         // proposals decided before the end of the ledger was known
	SpeculationFailed atomic.Uint64         // speculative decisions (see Speculated) that were dropped and made again
	Offered           atomic.Uint64         // proposals decided without the intake: see Offer
	Joint             atomic.Uint64         // proposals published in a joint frame
	Alone             [alones]atomic.Uint64 // proposals that were not decided jointly, by reason
	Oversized         atomic.Uint64         // entries that were too large for the ledger and were replaced by a rejection
	Ignored           atomic.Uint64         // messages in the ledger that no stage of Lazaret wrote, or that are invalid
	// For an auditor: Signed is the number of leaves that its last checkpoint covers, Leaves the number of leaves of
	// the log, Gaps the number of missing ledger sequences. SignedAt is the time of the checkpoint in Unix nanoseconds.
	// UncosignedSince is the time in Unix nanoseconds since which the last checkpoint lacks the signature of a witness,
	// or 0.
	Signed, Leaves, Gaps, SignedAt, UncosignedSince atomic.Int64

	mu     sync.Mutex
	counts map[string]uint64 // guarded by mu
	// Time since which an input has been waiting for its entry; zero if none waits; guarded by mu.
	pendingSince time.Time
	why          string // reason why the last entry could not be added; guarded by mu
}

// Pending returns for how long an input has been waiting for the entry that the stage must add. If the stage has added
// another entry since, the time counts from that entry. If no input waits, Pending returns 0. why is the reason why the
// entry could not be added, or "" if none is known.
func (s *Stats) Pending() (since time.Duration, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pendingSince.IsZero() {
		return 0, ""
	}
	return time.Since(s.pendingSince), s.why
}

// setPending records the time since which an input has been waiting for its entry. A zero time means that none waits.
func (s *Stats) setPending(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pendingSince = since; since.IsZero() {
		s.why = ""
	}
}

// refused records why an entry could not be added.
func (s *Stats) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = err.Error()
}

// Counted may be implemented by a value of Output.Note. The note's entry is then counted under each returned name, too,
// and not only under the entry's type.
type Counted interface{ CountedAs() []string }

func (s *Stats) count(e *streams.Entry, note any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = make(map[string]uint64)
	}
	s.counts[string(e.Type)]++
	if n, ok := note.(Counted); ok {
		for _, as := range n.CountedAs() {
			s.counts[string(e.Type)+"."+as]++
		}
	}
}

// Counts returns how many entries this process added to the ledger: by type, and by type.name for each name of a note
// that implements Counted.
func (s *Stats) Counts() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Output is the entry that a stage adds to the ledger in answer to one input.
type Output struct {
	Type    streams.Type
	Project string
	Body    []byte
	// Live are copies to publish once the entry is in the ledger.
	Live []Live
	// Note is passed to Config.Published. Decisions must not depend on it.
	Note any
}

// Live is a copy of an entry for the live feed. Its publish is not acknowledged, so it may be lost.
type Live struct {
	Subject string
	Body    []byte // nil: the entry's own body
}

// Query reads a partition's state between two batches. Run must not change the state. It must be fast, because the
// stage waits for it.
type Query struct {
	Partition int
	Run       func(st *State)
}

// Ask sends a query to a stage. It returns once the query has run, or when ctx ends.
func Ask(ctx context.Context, queries chan<- Query, partition int, run func(st *State)) error {
	done := make(chan struct{})
	q := Query{Partition: partition, Run: func(st *State) { defer close(done); run(st) }}
	select {
	case queries <- q:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Answering returns a handler of requests about a partition. answer computes the response from the partition's state;
// it runs between two batches of the stage. name is the stage's name for the error message that the stage is busy.
func Answering(queries chan<- Query, name string,
	answer func(st *State, req []byte) (any, error)) func(ctx context.Context, p int, req []byte) (any, error) {
	return func(ctx context.Context, p int, req []byte) (any, error) {
		var answered any // Ask's callback sets it, so read it only after Ask has returned without an error
		var failed error
		if err := Ask(ctx, queries, p, func(st *State) { answered, failed = answer(st, req) }); err != nil {
			return nil, fmt.Errorf("%s is busy: %w", name, err)
		}
		return answered, failed
	}
}

// LiveCopy returns a copy of body for the live subject lz.live.<project>.<tokens…>. It returns nil if a token is not a
// valid identifier, or if body cannot be encoded.
func LiveCopy(body any, project string, tokens ...string) []Live {
	subject, err := streams.LiveSubject(project, tokens...)
	if err != nil {
		return nil
	}
	b, err := streams.Marshal(body)
	if err != nil {
		return nil
	}
	return []Live{{Subject: subject, Body: b}}
}

// OwnCopy returns a copy of the entry's own body for the live subject lz.live.<project>.<tokens…>. It returns nil if a
// token is not a valid identifier.
func OwnCopy(project string, tokens ...string) []Live {
	subject, err := streams.LiveSubject(project, tokens...)
	if err != nil {
		return nil
	}
	return []Live{{Subject: subject}}
}

// NewOutput returns an output whose body is body as JSON.
func NewOutput(t streams.Type, project string, body any, live ...Live) (*Output, error) {
	b, err := streams.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", t, err)
	}
	return &Output{Type: t, Project: project, Body: b, Live: live}, nil
}

// runtime is the common part of ledgerStage and intakeStage. Only the stage's loop uses it.
type runtime struct {
	cfg     Config
	log     *slog.Logger
	js      jetstream.JetStream
	store   *store
	states  [streams.Partitions]*State
	pub     *publisher
	cursors [streams.Partitions]cursor  // sequences of progress, by partition
	saved   [streams.Partitions]cursor  // cursors as committed to the store
	decided [streams.Partitions]decided // inputs that ingest has decided on; other stages do not use it
	mine    [streams.Partitions]bool    // this stage works on the partition
	erasing bool                        // the next commit rewrites the files, so that deleted data is gone
	syncing bool                        // the next commit is synced, and makes a snapshot
	kept    uint64                      // value of Stats.Entries when the state was last written to files
	// refolding is set if the state of a partition must be folded again. erasures are the entries that the fold of each
	// partition skips.
	refolding bool
	erasures  [streams.Partitions]erasures
	// whole is the ledger sequence up to which everything had been read at the last successful call of guard. guarded
	// is the wall clock time of that call.
	whole   uint64
	guarded time.Time
	marks   marks
	moved   time.Time // wall clock time at which this process last added an entry
	due     following // the next ledger message to expect
	forgets forgettings
	stats   *Stats
}

func newRuntime(ctx context.Context, cfg Config) (*runtime, error) {
	if cfg.Takeover <= 0 {
		cfg.Takeover = DefaultTakeover
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Stats == nil {
		cfg.Stats = new(Stats)
	}
	cfg.Partitions = PartitionList(cfg.Partitions)
	if err := checkPayload(cfg.Conn); err != nil {
		return nil, err
	}
	js, err := jetstream.New(cfg.Conn)
	if err != nil {
		return nil, err
	}
	r := &runtime{cfg: cfg, log: cfg.Log.With("stage", cfg.Name), js: js, stats: cfg.Stats,
		pub: &publisher{nc: cfg.Conn, js: js, stage: cfg.Name, open: cfg.Joint != nil && cfg.Name == streams.StageIngest}}
	for _, p := range cfg.Partitions {
		if p < 0 || p >= streams.Partitions {
			return nil, fmt.Errorf("partition %d does not exist: use 0 to %d", p, streams.Partitions-1)
		}
		r.mine[p] = true
	}
	err = Patiently(ctx, r.log, "its state", func() error { return r.openState(ctx) })
	if err != nil {
		return nil, err
	}
	if r.cursors, err = r.store.cursors(); err != nil {
		return nil, errors.Join(err, r.store.close())
	}
	r.saved = r.cursors
	for p, c := range r.cursors {
		if r.decided[p], err = r.store.loadDecided(p, c.src); err != nil {
			return nil, errors.Join(err, r.store.close())
		}
	}
	for p := range r.states {
		r.states[p] = &State{s: r.store, partition: p}
	}
	return r, nil
}

// ended returns err, or nil if the only reason for err is that ctx ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func (r *runtime) all() bool { return !slices.Contains(r.mine[:], false) }

// ledgerFilters returns the subjects of the stage's partitions, or nil if it works on all.
func (r *runtime) ledgerFilters() []string {
	if r.all() {
		return nil
	}
	var f []string
	for _, p := range r.cfg.Partitions {
		f = append(f, streams.LedgerFilter(p))
	}
	return f
}

// oldest returns the lowest cursor of the stage's partitions. Every partition is folded at least up to this ledger
// sequence.
func (r *runtime) oldest() uint64 {
	low := ^uint64(0)
	for _, p := range r.cfg.Partitions {
		low = min(low, r.cursors[p].folded)
	}
	return low
}

// openLedger starts to read the ledger after oldest. last is the last ledger sequence of the stage's partitions at that
// time.
func (r *runtime) openLedger(ctx context.Context) (rd *ledgerReader, last uint64, err error) {
	err = Patiently(ctx, r.log, "the ledger", func() error {
		rd, last, err = r.openLedgerOnce(ctx)
		return err
	})
	return rd, last, err
}

func (r *runtime) openLedgerOnce(ctx context.Context) (*ledgerReader, uint64, error) {
	if err := checkLedger(ctx, r.js, r.cfg.Name); err != nil {
		return nil, 0, err
	}
	from := r.oldest() + 1
	last, err := checkStart(ctx, r.js, streams.LedgerStream, from)
	if t, ok := asTrimmed(err); ok {
		t.Stage = r.cfg.Name
	}
	if err != nil {
		return nil, 0, err
	}
	r.whole = from - 1
	if err := errors.Join(r.guard(ctx, r.whole), r.keepSnapshot()); err != nil {
		return nil, 0, err
	}
	r.due = following{next: from}
	if last, err = r.endOfLedger(ctx, from, last); err != nil {
		return nil, 0, err
	}
	// The state has every entry before from.
	r.stats.Folded.Store(from - 1)
	rd, err := openLedgerReader(ctx, r.cfg.Conn, r.cfg.Feed, r.ledgerFilters(), "", from, r.log)
	return rd, last, err
}

// lastOf returns the last ledger sequence of the given partitions, or 0.
func lastOf(ctx context.Context, js jetstream.JetStream, partitions []int) (last uint64, err error) {
	for _, p := range partitions {
		m, err := lastOn(ctx, js, streams.LedgerFilter(p))
		if err != nil {
			return 0, err
		}
		if m != nil {
			last = max(last, m.Sequence)
		}
	}
	return last, nil
}

// Tail returns a function that returns the last ledger sequence of the given partitions, or of all if there are none.
// The difference between this sequence and Stats.Folded says how far a stage is behind.
func Tail(nc *nats.Conn, partitions []int) func(ctx context.Context) (uint64, error) {
	return func(ctx context.Context) (uint64, error) {
		js, err := jetstream.New(nc)
		if err != nil {
			return 0, err
		}
		if len(partitions) > 0 && len(partitions) < streams.Partitions {
			return lastOf(ctx, js, partitions)
		}
		st, err := Stream(ctx, js, streams.LedgerStream)
		if err != nil {
			return 0, err
		}
		return st.CachedInfo().State.LastSeq, nil
	}
}

// TrimmedError reports that messages after the last one that a reader has read were removed from the stream. If the
// reader continued with the first message that is left, it would skip the removed ones.
type TrimmedError struct {
	Stream      string
	From, First uint64
	Stage       string // the stage that reads, or ""
}

func (e *TrimmedError) Error() string {
	if e.Stage == "" {
		return fmt.Sprintf("%s was trimmed and begins at %d, but this reader has to continue at %d", e.Stream, e.First,
			e.From)
	}
	return fmt.Sprintf("%s was trimmed and has all entries only from %d on, but stage %s has to continue at %d: it "+
		"stays silent until its state is restored from a snapshot (lazaret state restore %[3]s)", e.Stream, e.First,
		e.Stage, e.From)
}

func asTrimmed(err error) (*TrimmedError, bool) {
	var t *TrimmedError
	return t, errors.As(err, &t)
}

// RecreatedError reports that a stream ends before a sequence that was read from it earlier. So the stream was deleted
// and created again, or restored from an old copy.
type RecreatedError struct {
	Stream     string
	Last, Seen uint64
}

func (e *RecreatedError) Error() string {
	return fmt.Sprintf("%s ends at %d, but message %d was read from it before. So the stream was recreated, or restored "+
		"from an old copy: restore a copy that has message %d, and tell the people who audit the "+
		"log", e.Stream, e.Last, e.Seen, e.Seen)
}

func checkStart(ctx context.Context, js jetstream.JetStream, stream string, from uint64) (last uint64, err error) {
	st, err := Stream(ctx, js, stream)
	if err != nil {
		return 0, err
	}
	s := st.CachedInfo().State
	if s.LastSeq+1 < from {
		return 0, &RecreatedError{stream, s.LastSeq, from - 1}
	}
	// In a stream that lost all its messages, the first sequence is the one after the last message.
	if s.FirstSeq > from && stream == streams.LedgerStream {
		return 0, &TrimmedError{Stream: stream, From: from, First: s.FirstSeq}
	}
	return s.LastSeq, nil
}

// entries returns the entries of a message, and whether the stage must fold them. Messages that no stage of Lazaret
// wrote are logged and skipped, so that they cannot stop a partition.
func (r *runtime) entries(a *arrival) ([]streams.Entry, bool) {
	if a.err != nil {
		r.ignore(a.err)
		if e := a.first(); e.Stage == r.cfg.Name && r.mine[e.Partition] {
			// The invalid message is still the last one on the stage's subject. So the next publish must expect its
			// sequence.
			c := &r.cursors[e.Partition]
			c.own = max(c.own, e.Seq)
		}
		return a.entries, false
	}
	return a.entries, r.mine[a.first().Partition]
}

// setPending records the time since which an input has been waiting for its entry: oldest, or the time of the last
// added entry if that is later. If oldest is zero, no input waits.
func (r *runtime) setPending(oldest time.Time) {
	if !oldest.IsZero() && r.moved.After(oldest) {
		oldest = r.moved
	}
	r.stats.setPending(oldest)
}

// added is called for an entry that this process has added to the ledger. It counts the entry and publishes its live
// copies.
func (r *runtime) added(e *streams.Entry, live []Live, note any) {
	r.moved = time.Now()
	r.live(e, live)
	r.stats.count(e, note)
	if r.cfg.Published != nil {
		r.cfg.Published(e, note)
	}
}

func (r *runtime) live(e *streams.Entry, live []Live) {
	for _, l := range live {
		body := l.Body
		if body == nil {
			body = e.Body
		}
		m := &nats.Msg{Subject: l.Subject, Data: body, Header: nats.Header{
			streams.HeaderType: {string(e.Type)},
			streams.HeaderSeq:  {fmt.Sprint(e.Position())},
		}}
		if err := r.cfg.Conn.PublishMsg(m); err != nil {
			r.log.Warn("live copy not published", "subject", l.Subject, "err", err)
		}
	}
}

// commit stores the state and the cursors together. Then it rewrites or syncs the files if that was requested.
func (r *runtime) commit() error {
	for _, p := range r.cfg.Partitions {
		if r.cursors[p] == r.saved[p] {
			continue
		}
		if err := r.store.set(cursorKey(p), r.cursors[p].bytes()); err != nil {
			return err
		}
	}
	for _, p := range r.cfg.Partitions {
		if d := &r.decided[p]; d.dirty {
			if err := r.store.set(decidedKey(p), d.bytes()); err != nil {
				return err
			}
			d.dirty = false
		}
	}
	if err := r.store.commit(); err != nil {
		return err
	}
	r.saved = r.cursors
	if r.erasing {
		r.erasing = false
		if err := r.store.rewriteErased(); err != nil {
			return err
		}
	}
	if r.syncing {
		r.syncing = false
		r.kept = r.stats.Entries.Load()
		return errors.Join(r.store.sync(), r.store.snapshot())
	}
	return r.keep()
}

// keep writes the state to files once every keepEvery entries. A kill loses the state that is only in Pebble's
// memtable. A state that hardly grows would never fill a memtable, and a kill would lose the whole fold.
func (r *runtime) keep() error {
	n := r.stats.Entries.Load()
	if n-r.kept < keepEvery {
		return nil
	}
	r.kept = n
	if err := r.store.flush(); err != nil {
		return err
	}
	if _, err := r.store.db.AsyncFlush(); err != nil {
		return fmt.Errorf("writing stage state to files: %w", err)
	}
	return nil
}

// commitSealed is like commit, but commits only the store's sealed changes. The store's pending changes stay
// uncommitted.
func (r *runtime) commitSealed() error {
	for _, p := range r.cfg.Partitions {
		if r.cursors[p] != r.saved[p] {
			r.store.put(&r.store.sealed, cursorKey(p), change{v: r.cursors[p].bytes()})
		}
		if d := &r.decided[p]; d.dirty {
			r.store.put(&r.store.sealed, decidedKey(p), change{v: d.bytes()})
			d.dirty = false
		}
	}
	if err := r.store.commitSealed(); err != nil {
		return err
	}
	r.saved = r.cursors
	return r.keep()
}

func (r *runtime) ready() {
	r.stats.Ready.Store(true)
	if r.cfg.Ready != nil {
		r.cfg.Ready()
		r.cfg.Ready = nil
	}
}

// PartitionList returns the partitions that a stage works on: ps, or all if ps is empty.
func PartitionList(ps []int) []int {
	if len(ps) > 0 {
		return ps
	}
	all := make([]int, streams.Partitions)
	for p := range all {
		all[p] = p
	}
	return all
}
