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

// Defaults of Config.
const (
	// DefaultTakeover is how long an input may wait before a stand-by handles it. It is shorter
	// than the shortest verdict deadline, so that a dead sentinel causes a delay and not a hold.
	DefaultTakeover = time.Second
	// commitEvery is the maximum number of inputs that a stage folds between commits.
	commitEvery = 512
	// idleTick is how often an idle stage checks timers and stand-by work.
	idleTick = 20 * time.Millisecond
	// keepEvery is the number of entries after which the state is written to files. About as many
	// are folded again after a kill.
	keepEvery = 4096
)

// Config configures a stage.
type Config struct {
	Name       string     // the stage's name in its ledger subject
	Conn       *nats.Conn // with the stage's credential
	Dir        string     // folder of the Pebble cache
	Key        []byte     // key that seals the cache; nil, for tests: plaintext
	Partitions []int      // partitions to work on; empty: all
	Standby    bool       // start without publishing
	Takeover   time.Duration
	Log        *slog.Logger
	// Migrations are the stage's own migrations, by their starting format.
	Migrations map[int]Migration
	// Feed, if set, reads the end of the ledger once for all stages of the process.
	Feed *Feed
	// Joint, if set, lets the stages of this process decide proposals together.
	Joint *Joint
	// FS replaces the operating system's file system in tests.
	FS vfs.FS
	// Ready is called once, when the stage has folded all entries that were in the ledger when it
	// started.
	Ready func()
	// Stats, if set, is kept up to date for health checks and metrics.
	Stats *Stats
	// Published, if set, is called from the stage's loop for each entry that this process added to
	// the ledger. note is Output.Note or Admission.Decided, or nil for an entry that was decided
	// before a restart. Use it for metrics only: if the acknowledgement of an entry is lost, there
	// may be no call for it.
	Published func(e *streams.Entry, note any)
}

// Stats are a stage's own counters. All fields are safe to read while it runs.
type Stats struct {
	Ready     atomic.Bool           // everything in the ledger at the start is folded
	Folded    atomic.Uint64         // ledger sequence up to which everything was folded
	Entries   atomic.Uint64         // entries read by this process
	Published atomic.Uint64         // entries published by this process
	Waiting   atomic.Int64          // entries that are decided but not in the ledger yet
	Active    atomic.Bool           // this process publishes in at least one partition
	Diverged  atomic.Uint64         // own entries that differ from this process's decision
	FenceLost atomic.Uint64         // partitions in which another process published first
	TakenOver atomic.Uint64         // partitions taken over because inputs had waited
	Ahead     atomic.Uint64         // batches decided while the previous one was being published
	Foreseen  atomic.Uint64         // proposals decided speculatively, before the ledger's end was known
	InVain    atomic.Uint64         // speculative decisions that were dropped and made again
	Offered   atomic.Uint64         // proposals decided before they were read from the intake: see Offer
	Joint     atomic.Uint64         // proposals published in a joint frame with their answers
	Alone     [alones]atomic.Uint64 // times that a proposal was not decided jointly, by reason
	Oversized atomic.Uint64         // entries that were too large for the ledger and were rejected
	Ignored   atomic.Uint64         // messages in the ledger that no stage of Lazaret wrote, or that cannot be valid
	// For an auditor: Signed is the size of the log that its last checkpoint covers, Leaves the
	// size of the log, Gaps the number of missing ledger sequences, and SignedAt the time of the
	// checkpoint in Unix nanoseconds. UncosignedSince is the time in Unix nanoseconds since which not every
	// witness cosigns the last checkpoint, or 0.
	Signed, Leaves, Gaps, SignedAt, UncosignedSince atomic.Int64

	mu     sync.Mutex
	counts map[string]uint64 // guarded by mu
	owes   time.Time         // zero if no entry is due; guarded by mu
	why    string            // guarded by mu
}

// Owes returns for how long the stage has had to add an entry: it has read an input, must add an
// entry for it, and has added none since. why is the obstacle, if known.
func (s *Stats) Owes() (since time.Duration, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owes.IsZero() {
		return 0, ""
	}
	return time.Since(s.owes), s.why
}

// owed records since when an input waits for its entry; zero if none does.
func (s *Stats) owed(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owes = since; since.IsZero() {
		s.why = ""
	}
}

// refused records why an entry could not be added.
func (s *Stats) refused(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = err.Error()
}

// A Counted note names counters of its entry in addition to its type.
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

// Counts returns the numbers of entries that this process added to the ledger, by type and, for
// verdicts, by result and by missing groups.
func (s *Stats) Counts() map[string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Output is an entry that a stage adds to the ledger because of one input.
type Output struct {
	Type    streams.Type
	Project string
	Body    []byte
	// Live are copies to publish after the entry is in the ledger.
	Live []Live
	// Note is passed to Config.Published. It must not influence decisions.
	Note any
}

// Live is a best-effort copy for the live feed.
type Live struct {
	Subject string
	Body    []byte // nil: the entry's own body
}

// Query reads a partition's state between two batches. Run must not write, and must be fast because
// the stage waits for it.
type Query struct {
	Partition int
	Run       func(st *State)
}

// Ask sends a query to a stage and waits until it has run.
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

// Answering returns a handler of questions about a partition: answer reads its state between
// two batches. name is the stage's, for the error that it is busy.
func Answering(queries chan<- Query, name string,
	answer func(st *State, req []byte) (any, error)) func(ctx context.Context, p int, req []byte) (any, error) {
	return func(ctx context.Context, p int, req []byte) (any, error) {
		var answered any // read once Ask has returned without an error
		var failed error
		if err := Ask(ctx, queries, p, func(st *State) { answered, failed = answer(st, req) }); err != nil {
			return nil, fmt.Errorf("%s is busy: %w", name, err)
		}
		return answered, failed
	}
}

// LiveCopy returns a copy of body for lz.live.<project>.<tokens…>, or none if a token is not an
// identifier.
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

// OwnCopy returns a copy of the entry's own body for lz.live.<project>.<tokens…>, or none if a
// token is not an identifier.
func OwnCopy(project string, tokens ...string) []Live {
	subject, err := streams.LiveSubject(project, tokens...)
	if err != nil {
		return nil
	}
	return []Live{{Subject: subject}}
}

// NewOutput returns an output with an encoded body.
func NewOutput(t streams.Type, project string, body any, live ...Live) (*Output, error) {
	b, err := streams.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", t, err)
	}
	return &Output{Type: t, Project: project, Body: b, Live: live}, nil
}

type runtime struct {
	cfg     Config
	log     *slog.Logger
	js      jetstream.JetStream
	store   *store
	states  [streams.Partitions]*State
	pub     *publisher
	cursors [streams.Partitions]cursor
	saved   [streams.Partitions]cursor  // as in Pebble
	decided [streams.Partitions]decided // decided inputs of ingest; unused by other stages
	mine    [streams.Partitions]bool
	erasing bool   // the next commit rewrites the files
	syncing bool   // the next commit is synced
	kept    uint64 // Stats.Entries when the state was last written to files
	// refolding is set if a partition must be refolded. erasures are the entries that each fold
	// skips.
	refolding bool
	erasures  [streams.Partitions]erasures
	// whole is the ledger sequence that had been read at the last successful guard. guarded is the
	// time of that guard.
	whole   uint64
	guarded time.Time
	marks   marks
	moved   time.Time // wall clock time of the last added entry
	due     following
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

// ended returns nil instead of the error of a stage whose context ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func (r *runtime) all() bool { return !slices.Contains(r.mine[:], false) }

// ledgerFilters returns the subjects of the stage's partitions. None means all.
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

// oldest returns the lowest folded sequence of the stage's partitions.
func (r *runtime) oldest() uint64 {
	low := ^uint64(0)
	for _, p := range r.cfg.Partitions {
		low = min(low, r.cursors[p].folded)
	}
	return low
}

// openLedger starts to read the ledger where the state ends. It returns the last sequence that the
// ledger had for the stage's partitions.
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
	if last, err = r.ending(ctx, from, last); err != nil {
		return nil, 0, err
	}
	// The state has everything up to here.
	r.stats.Folded.Store(from - 1)
	rd, err := openLedgerReader(ctx, r.cfg.Conn, r.cfg.Feed, r.ledgerFilters(), "", from, r.log)
	return rd, last, err
}

// lastOf returns the last ledger sequence of partitions.
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

// Tail returns a function that returns the last ledger sequence of a stage's partitions; none means
// all. The difference to Stats.Folded is how far the stage is behind.
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

// TrimmedError reports that a reader's cursor is before the first message that its stream still
// has. Folding on would skip the missing entries.
type TrimmedError struct {
	Stream      string
	From, First uint64
	Stage       string // the stage of the reader, if it is a stage
}

func (e *TrimmedError) Error() string {
	if e.Stage == "" {
		return fmt.Sprintf("%s begins at %d, but this reader has to go on from %d", e.Stream, e.First, e.From)
	}
	return fmt.Sprintf("%s was trimmed and is whole from %d on, but stage %s would have to go on from %d: it stays "+
		"silent until its state is restored from a snapshot (lazaret state restore %[3]s)", e.Stream, e.First, e.Stage,
		e.From)
}

func asTrimmed(err error) (*TrimmedError, bool) {
	var t *TrimmedError
	return t, errors.As(err, &t)
}

// RecreatedError reports that a stream ends before a sequence that was once read from it: the stream
// was recreated or restored from an old copy.
type RecreatedError struct {
	Stream     string
	Last, Seen uint64
}

func (e *RecreatedError) Error() string {
	return fmt.Sprintf("%s ends at %d, but %d was read from it before: the stream was recreated or restored from an old "+
		"copy: restore the copy that holds %d, and tell your auditor", e.Stream, e.Last, e.Seen, e.Seen)
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
	// An empty stream that had messages begins after its last message.
	if s.FirstSeq > from && stream == streams.LedgerStream {
		return 0, &TrimmedError{Stream: stream, From: from, First: s.FirstSeq}
	}
	return s.LastSeq, nil
}

// entries returns the entries of a message, and whether they are for this stage. Messages that no
// stage of Lazaret wrote are reported and skipped, so that they cannot stop a partition.
func (r *runtime) entries(a *arrival) ([]streams.Entry, bool) {
	if a.err != nil {
		r.ignore(a.err)
		if e := a.first(); e.Stage == r.cfg.Name && r.mine[e.Partition] {
			// The message moved the fence nevertheless.
			c := &r.cursors[e.Partition]
			c.own = max(c.own, e.Seq)
		}
		return a.entries, false
	}
	return a.entries, r.mine[a.first().Partition]
}

// owing records since when the oldest input waits for its entry, or the time of the last added
// entry if that is later. Zero means that none waits.
func (r *runtime) owing(oldest time.Time) {
	if !oldest.IsZero() && r.moved.After(oldest) {
		oldest = r.moved
	}
	r.stats.owed(oldest)
}

// added reports an entry that this process added to the ledger.
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

// commit commits state and cursors together.
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
		if err := r.store.erased(); err != nil {
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

// keep writes the state to files once every keepEvery entries. This limits how many entries are only
// in the memtable, which a kill loses. A state that hardly grows would otherwise never fill a
// memtable, and a kill would lose the whole fold.
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

// commitSealed is like commit, for the sealed changes only.
func (r *runtime) commitSealed() error {
	for _, p := range r.cfg.Partitions {
		if r.cursors[p] != r.saved[p] {
			r.store.sealed.put(string(cursorKey(p)), change{v: r.cursors[p].bytes()})
		}
		if d := &r.decided[p]; d.dirty {
			r.store.sealed.put(string(decidedKey(p)), change{v: d.bytes()})
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
