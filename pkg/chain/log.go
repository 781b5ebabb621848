package chain

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"lazaret/pkg/files"
	"lazaret/pkg/files/pebblefs"
)

// The first byte of a key says of what kind its record is. New leaves and payloads get higher keys than earlier ones.
// So records that are flushed come after all flushed before, and Pebble can move tables instead of rewriting them.
const (
	spaceKept       = 'C' // number → change of a checkpoint's or handover's record, see kept.go
	spaceHash       = 'H' // tile level (from 1), index → hash of a full tile one level below
	spaceKey        = 'K' // subject, generation → wrapped key
	spaceLeaves     = 'L' // index → entry bundle whose first leaf has this index
	spaceMeta       = 'M' // → head
	spaceCounts     = 'N' // → history
	spacePayload    = 'P' // index → payload record
	spaceHandover   = 'R' // number → handover note
	spaceCheckpoint = 'S' // size → signed note
)

// TileWidth is the number of leaves in a tile, as C2SP tlog-tiles prescribes.
const (
	TileWidth  = 1 << TileHeight
	TileHeight = 8
)

// HeadFile is the name of a file beside the store that has the last checkpoint. With it, the log notices that the store
// lost its last records.
const HeadFile = "head"

// Options configures how a log is opened.
type Options struct {
	FS        vfs.FS      // nil: the file system of the operating system
	Signer    note.Signer // signs checkpoints; nil: the log can sign none
	Origin    string      // first line of checkpoints; empty: the signer's name
	MasterKey []byte      // 32 bytes; nil only for a read-only log, in which reading payloads then returns ErrNoKey
	// ReadOnly opens an existing log and allows no appends.
	ReadOnly bool
}

// ErrLocked reports that another process has the log open.
var ErrLocked = errors.New("the log is open in another process")

// ErrNoLog reports that a folder has no log, or a log whose store was emptied or truncated.
var ErrNoLog = errors.New("there is no log in the folder")

// ErrOrder reports that an entry's sequence is not higher than the last one.
var ErrOrder = errors.New("ledger sequences must rise")

// ErrFormat reports that the store has another version of the format.
var ErrFormat = errors.New("the store has a different format version")

// Entry is one entry of the ledger.
type Entry struct {
	Seq     uint64 // position in the ledger, see package position
	Time    time.Time
	Type    string
	Project string
	Subject string // data subject; empty: the project
	Salt    [16]byte
	Payload []byte
}

// Head is the state of a log.
type Head struct {
	Size     int64 // number of leaves
	Root     tlog.Hash
	LastSeq  uint64 // last ledger sequence in the current ledger; 0 before the ledger's first entry
	LastTime time.Time
	Entries  int64
	Gaps     int64
	Resets   int64 // how often the ledger was recreated
	// Epoch is the time at which the followed ledger was created. If NewEpoch was never called, it is zero.
	Epoch time.Time
	// Imported is the number of leaves that were imported from another log. The log may lack their payloads.
	Imported   int64
	Checkpoint []byte // the last signed checkpoint, or nil
}

// Log is an open log.
type Log struct {
	db    *pebble.DB
	fs    vfs.FS
	dir   string
	opts  Options
	lock  *pebble.Lock
	vault *vault

	// appending serializes appends, imports and the destruction of keys.
	appending sync.Mutex
	edge      edge      // guarded by appending, like the following fields
	prev      tlog.Hash // record hash of the last leaf
	tip       Head      // state that includes appends that are not on disk yet; Checkpoint is not set
	applied   uint64    // number of appends so far
	hashes    []tlog.Hash
	buf       []byte
	boxes     [][]byte

	// signing serializes signatures.
	signing sync.Mutex

	mu     sync.RWMutex
	head   Head   // guarded by mu, like the following fields
	synced uint64 // number of the last append that head includes
	failed error  // error of a write, if any; it is unknown whether the write is on disk
}

// Open opens the log in dir, or creates one unless ReadOnly is set. Only one process can have a log open. In other
// processes, Open returns ErrLocked. If the store has another version of the format, Open returns ErrFormat. After a
// crash, the opened log has the entries up to some point, including all for which Append returned without an error.
func Open(dir string, o Options) (*Log, error) { return open(dir, o, cacheSize) }

// cacheSize is the size of Pebble's block cache, in bytes. scanCacheSize is its size for reading a log from end to end.
// That reads each block once, and only the tables' indexes more often. The small cache is faster for that: each block
// reuses the memory of the block before it, which is still in the processor's cache.
const (
	cacheSize     = 8 << 20
	scanCacheSize = 64 << 10
)

func open(dir string, o Options, cached int64) (_ *Log, err error) {
	system := o.FS == nil
	if system {
		o.FS = vfs.Default
	}
	o.FS = pebblefs.OwnerOnly(o.FS)
	if o.Origin == "" && o.Signer != nil {
		o.Origin = o.Signer.Name()
	}
	l := &Log{fs: o.FS, dir: dir, opts: o}
	if l.vault, err = newVault(o.MasterKey, o.ReadOnly); err != nil {
		return nil, err
	}
	store := filepath.Join(dir, "store")
	if !o.ReadOnly {
		if err := makeDir(o.FS, store); err != nil {
			return nil, fmt.Errorf("making the log's folder: %w", err)
		}
		if system { // files of an older version
			if err := files.RestrictAll(dir); err != nil {
				return nil, fmt.Errorf("opening the log in %s: %w", dir, err)
			}
		}
	} else if _, err := o.FS.Stat(store); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrNoLog, dir, err)
	}
	if l.lock, err = pebble.LockDirectory(store, o.FS); err != nil {
		return nil, fmt.Errorf("%w: %s (%v)", ErrLocked, dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.lock.Close())
		}
	}()
	cache := pebble.NewCache(cached)
	defer cache.Unref()
	po := &pebble.Options{Cache: cache, FS: o.FS, Lock: l.lock, ReadOnly: o.ReadOnly, MemTableSize: memTableSize,
		MemTableStopWritesThreshold: 4, MaxOpenFiles: 512, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{},
		ErrorIfNotExists: o.ReadOnly}
	// By default, Pebble ends the process when it finds corrupt data. With this listener it does not, and the read that
	// finds the corruption returns an error.
	po.EventListener = &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}
	po.Cleaner = eraser{}
	// Tables with leaves or payloads have no other records. Otherwise a few frequently written records would span the
	// range of all following tables and cause them to be rewritten. The frequently written records are compacted while
	// they are small. Pebble rewrites a table only if the table is at most 25 times as large as a table of the next
	// level. Tables of leaves and payloads are larger, so they are moved and not rewritten.
	po.Experimental.SpanPolicyFunc = func(start []byte) (pebble.SpanPolicy, []byte, error) {
		for _, end := range []byte{spaceLeaves, spaceLeaves + 1, spacePayload, spacePayload + 1} {
			if len(start) > 0 && start[0] < end {
				return pebble.SpanPolicy{}, []byte{end}, nil
			}
		}
		return pebble.SpanPolicy{}, nil, nil
	}
	po.TargetFileSizes[0], po.TargetFileSizes[1] = int64(memTableSize/2), int64(memTableSize/128)
	po.L0CompactionFileThreshold = 64
	for i := range po.Levels {
		// These blocks are large and not compressed: they have encrypted bytes and hashes, which do not compress, and
		// are read sequentially.
		po.Levels[i].BlockSize = blockSize
		po.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	}
	if l.db, err = pebble.Open(store, po); err != nil {
		return nil, fmt.Errorf("opening the log in %s: %w", dir, err)
	}
	if err = l.load(); err == nil && !o.ReadOnly {
		if err = l.whole(); err == nil {
			err = l.cover()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the log in %s: %w", dir, err), l.db.Close())
	}
	return l, nil
}

// blockSize is the size of a block that is read from a table, in bytes. If the checksum of a block is wrong, Pebble
// tests whether one bit was flipped. The time for that grows with the square of the block's size: it takes 0.4 s for
// this size, and 2 s for twice this size. Tests that damage thousands of logs set a smaller size.
var blockSize = 32 << 10

// memTableSize is the size in bytes of the data that is written to one table. Tests of tables set a smaller size.
var memTableSize uint64 = 16 << 20

// quiet discards Pebble's log messages. Pebble's methods also return the errors of their calls.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("pebble: "+format, args...))
}

func key8(space byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{space}, n)
}

// indexKey returns the key of a bundle of leaves or of a payload.
func indexKey(space byte, index int64) (k [9]byte) {
	k[0] = space
	binary.BigEndian.PutUint64(k[1:], uint64(index))
	return k
}

func hashKey(level int, n int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{spaceHash, byte(level)}, uint64(n))
}

// load reads the head.
func (l *Log) load() error {
	v, c, err := l.db.Get([]byte{spaceMeta})
	if errors.Is(err, pebble.ErrNotFound) {
		l.head.Root = l.edge.root()
		l.tip = l.head
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
	l.tip = l.head
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceCheckpoint},
		UpperBound: []byte{spaceCheckpoint + 1}})
	if err != nil {
		return err
	}
	if it.Last() {
		l.head.Checkpoint = append([]byte(nil), it.Value()...)
	}
	return errors.Join(it.Error(), it.Close())
}

// whole returns an error if the store was emptied or truncated. Appending to such a store would create a different log.
func (l *Log) whole() error {
	b, err := readFile(l.fs, filepath.Join(l.dir, HeadFile))
	if err != nil {
		return nil // no checkpoint was signed yet, or the head file is missing; a verification finds that
	}
	if cp, err := ParseCheckpoint(b); err == nil && cp.Size > l.head.Size {
		return fmt.Errorf("%w: its file %s has a checkpoint of %d leaves, but the store has only %d: the store was "+
			"emptied or truncated; keep the folder as evidence, and move it aside to begin a new "+
			"log", ErrNoLog, HeadFile, cp.Size, l.head.Size)
	}
	return nil
}

// storeVersion is the version of the store's format. metaSize is the size of its head record.
const (
	storeVersion = 3
	metaSize     = 1 + 8*8 + 4
)

func encodeMeta(h *Head) []byte {
	b := []byte{storeVersion}
	for _, n := range []int64{h.Size, h.Entries, h.Gaps, h.Resets, int64(h.LastSeq), h.LastTime.UnixNano(),
		nanos(h.Epoch), h.Imported} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func decodeMeta(b []byte, h *Head) error {
	if len(b) > 0 && b[0] != storeVersion {
		return fmt.Errorf("%w: %d, this program reads %d: remove the folder, and the log is built again from the ledger "+
			"or from another log", ErrFormat, b[0], storeVersion)
	}
	if len(b) != metaSize {
		return fmt.Errorf("the log's head record has %d bytes, want %d", len(b), metaSize)
	}
	if binary.BigEndian.Uint32(b[metaSize-4:]) != crc32.Checksum(b[:metaSize-4], castagnoli) {
		return errors.New("the log's head record was altered: its checksum is wrong")
	}
	h.Size = int64(binary.BigEndian.Uint64(b[1:]))
	h.Entries = int64(binary.BigEndian.Uint64(b[9:]))
	h.Gaps = int64(binary.BigEndian.Uint64(b[17:]))
	h.Resets = int64(binary.BigEndian.Uint64(b[25:]))
	h.LastSeq = binary.BigEndian.Uint64(b[33:])
	h.LastTime = time.Unix(0, int64(binary.BigEndian.Uint64(b[41:]))).UTC()
	h.Epoch = fromNanos(int64(binary.BigEndian.Uint64(b[49:])))
	h.Imported = int64(binary.BigEndian.Uint64(b[57:]))
	if h.Size < 0 {
		return fmt.Errorf("the log's head record has a size of %d leaves", h.Size)
	}
	return nil
}

// nanos returns the number that is stored for a ledger's creation time: Unix nanoseconds, or 0 for the zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// Head returns the state of the log.
func (l *Log) Head() Head {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.head
}

// makeDir durably creates a folder and its parents. A folder must itself be on disk in its parent's list. Otherwise a
// crash loses the folder with all synced files in it.
func makeDir(fs vfs.FS, dir string) error {
	var missing []string
	for d := dir; ; d = fs.PathDir(d) {
		_, err := fs.Stat(d)
		if err == nil || fs.PathDir(d) == d {
			break
		}
		missing = append(missing, d)
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// Also sync the parents of existing folders. If the process that created such a folder died, the folder may not be
	// on disk in its parent's list.
	for _, d := range append(missing, dir, fs.PathDir(dir)) {
		if err := syncDir(fs, fs.PathDir(d)); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeFile replaces a file atomically and durably.
func writeFile(fs vfs.FS, dir, name string, data []byte) error {
	tmp := filepath.Join(dir, name+".tmp")
	f, err := fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	// A file system of Pebble may modify the slice that it writes.
	if _, err := f.Write(bytes.Clone(data)); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

func readFile(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

// Snapshot copies the log to dir, which must not exist. The copy can be opened while this log is in use. Files are
// hard-linked, not copied. If the log has a signer, Snapshot first signs the head, so that a checkpoint covers the
// whole copy.
func (l *Log) Snapshot(dir string) error {
	l.appending.Lock()
	defer l.appending.Unlock()
	// Wait for pending writes. Otherwise they would be in the copy, but no checkpoint in the copy would cover them.
	if err := l.settle(); err != nil {
		return err
	}
	if l.opts.Signer != nil && l.Head().Size > 0 {
		if _, err := l.Checkpoint(); err != nil {
			return err
		}
	}
	if err := l.fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if cp := l.Head().Checkpoint; cp != nil {
		if err := writeFile(l.fs, dir, HeadFile, cp); err != nil {
			return err
		}
	}
	if err := l.db.Flush(); err != nil {
		return err
	}
	return l.db.Checkpoint(filepath.Join(dir, "store"), pebble.WithFlushedWAL())
}

// Close closes the log. Before, it writes the data in memory to tables, so that the next Open need not replay the
// write-ahead log.
func (l *Log) Close() error {
	var err error
	if !l.opts.ReadOnly {
		err = l.db.Flush()
	}
	return errors.Join(err, l.db.Close(), l.lock.Close())
}
