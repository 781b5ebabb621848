package auditor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/metrics"
	"lazaret/internal/stage"
	"lazaret/pkg/chain"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Defaults of Config.
const (
	// CheckpointEvery is the longest time between two checkpoints while entries arrive.
	CheckpointEvery = time.Second
	// batchSize is the largest number of ledger messages that are chained with one sync.
	batchSize = 4096
	// identityEvery is the longest time between two checks that the ledger is still the stream that the auditor has
	// followed so far.
	identityEvery = time.Second
)

// Config configures an auditor.
type Config struct {
	Conn      *nats.Conn
	Feed      *stage.Feed // as in stage.Config
	Dir       string      // folder of the log
	Signer    note.Signer // signs checkpoints
	MasterKey []byte      // 32 bytes; encrypts the keys of the payloads
	Origin    string      // first line of checkpoints
	// Operators are the pinned keys of operators. An order to forget counts if it is signed by one
	// of them or by a key that they put in force (see package statement). If Operators is nil,
	// nothing is forgotten.
	Operators note.Verifiers
	// Pinned are the auditors' keys that the trust file pins. An auditor whose key is not among
	// them does not start. If Pinned is nil, any key may sign.
	Pinned note.Verifiers
	// WitnessPolicy is a witness policy file (C2SP tlog-policy). The auditor asks its witnesses to
	// cosign. If it is empty or the file does not exist, no witness is asked. The file may change
	// while the auditor runs.
	WitnessPolicy string
	// From, if set, is another auditor's tiles. A new log starts with them if the ledger no longer
	// has its first entries. Trusted holds the keys that may have signed their checkpoint.
	From    chain.Source
	Trusted note.Verifiers
	Log     *slog.Logger
	Ready   func()           // if set, called once, when the log has all entries that the ledger had at the start
	Stats   *stage.Stats     // may be nil
	Metrics *metrics.Auditor // may be nil
}

// Auditor is a running auditor.
type Auditor struct {
	cfg Config
	log *chain.Log

	// The follower's goroutine owns these fields.
	signedAt   time.Time
	signedSize int64
	gaps       int64
	forgotten  map[string]forgetting // last forgetting of each project
	expired    string                // id of the last executed order to expire
	from       uint64                // where to start if the ledger begins after the next expected sequence
	checkedAt  time.Time             // time of the last check of the ledger's identity
	filled     uint64                // the ledger's entries up to this sequence are compared with imported leaves
	synced     func() error          // waits until the last chained entries are on disk; nil if they are
	payloads   []byte                // payloads of the entries that are being chained; reused

	witnesses *cosigner

	// mu makes snapshots run one at a time.
	mu sync.Mutex
}

// Open opens the log. If there is no log and Config.From is set, it imports From first.
func Open(ctx context.Context, cfg Config) (*Auditor, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := checkPinned(&cfg); err != nil {
		return nil, err
	}
	opts := chain.Options{Signer: cfg.Signer, Origin: cfg.Origin, MasterKey: cfg.MasterKey}
	if cfg.From != nil {
		err := chain.Import(ctx, cfg.Dir, opts, cfg.From, cfg.Trusted, nil, nil)
		if err != nil && !errors.Is(err, chain.ErrNotEmpty) {
			return nil, fmt.Errorf("taking over another auditor's tiles: %w", err)
		}
		if err == nil {
			cfg.Log.Info("another auditor's tiles were taken over and checked")
		}
	}
	l, err := chain.Open(cfg.Dir, opts)
	if err != nil {
		return nil, err
	}
	if err := checkSigner(l, cfg.Signer); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if cfg.Stats == nil {
		cfg.Stats = new(stage.Stats)
	}
	h := l.Head()
	cfg.Metrics.Head(h.Size, h.Gaps)
	cfg.Stats.Leaves.Store(h.Size)
	cfg.Stats.Gaps.Store(h.Gaps)
	a := &Auditor{cfg: cfg, log: l, gaps: h.Gaps}
	if err := a.loadForgotten(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if cfg.WitnessPolicy != "" {
		a.witnesses = newCosigner(cfg.WitnessPolicy, l, cfg.Log, func(since int64) {
			cfg.Stats.UncosignedSince.Store(since)
			cfg.Metrics.Uncosigned(since)
		})
	}
	return a, nil
}

// checkPinned returns an error if the signer's key is not in Config.Pinned.
func checkPinned(cfg *Config) error {
	if cfg.Pinned == nil || cfg.Signer == nil {
		return nil
	}
	if _, err := cfg.Pinned.Verifier(cfg.Signer.Name(), cfg.Signer.KeyHash()); err != nil {
		return fmt.Errorf("the key %s+%08x that signs checkpoints is not pinned with the role auditor: verifications "+
			"would reject its checkpoints, and trims and erasures would not wait for it: pin its public half in the trust file",
			cfg.Signer.Name(),
			cfg.Signer.KeyHash())
	}
	return nil
}

// checkSigner returns an error if the log was handed over to a different key. Verifiers would
// reject checkpoints that this signer signs.
func checkSigner(l *chain.Log, signer note.Signer) error {
	vkey, err := l.Successor()
	if err != nil || vkey == "" || signer == nil {
		return err
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return fmt.Errorf("reading the key to which the log was handed over: %w", err)
	}
	if v.Name() != signer.Name() || v.KeyHash() != signer.KeyHash() {
		return fmt.Errorf("the log was handed over to key %s+%08x, but the key given to this auditor is %s+%08x: a rotation "+
			"was interrupted, run lazaret audit rotate again", v.Name(), v.KeyHash(), signer.Name(), signer.KeyHash())
	}
	return nil
}

// errAnew means that the ledger was created again while the auditor followed it.
var errAnew = errors.New("the ledger was created anew")

// Follow follows the ledger until ctx ends and then signs a last checkpoint. It returns nil if ctx
// ended.
func (a *Auditor) Follow(ctx context.Context) error {
	if a.witnesses != nil {
		stop := a.witnesses.start()
		defer stop()
	}
	js, err := jetstream.New(a.cfg.Conn)
	if err != nil {
		return err
	}
	if err := a.publishHandovers(); err != nil {
		return err
	}
	ready := a.cfg.Ready
	for {
		if err = a.settle(); err == nil {
			err = stage.Patiently(ctx, a.cfg.Log, "where the auditor starts", func() error { return a.identify(ctx, js) })
		}
		if err == nil {
			err = stage.Follow(ctx, a.cfg.Conn, a.cfg.Feed, &follower{a, js}, batchSize, a.cfg.Log, a.cfg.Stats, ready)
		}
		var trimmed *stage.TrimmedError
		if errors.As(err, &trimmed) {
			err = fmt.Errorf("%w: copy the log of another auditor: start with --from URL of its lazaret audit serve", err)
		}
		if !errors.Is(err, errAnew) {
			break
		}
		ready = nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	return errors.Join(err, a.settle(), a.checkpoint())
}

// publishHandovers publishes the handovers of this log. A handover is a checkpoint that names the next key. A process
// that waits for all auditors reads the handovers, so that it does not wait for a replaced key.
func (a *Auditor) publishHandovers() error {
	hs, err := a.log.Handovers()
	for _, h := range hs {
		a.publish("checkpoint", h)
	}
	return err
}

// identify compares the ledger with the log. It checks whether the ledger was created again, whether the last leaf
// whose entry the ledger still has matches that entry, and whether entries were purged.
func (a *Auditor) identify(ctx context.Context, js jetstream.JetStream) error {
	st, err := stage.Stream(ctx, js, streams.LedgerStream)
	if err != nil {
		return err
	}
	info := st.CachedInfo()
	before := a.log.Head()
	anew, err := a.log.NewEpoch(info.Created)
	if err != nil {
		return fmt.Errorf("writing the ledger's time of creation to the log: %w", err)
	}
	if anew {
		a.cfg.Log.Error("the ledger was created anew", "at", info.Created, "chained before", before.LastSeq)
		a.publish("incident", fmt.Appendf(nil, `{"kind":"ledger-reset","created":%q,"last_seq":%d,"leaf":%d}`,
			info.Created.Format(time.RFC3339Nano), before.LastSeq, before.Size))
	}
	a.checkedAt, a.from, a.filled = time.Now(), 0, 0
	h := a.log.Head()
	trimmed, err := stage.Hole(ctx, js, 1)
	if err != nil {
		return err
	}
	purged := h.Size > 0 && info.State.FirstSeq > h.LastSeq+1 // all chained entries are gone, and later ones too
	if !purged {
		if err := a.compareLast(ctx, js, info.State.LastSeq, trimmed); err != nil {
			return err
		}
	}
	if h.Size == 0 && trimmed > 0 {
		// An empty log must begin with the first entry. But up to the sequence `trimmed`, the ledger has at most the
		// last entry of each subject.
		return &stage.TrimmedError{Stream: streams.LedgerStream, From: 1, First: trimmed + 1}
	}
	if purged { // recorded as a gap, and reported as an incident
		a.from = info.State.FirstSeq
	} else if h.Imported > 0 && info.State.FirstSeq <= h.LastSeq {
		// Imported entries are compared with those that the ledger still has.
		a.from = max(info.State.FirstSeq, 1)
		a.filled = h.LastSeq
	}
	return nil
}

// MismatchError means that the log and the ledger differ. The auditor then stops and chains
// nothing.
type MismatchError struct {
	Leaf   int64
	Seq    uint64 // ledger sequence
	Reason string
}

// Unwrap returns chain.ErrDiffers.
func (e *MismatchError) Unwrap() error { return chain.ErrDiffers }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("leaf %d of the log is not ledger entry %s: %s: nothing is chained on top of it; keep the log's "+
		"folder as evidence, "+
		"compare it with another auditor's (lazaret audit compare), and move it aside to begin a new log from the ledger",
		e.Leaf, position.Text(e.Seq), e.Reason)
}

// lookForLast is the largest number of leaves that compareLast reads.
const lookForLast = 1000

// compareLast compares the last leaf whose entry the ledger still has with that entry. It skips leaves whose entries
// were trimmed or forgotten.
func (a *Auditor) compareLast(ctx context.Context, js jetstream.JetStream, end, trimmed uint64) error {
	size := a.log.Head().Size
	for i := size - 1; i >= max(size-lookForLast, 0); i-- {
		leaf, err := a.log.Leaf(i)
		if err != nil {
			return err
		}
		if leaf.Kind == chain.KindReset {
			return nil
		}
		if leaf.Kind != chain.KindEntry {
			continue
		}
		reason := ""
		e, err := stage.EntryAt(ctx, js, leaf.Seq)
		switch {
		case err == nil:
			if reason = differs(&leaf, &e); reason == "" {
				return nil
			}
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return fmt.Errorf("comparing the log's end with the ledger: %w", err)
		case position.Sequence(leaf.Seq) > end:
			reason = fmt.Sprintf("the ledger ends at %d", end)
		case position.Sequence(leaf.Seq) <= trimmed:
			return nil // earlier entries are trimmed too
		default:
			if _, err := a.log.Payload(i); errors.Is(err, chain.ErrForgotten) {
				continue
			}
			reason = "the ledger lacks this entry, although it was neither trimmed nor forgotten"
		}
		m := &MismatchError{i, leaf.Seq, reason}
		a.cfg.Log.Error("the log and the ledger differ", "leaf", i, "entry", leaf.Seq, "why", reason)
		a.publish("incident", fmt.Appendf(nil, `{"kind":"ledger-mismatch","leaf":%d,"entry":%d,"reason":%q}`, i, leaf.Seq,
			reason))
		return m
	}
	return nil
}

// differs says how a leaf differs from its ledger entry, or returns "" if they agree.
func differs(leaf *chain.Leaf, e *streams.Entry) string {
	switch {
	case leaf.Type != string(e.Type) || leaf.Project != e.Project:
		return fmt.Sprintf("the leaf is a %s of project %s, but the ledger entry is a %s of project "+
			"%s", leaf.Type, leaf.Project, e.Type, e.Project)
	case !leaf.Time.Equal(e.Time):
		return fmt.Sprintf("the leaf has the time %s, but the ledger entry has %s", leaf.Time.Format(time.RFC3339Nano),
			e.Time.Format(time.RFC3339Nano))
	case chain.Commit(e.Salt, Payload(e)) != leaf.Commitment:
		return "the leaf's commitment is to another body than that of the ledger entry"
	}
	return ""
}

// Close closes the log.
func (a *Auditor) Close() error { return a.log.Close() }

// Next returns the ledger sequence at which the auditor starts or continues.
func (a *Auditor) Next() uint64 {
	if a.from > 0 {
		return a.from
	}
	return a.log.Head().LastSeq + 1
}

// follower implements stage.Follower for an auditor.
type follower struct {
	*Auditor
	js jetstream.JetStream
}

// Take implements stage.Follower.
func (f *follower) Take(entries []streams.Entry, more bool) error {
	if time.Since(f.checkedAt) >= identityEvery {
		if err := f.same(); err != nil {
			return err
		}
	}
	return f.take(entries, more)
}

// same returns errAnew if the ledger is no longer the one being followed.
func (f *follower) same() error {
	f.checkedAt = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), identityEvery)
	defer cancel()
	st, err := f.js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		// The ledger may come back. The reader also waits for it.
		f.cfg.Log.Debug("looking up the ledger", "err", err)
		return nil
	}
	if !st.CachedInfo().Created.Equal(f.log.Head().Epoch) {
		return errAnew
	}
	return nil
}

func (a *Auditor) take(entries []streams.Entry, more bool) error {
	size := 0
	for i := range entries {
		size += payloadSize(&entries[i])
	}
	if a.payloads = a.payloads[:0]; cap(a.payloads) > mostPayloads {
		a.payloads = nil
	}
	a.payloads = slices.Grow(a.payloads, size)
	if len(entries) == 0 { // idle
		return errors.Join(a.settle(), a.checkpoint())
	}
	if entries[0].Seq <= a.filled {
		es := make([]chain.Entry, len(entries))
		for i := range entries {
			es[i] = a.entry(&entries[i])
		}
		if err := a.log.Fill(es); err != nil {
			return fmt.Errorf("comparing ledger entries from %d with the imported leaves: %w", es[0].Seq, err)
		}
	}
	a.from = 0
	// The next batch is chained while the previous one is written to disk.
	before := a.synced
	a.synced = nil
	err := a.append(entries)
	if before != nil {
		err = errors.Join(before(), err)
	}
	if err == nil && !more {
		err = a.settle()
	}
	if err != nil {
		return fmt.Errorf("chaining ledger entries %d to %d: %w", entries[0].Seq, entries[len(entries)-1].Seq, err)
	}
	a.noteHead()
	if time.Since(a.signedAt) < CheckpointEvery {
		return nil
	}
	return a.checkpoint()
}

// settle waits until all chained entries are on disk. Entries that are not on disk are not in the log's head and not
// signed. After a restart, the auditor reads the ledger again from the first of them.
func (a *Auditor) settle() error {
	if a.synced == nil {
		return nil
	}
	err := a.synced()
	a.synced = nil
	if err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	a.noteHead()
	return nil
}

// noteHead reports the log's size to the metrics, and reports new gaps as an incident.
func (a *Auditor) noteHead() {
	h := a.log.Head()
	a.cfg.Metrics.Head(h.Size, h.Gaps)
	a.cfg.Stats.Leaves.Store(h.Size)
	a.cfg.Stats.Gaps.Store(h.Gaps)
	if h.Gaps > a.gaps {
		a.cfg.Log.Error("the ledger skipped sequences", "gaps", h.Gaps-a.gaps, "up to", h.LastSeq)
		a.gaps = h.Gaps
		a.publish("incident", []byte(fmt.Sprintf(`{"kind":"ledger-gap","last_seq":%d,"gaps":%d}`, h.LastSeq, h.Gaps)))
	}
}

// mostPayloads is the largest buffer, in bytes, that is kept for the payloads of the next batch.
const mostPayloads = 4 << 20

// Payload returns the bytes that a leaf commits to: the stage that wrote the entry, Src, At, and
// the body.
//
//	<stage> SP <src> SP <at> LF <body>
func Payload(e *streams.Entry) []byte {
	return appendPayload(make([]byte, 0, payloadSize(e)), e)
}

// payloadSize returns a size in bytes that no payload of the entry exceeds.
func payloadSize(e *streams.Entry) int { return len(e.Body) + len(e.Stage) + 44 }

func appendPayload(b []byte, e *streams.Entry) []byte {
	b = append(append(b, e.Stage...), ' ')
	b = append(strconv.AppendUint(b, e.Src, 10), ' ')
	b = append(strconv.AppendUint(b, e.At, 10), '\n')
	return append(b, e.Body...)
}

// checkpoint signs the head if it has changed.
func (a *Auditor) checkpoint() error {
	h := a.log.Head()
	if h.Size == a.signedSize {
		return nil
	}
	cp, err := a.log.Checkpoint()
	if err != nil {
		return fmt.Errorf("signing a checkpoint of size %d: %w", h.Size, err)
	}
	a.signedAt, a.signedSize = time.Now(), h.Size
	a.cfg.Metrics.Signed(h.Size)
	a.cfg.Stats.Signed.Store(h.Size)
	a.cfg.Stats.SignedAt.Store(a.signedAt.UnixNano())
	a.publish("checkpoint", cp)
	if a.witnesses != nil {
		a.witnesses.submit()
	}
	return nil
}

func (a *Auditor) publish(what string, body []byte) {
	subject, err := streams.LiveSubject(streams.SystemProject, what)
	if err == nil {
		err = a.cfg.Conn.Publish(subject, body)
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		a.cfg.Log.Warn("live copy not published", "what", what, "err", err)
	}
}

// Snapshot copies the log into a folder and returns the folder. Another process can open and verify
// the copy while this one continues. Files are hard links.
func (a *Auditor) Snapshot(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.witnesses != nil {
		// Give witnesses a chance to cosign the checkpoint that is copied.
		if _, err := a.log.Checkpoint(); err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeout(ctx, witnessRetry)
		a.witnesses.wait(ctx)
		cancel()
	}
	// A client that was killed, or that asked several auditors, does not remove its snapshot. The files of a snapshot
	// are hard links. So an old snapshot keeps the disk space of all files that the log has removed since.
	if err := a.dropOlder(24 * time.Hour); err != nil {
		a.cfg.Log.Warn("old snapshots of the log were not removed, and take space", "err", err)
	}
	dir := filepath.Join(a.cfg.Dir, "..", "snapshots", fmt.Sprintf("%s-%d", filepath.Base(a.cfg.Dir),
		time.Now().UnixNano()))
	if err := a.log.Snapshot(dir); err != nil {
		return "", fmt.Errorf("snapshot of the log: %w", err)
	}
	return dir, nil
}

// Head returns the log's head.
func (a *Auditor) Head() chain.Head { return a.log.Head() }

// Source returns a reader of the log's checkpoints and tiles.
func (a *Auditor) Source() chain.Source { return a.log.Source() }
