package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"lazaret/pkg/position"
)

// appender is an append that is not finished: a batch of leaves, and the state that the log will have after it.
type appender struct {
	l    *Log
	b    *pebble.Batch
	edge edge
	prev tlog.Hash
	head Head
	n    uint64 // number of the append

	// bundle is the bundle of leaves that is being filled.
	bundle []byte
	first  int64 // index of its first leaf
}

// batchReused is a size in bytes. The buffer of a batch that is not larger is used again for later batches. Under load,
// an auditor's batches have one to two MiB.
const batchReused = 4 << 20

// begin starts an append. The caller must hold l.appending.
func (l *Log) begin(sizeHint int) *appender {
	// Pebble uses the buffer of a closed batch again if the buffer is not larger than batchReused.
	reused := pebble.WithMaxRetainedSizeBytes(batchReused)
	return &appender{l: l, b: l.db.NewBatchWithSize(sizeHint, reused), edge: l.edge, prev: l.prev, head: l.tip,
		bundle: l.buf[:0], first: l.edge.size}
}

// leaf adds a leaf to the batch, and the hashes of the subtrees that this leaf completes.
func (a *appender) leaf(leaf *Leaf) error {
	leaf.Index, leaf.Prev = a.edge.size, a.prev
	at := len(a.bundle)
	var err error
	if a.bundle, err = AppendLeaf(append(a.bundle, 0, 0), leaf); err != nil {
		return err
	}
	return a.added(at)
}

// added updates the state for a leaf that was just encoded. at is the offset at which the leaf's entry begins in the
// bundle.
func (a *appender) added(at int) error {
	raw := a.bundle[at+2:]
	binary.BigEndian.PutUint16(a.bundle[at:], uint16(len(raw)))
	a.prev = tlog.RecordHash(raw)
	hashes := a.edge.add(a.prev, a.l.hashes[:0])
	a.l.hashes = hashes
	for level := TileHeight; level < len(hashes); level += TileHeight {
		n := a.edge.size>>level - 1
		if err := a.b.Set(hashKey(level/TileHeight, n), hashes[level][:], nil); err != nil {
			return err
		}
	}
	if a.edge.size%TileWidth == 0 {
		return a.flush()
	}
	return nil
}

// flush adds the bundle to the batch.
func (a *appender) flush() error {
	if len(a.bundle) > 0 {
		k := indexKey(spaceLeaves, a.first)
		if err := a.b.Set(k[:], a.bundle, nil); err != nil {
			return err
		}
	}
	a.l.buf = a.bundle[:0] // the buffer is reused
	a.bundle, a.first = a.l.buf, a.edge.size
	return nil
}

// commit writes the batch durably. On an error, nothing of the batch is written.
func (a *appender) commit() error {
	wait, err := a.apply()
	if err != nil {
		return err
	}
	return wait()
}

// apply writes the batch. On an error, nothing of it is written. wait returns once the batch is on disk. Batches reach
// the disk in the order in which they were applied.
func (a *appender) apply() (wait func() error, err error) {
	l := a.l
	if err := l.broken(); err != nil {
		return nil, err
	}
	if err := a.flush(); err != nil {
		return nil, err
	}
	a.head.Size, a.head.Root = a.edge.size, a.edge.root()
	if err := a.b.Set([]byte{spaceMeta}, encodeMeta(&a.head), nil); err != nil {
		return nil, err
	}
	if err := l.db.ApplyNoSyncWait(a.b, pebble.Sync); err != nil {
		// Drop the cached keys, because a key that was made for this batch may not be on disk.
		clear(l.vault.keys)
		return nil, fmt.Errorf("appending to the log: %w", err)
	}
	l.applied++
	l.edge, l.prev, l.tip, a.n = a.edge, a.prev, a.head, l.applied
	return a.wait, nil
}

// wait waits until the batch is on disk.
func (a *appender) wait() error {
	l := a.l
	err := errors.Join(a.b.SyncWait(), a.close())
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("appending to the log: %w", err)
		l.failed = errors.Join(l.failed, err)
		return err
	}
	if a.n > l.synced {
		a.head.Checkpoint = l.head.Checkpoint
		l.head, l.synced = a.head, a.n
	}
	return nil
}

// close releases the batch.
func (a *appender) close() error {
	if a.b == nil {
		return nil
	}
	err := a.b.Close()
	a.b = nil
	return err
}

// broken returns an error if nothing may be appended any more, because an earlier write failed.
func (l *Log) broken() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.failed != nil {
		return fmt.Errorf("an earlier append may not be on disk, so the log must be opened again: %w", l.failed)
	}
	return nil
}

// Append adds entries durably: when it returns without an error, all of them are synced to disk. On an error none is
// added. It skips entries up to the log's last sequence, so that a follower may send entries again. The sequences of
// entries must rise. Missing sequences become a gap leaf.
//
// Each call costs one sync, so large batches are cheaper. Entries are hashed and encrypted on all processors.
func (l *Log) Append(entries []Entry) error {
	wait, err := l.AppendNoWait(entries)
	if err != nil {
		return err
	}
	return wait()
}

// AppendNoWait is like Append, but does not wait for the disk. The entries are durable, and part of [Log.Head], when
// wait has returned without an error. The caller must call wait, but may append further batches before. Batches reach
// the disk in the order in which they were appended. If wait returns an error, the log must be closed and opened again.
func (l *Log) AppendNoWait(entries []Entry) (wait func() error, err error) {
	l.appending.Lock()
	defer l.appending.Unlock()
	last := l.tip.LastSeq
	skip := 0
	for i := range entries {
		e := &entries[i]
		if i > 0 && !e.follows(&entries[i-1]) {
			return nil, fmt.Errorf("%w: %d follows %d", ErrOrder, e.Seq, entries[i-1].Seq)
		}
		if len(e.Subject) > MaxName {
			return nil, fmt.Errorf("entry %d: the data subject has %d bytes, at most %d are possible", e.Seq, len(e.Subject),
				MaxName)
		}
		if position.Sequence(e.Seq) <= last {
			skip++
		}
	}
	if entries = entries[skip:]; len(entries) == 0 {
		return func() error { return l.await(last) }, nil
	}
	if e := &entries[0]; position.Index(e.Seq) > 0 {
		return nil, fmt.Errorf("%w: %d is not the first entry of its message", ErrOrder, e.Seq)
	}
	size := 0
	for i := range entries {
		size += len(entries[i].Payload) + len(entries[i].Project) + len(entries[i].Type) + 256
	}
	a := l.begin(size)
	fail := func(err error) (func() error, error) {
		clear(l.vault.keys) // the cached keys may include one that was made for this batch, which was not written
		return nil, errors.Join(err, a.close())
	}
	sealed, err := l.seal(a, entries)
	if err != nil {
		return fail(err)
	}
	for i := range entries {
		e := &entries[i]
		if missing := e.Seq - a.head.LastSeq - 1; position.Index(e.Seq) == 0 && missing > 0 {
			if err := a.leaf(&Leaf{Kind: KindGap, Seq: a.head.LastSeq + 1, Length: missing, Time: e.Time}); err != nil {
				return fail(err)
			}
			a.head.Gaps++
		}
		k := indexKey(spacePayload, a.edge.size)
		err := a.leaf(&Leaf{Kind: KindEntry, Seq: e.Seq, Time: e.Time, Type: e.Type, Project: e.Project,
			Length: uint64(len(e.Payload)), Commitment: sealed[i].commitment})
		if err == nil {
			err = a.b.Set(k[:], sealed[i].record, nil)
		}
		if err != nil {
			return fail(err)
		}
		a.head.LastSeq, a.head.LastTime = position.Sequence(e.Seq), e.Time
		a.head.Entries++
	}
	if wait, err = a.apply(); err != nil {
		return fail(err)
	}
	return wait, nil
}

// follows reports whether e may come directly after the given entry: as an entry of a later message, or as the next
// entry of the same message.
func (e *Entry) follows(before *Entry) bool {
	if position.Index(e.Seq) > 0 {
		return e.Seq == position.Next(before.Seq)
	}
	return e.Seq > position.Sequence(before.Seq)
}

// await waits until everything up to a sequence is on disk.
func (l *Log) await(seq uint64) error {
	if l.Head().LastSeq >= seq {
		return nil
	}
	return l.db.LogData([]byte{0}, pebble.Sync)
}

// settle waits until everything that was appended is on disk and part of the head. The caller must
// hold l.appending.
func (l *Log) settle() error {
	l.mu.Lock()
	done := l.synced == l.applied
	l.mu.Unlock()
	if done {
		return nil
	}
	err := l.db.LogData([]byte{0}, pebble.Sync)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed = errors.Join(l.failed, err); l.failed != nil {
		return fmt.Errorf("appending to the log: %w", l.failed)
	}
	if l.synced < l.applied {
		h := l.tip
		h.Checkpoint = l.head.Checkpoint
		l.head, l.synced = h, l.applied
	}
	return nil
}

// sealed is an entry's encrypted payload and the commitment of its leaf.
type sealed struct {
	commitment [32]byte
	record     []byte
}

// sealAlone is a number of entries. Up to it, one processor encrypts and hashes them faster than several.
const sealAlone = 32

// seal encrypts and hashes the payloads of entries that will be appended to a.
func (l *Log) seal(a *appender, entries []Entry) ([]sealed, error) {
	l.vault.limit()
	out := make([]sealed, len(entries))
	keys := make([]subjectKey, len(entries))
	index := make([]int64, len(entries))
	at, last := a.edge.size, a.head.LastSeq
	for i := range entries {
		e := &entries[i]
		if position.Index(e.Seq) == 0 && e.Seq != last+1 {
			at++ // the leaf of the gap
		}
		index[i], last = at, position.Sequence(e.Seq)
		at++
		var err error
		if keys[i], err = l.vault.key(a.b, l.db, subjectOf(e)); err != nil {
			return nil, err
		}
	}
	workers := runtime.GOMAXPROCS(0)
	if len(entries) <= sealAlone {
		workers = 1
	}
	for len(l.boxes) < workers {
		l.boxes = append(l.boxes, nil)
	}
	var g errgroup.Group
	share := (len(entries) + workers - 1) / workers
	for w := range workers {
		lo, hi := min(w*share, len(entries)), min((w+1)*share, len(entries))
		work := func() error {
			size := 0
			for i := lo; i < hi; i++ {
				size += recordSize(subjectOf(&entries[i]), len(entries[i].Payload))
			}
			box := l.boxes[w][:0]
			if cap(box) < size {
				box = make([]byte, 0, size)
			}
			for i := lo; i < hi; i += 2 {
				two := min(hi-i, 2)
				var ds [2]draft
				for j := range two {
					e := &entries[i+j]
					box, ds[j] = l.vault.draft(box, keys[i+j], subjectOf(e), index[i+j], e.Salt, e.Payload)
				}
				if two == 2 {
					out[i].commitment, out[i+1].commitment = sum2(ds[0].salted(), ds[1].salted())
				} else {
					out[i].commitment = sha256.Sum256(ds[0].salted())
				}
				for j := range two {
					out[i+j].record = ds[j].seal(keys[i+j])
				}
			}
			l.boxes[w] = box
			return nil
		}
		if w == workers-1 {
			_ = work()
		} else {
			g.Go(work)
		}
	}
	return out, g.Wait()
}

func subjectOf(e *Entry) string {
	if e.Subject != "" {
		return e.Subject
	}
	return e.Project
}

// NewEpoch sets the time at which the followed ledger was created. The first call only records it. If a later call has
// a different time, the ledger was recreated. Then NewEpoch adds a leaf of kind KindReset, accepts sequences from 1
// again, and returns true.
func (l *Log) NewEpoch(created time.Time) (reset bool, err error) {
	if created.IsZero() {
		return false, errors.New("a ledger's time of creation cannot be zero")
	}
	l.appending.Lock()
	defer l.appending.Unlock()
	a := l.begin(256)
	defer a.close()
	if a.head.Epoch.Equal(created) {
		return false, nil
	}
	if reset = !a.head.Epoch.IsZero(); reset {
		if err := a.leaf(&Leaf{Kind: KindReset, Seq: a.head.LastSeq, Time: created}); err != nil {
			return false, err
		}
		a.head.LastSeq, a.head.LastTime = 0, created
		a.head.Resets++
	}
	a.head.Epoch = created
	return reset, a.commit()
}
