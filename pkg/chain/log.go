package chain

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// The first byte of a key says what its record holds.
const (
	spaceMeta       = 'M' // → size, entries, gaps, last sequence, last time
	spaceLeaf       = 'L' // index → leaf
	spaceHash       = 'H' // stored hash index → hash
	spacePayload    = 'P' // index → payload record
	spaceKey        = 'K' // subject → wrapped key
	spaceCheckpoint = 'C' // size → signed note
)

// HeadFile is the file beside the store that holds the last checkpoint. It
// shows a store that lost its tail.
const HeadFile = "head"

// Options is how a log is opened.
type Options struct {
	FS        vfs.FS      // nil: the operating system's
	Signer    note.Signer // signs checkpoints; may be nil for a log that signs none
	Origin    string      // first line of checkpoints; empty: the signer's name
	MasterKey []byte      // 32 bytes
	ReadOnly  bool
}

// ErrLocked says that another process has the log open.
var ErrLocked = errors.New("the log is open in another process")

// ErrOrder says that an entry's sequence is not above the last one.
var ErrOrder = errors.New("ledger sequences must rise")

// Entry is one entry of the ledger.
type Entry struct {
	Seq     uint64
	Time    time.Time
	Type    string
	Project string
	Subject string // data subject; empty: the project
	Salt    [16]byte
	Payload []byte
}

// Head is where a log stands.
type Head struct {
	Size       int64 // leaves
	Root       tlog.Hash
	LastSeq    uint64
	LastTime   time.Time
	Entries    int64
	Gaps       int64
	Checkpoint []byte // the last signed one, or nil
}

// Log is an open log.
type Log struct {
	db    *pebble.DB
	fs    vfs.FS
	dir   string
	opts  Options
	lock  *pebble.Lock
	vault *vault

	// Owned by the appender.
	edge   edge
	prev   tlog.Hash
	hashes []tlog.Hash
	buf    []byte
	plain  []byte

	mu   sync.RWMutex
	head Head // guarded by mu
}

// Open opens the log in dir, or makes one. Several processes cannot have one
// log open: the second gets ErrLocked.
func Open(dir string, o Options) (_ *Log, err error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Origin == "" && o.Signer != nil {
		o.Origin = o.Signer.Name()
	}
	l := &Log{fs: o.FS, dir: dir, opts: o}
	if l.vault, err = newVault(o.MasterKey); err != nil {
		return nil, err
	}
	if !o.ReadOnly {
		if err := o.FS.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("making the log's folder: %w", err)
		}
	}
	store := filepath.Join(dir, "store")
	if !o.ReadOnly {
		if err := o.FS.MkdirAll(store, 0o700); err != nil {
			return nil, fmt.Errorf("making the log's folder: %w", err)
		}
	}
	if l.lock, err = pebble.LockDirectory(store, o.FS); err != nil {
		return nil, fmt.Errorf("%w: %s (%v)", ErrLocked, dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.lock.Close())
		}
	}()
	cache := pebble.NewCache(8 << 20)
	defer cache.Unref()
	po := &pebble.Options{
		Cache: cache, FS: o.FS, Lock: l.lock, ReadOnly: o.ReadOnly, MemTableSize: 16 << 20, MemTableStopWritesThreshold: 4,
		MaxOpenFiles: 512, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}, ErrorIfNotExists: o.ReadOnly,
	}
	// Corruption comes back as an error from the read that met it; by default
	// Pebble ends the process.
	po.EventListener = &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}
	for i := range po.Levels {
		po.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	if l.db, err = pebble.Open(store, po); err != nil {
		return nil, fmt.Errorf("opening the log in %s: %w", dir, err)
	}
	if err = l.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the log in %s: %w", dir, err), l.db.Close())
	}
	return l, nil
}

// quiet keeps Pebble's chatter out of the caller's output; errors come back
// from the calls.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("pebble: "+format, args...))
}

func key8(space byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{space}, n)
}

// load reads the head.
func (l *Log) load() error {
	v, c, err := l.db.Get([]byte{spaceMeta})
	if errors.Is(err, pebble.ErrNotFound) {
		l.head.Root = l.edge.root()
		return nil
	}
	if err != nil {
		return err
	}
	err = decodeMeta(v, &l.head)
	if err := errors.Join(err, c.Close()); err != nil {
		return err
	}
	if l.head.Size > 0 {
		if l.edge, err = loadEdge(l.head.Size, l); err != nil {
			return err
		}
		leaf, err := l.rawLeaf(l.head.Size - 1)
		if err != nil {
			return err
		}
		l.prev = tlog.RecordHash(leaf)
	}
	l.head.Root = l.edge.root()
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceCheckpoint}, UpperBound: []byte{spaceCheckpoint + 1}})
	if err != nil {
		return err
	}
	if it.Last() {
		l.head.Checkpoint = append([]byte(nil), it.Value()...)
	}
	return it.Close()
}

func encodeMeta(h *Head) []byte {
	b := binary.BigEndian.AppendUint64([]byte{Version}, uint64(h.Size))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Entries))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Gaps))
	b = binary.BigEndian.AppendUint64(b, h.LastSeq)
	return binary.BigEndian.AppendUint64(b, uint64(h.LastTime.UnixNano()))
}

func decodeMeta(b []byte, h *Head) error {
	if len(b) != 41 || b[0] != Version {
		return fmt.Errorf("the log's head record is of another format (%d bytes)", len(b))
	}
	h.Size = int64(binary.BigEndian.Uint64(b[1:]))
	h.Entries = int64(binary.BigEndian.Uint64(b[9:]))
	h.Gaps = int64(binary.BigEndian.Uint64(b[17:]))
	h.LastSeq = binary.BigEndian.Uint64(b[25:])
	h.LastTime = time.Unix(0, int64(binary.BigEndian.Uint64(b[33:]))).UTC()
	return nil
}

// Append adds entries durably: they are synced to disk, all of them or none,
// when it returns without an error. Entries up to the last sequence are
// skipped, so that a follower may repeat itself; among the entries themselves
// sequences must rise. Sequences that are missing in between become a gap
// leaf.
func (l *Log) Append(entries []Entry) error {
	head := l.Head()
	edge, prev := l.edge, l.prev
	b := l.db.NewBatchWithSize(len(entries) * 1536)
	defer b.Close()
	last := uint64(0)
	for i := range entries {
		e := &entries[i]
		if i > 0 && e.Seq <= last {
			return fmt.Errorf("%w: %d follows %d", ErrOrder, e.Seq, last)
		}
		last = e.Seq
		if e.Seq <= head.LastSeq {
			continue
		}
		if missing := e.Seq - head.LastSeq - 1; missing > 0 {
			gap := Leaf{Kind: KindGap, Seq: head.LastSeq + 1, Length: missing, Time: e.Time}
			if err := l.add(b, &edge, &prev, &gap); err != nil {
				return err
			}
			head.Gaps++
		}
		leaf := Leaf{Kind: KindEntry, Seq: e.Seq, Time: e.Time, Type: e.Type, Project: e.Project,
			Length: uint64(len(e.Payload)), Commitment: Commit(e.Salt, e.Payload)}
		index := edge.size
		if err := l.add(b, &edge, &prev, &leaf); err != nil {
			return err
		}
		subject := e.Subject
		if subject == "" {
			subject = e.Project
		}
		if len(subject) > MaxName {
			return fmt.Errorf("entry %d: the data subject has %d bytes, at most %d are possible", e.Seq, len(subject), MaxName)
		}
		a, err := l.vault.key(b, l.db, subject)
		if err != nil {
			return err
		}
		l.buf, l.plain = l.vault.seal(l.buf[:0], a, subject, index, e.Salt, e.Payload, l.plain)
		if err := b.Set(key8(spacePayload, uint64(index)), l.buf, nil); err != nil {
			return err
		}
		head.LastSeq, head.LastTime = e.Seq, e.Time
		head.Entries++
	}
	if edge.size == l.edge.size {
		return nil
	}
	head.Size, head.Root = edge.size, edge.root()
	if err := b.Set([]byte{spaceMeta}, encodeMeta(&head), nil); err != nil {
		return err
	}
	if err := b.Commit(pebble.Sync); err != nil {
		// A key made for this batch may not be on disk.
		clear(l.vault.keys)
		return fmt.Errorf("appending to the log: %w", err)
	}
	l.edge, l.prev = edge, prev
	l.mu.Lock()
	head.Checkpoint = l.head.Checkpoint
	l.head = head
	l.mu.Unlock()
	return nil
}

// add writes a leaf and the hashes that it completes.
func (l *Log) add(b *pebble.Batch, e *edge, prev *tlog.Hash, leaf *Leaf) error {
	leaf.Index, leaf.Prev = e.size, *prev
	var err error
	if l.buf, err = AppendLeaf(l.buf[:0], leaf); err != nil {
		return err
	}
	if err := b.Set(key8(spaceLeaf, uint64(leaf.Index)), l.buf, nil); err != nil {
		return err
	}
	*prev = tlog.RecordHash(l.buf)
	at := tlog.StoredHashCount(e.size)
	l.hashes = e.add(*prev, l.hashes[:0])
	for i, h := range l.hashes {
		if err := b.Set(key8(spaceHash, uint64(at+int64(i))), h[:], nil); err != nil {
			return err
		}
	}
	return nil
}

// Head is where the log stands.
func (l *Log) Head() Head {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.head
}

// Checkpoint signs the head, keeps the checkpoint and returns it: a C2SP
// signed note over origin, size and root.
func (l *Log) Checkpoint() ([]byte, error) {
	if l.opts.Signer == nil {
		return nil, errors.New("this log has no signer")
	}
	h := l.Head()
	cp, err := note.Sign(&note.Note{Text: checkpointText(l.opts.Origin, h.Size, h.Root)}, l.opts.Signer)
	if err != nil {
		return nil, fmt.Errorf("signing a checkpoint of size %d: %w", h.Size, err)
	}
	if err := l.db.Set(key8(spaceCheckpoint, uint64(h.Size)), cp, pebble.Sync); err != nil {
		return nil, fmt.Errorf("keeping a checkpoint of size %d: %w", h.Size, err)
	}
	if err := writeFile(l.fs, l.dir, HeadFile, cp); err != nil {
		return nil, fmt.Errorf("keeping a checkpoint of size %d: %w", h.Size, err)
	}
	l.mu.Lock()
	l.head.Checkpoint = cp
	l.mu.Unlock()
	return cp, nil
}

func checkpointText(origin string, size int64, root tlog.Hash) string {
	return fmt.Sprintf("%s\n%d\n%s\n", origin, size, base64.StdEncoding.EncodeToString(root[:]))
}

// writeFile replaces a file, whole or not at all, durably.
func writeFile(fs vfs.FS, dir, name string, data []byte) error {
	tmp := filepath.Join(dir, name+".tmp")
	f, err := fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return err
	}
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func readFile(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

// Snapshot makes a copy of the log in dir, which must not exist, that can be
// opened while this one goes on. Files are linked, not copied.
func (l *Log) Snapshot(dir string) error {
	if err := l.fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if cp := l.Head().Checkpoint; cp != nil {
		if err := writeFile(l.fs, dir, HeadFile, cp); err != nil {
			return err
		}
	}
	return l.db.Checkpoint(filepath.Join(dir, "store"), pebble.WithFlushedWAL())
}

// Close closes the log.
func (l *Log) Close() error { return errors.Join(l.db.Close(), l.lock.Close()) }
