// Package auditor follows the ledger and keeps it in a tamper-evident log
// (pkg/chain): one leaf an entry, with a commitment to its body, a hash chain
// and a Merkle tree over all leaves, and signed checkpoints.
//
// It adds nothing to the ledger and decides nothing, so that two auditors of
// one ledger keep byte-identical trees. A sequence that the ledger skipped
// becomes a leaf and an incident on the live feed.
package auditor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/metrics"
	"lazaret/internal/stage"
	"lazaret/pkg/chain"
	"lazaret/streams"
)

// Defaults of Config.
const (
	// CheckpointEvery is the longest time, while entries come in, between two
	// checkpoints.
	CheckpointEvery = time.Second
	batchSize       = 1024
)

// Config is what an auditor needs.
type Config struct {
	Conn      *nats.Conn
	Dir       string
	Signer    note.Signer // signs checkpoints
	MasterKey []byte      // 32 bytes; wraps the keys that payloads are encrypted with
	Origin    string      // first line of checkpoints
	Log       *slog.Logger
	Ready     func()
	Stats     *stage.Stats     // may be nil
	Metrics   *metrics.Auditor // may be nil
}

// Auditor is a running auditor.
type Auditor struct {
	cfg Config
	log *chain.Log

	// Owned by the follower's goroutine.
	signedAt   time.Time
	signedSize int64
	gaps       int64
	forgotten  map[string]uint64 // project → ledger sequence of its last forgotten entry

	// Snapshots take turns.
	mu sync.Mutex
}

// Open opens the log.
func Open(cfg Config) (*Auditor, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l, err := chain.Open(cfg.Dir, chain.Options{Signer: cfg.Signer, Origin: cfg.Origin, MasterKey: cfg.MasterKey})
	if err != nil {
		return nil, err
	}
	h := l.Head()
	cfg.Metrics.Head(h.Size, h.Gaps)
	a := &Auditor{cfg: cfg, log: l, gaps: h.Gaps}
	if err := a.loadForgotten(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return a, nil
}

// Follow follows the ledger until ctx ends, then signs a last checkpoint. It
// returns nil when ctx ended.
func (a *Auditor) Follow(ctx context.Context) error {
	err := stage.Follow(ctx, a.cfg.Conn, a, batchSize, a.cfg.Log, a.cfg.Stats, a.cfg.Ready)
	return errors.Join(err, a.checkpoint())
}

// Close closes the log.
func (a *Auditor) Close() error { return a.log.Close() }

// Next implements stage.Follower.
func (a *Auditor) Next() uint64 { return a.log.Head().LastSeq + 1 }

// Take implements stage.Follower.
func (a *Auditor) Take(entries []streams.Entry) error {
	if len(entries) == 0 {
		return a.checkpoint() // idle
	}
	if err := a.append(entries); err != nil {
		return fmt.Errorf("chaining ledger entries %d to %d: %w", entries[0].Seq, entries[len(entries)-1].Seq, err)
	}
	h := a.log.Head()
	a.cfg.Metrics.Head(h.Size, h.Gaps)
	if h.Gaps > a.gaps {
		a.cfg.Log.Error("the ledger skipped sequences", "gaps", h.Gaps-a.gaps, "up to", h.LastSeq)
		a.gaps = h.Gaps
		a.publish("incident", []byte(fmt.Sprintf(`{"kind":"ledger-gap","last_seq":%d,"gaps":%d}`, h.LastSeq, h.Gaps)))
	}
	if time.Since(a.signedAt) < CheckpointEvery {
		return nil
	}
	return a.checkpoint()
}

// Payload is what a leaf commits to: who wrote the entry because of which
// input, knowing what, and the entry's body.
//
//	<stage> SP <src> SP <at> LF <body>
func Payload(e *streams.Entry) []byte {
	b := make([]byte, 0, len(e.Body)+len(e.Stage)+44)
	b = append(append(b, e.Stage...), ' ')
	b = append(strconv.AppendUint(b, e.Src, 10), ' ')
	b = append(strconv.AppendUint(b, e.At, 10), '\n')
	return append(b, e.Body...)
}

// checkpoint signs the head, if it moved.
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
	a.publish("checkpoint", cp)
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

// Snapshot makes a copy of the log that another process can open and verify
// while this one goes on, and returns its folder. It takes no time and no
// room worth naming: files are linked, not copied.
func (a *Auditor) Snapshot() (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	dir := filepath.Join(a.cfg.Dir, "..", "snapshots", fmt.Sprintf("%s-%d", filepath.Base(a.cfg.Dir), time.Now().UnixNano()))
	if err := a.log.Snapshot(dir); err != nil {
		return "", fmt.Errorf("snapshot of the log: %w", err)
	}
	return dir, nil
}
