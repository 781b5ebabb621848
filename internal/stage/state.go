package stage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"lazaret/pkg/files"
	"lazaret/pkg/files/pebblefs"
	"lazaret/streams"
)

// The first byte of a key in the database says what kind of record the key is for.
const (
	spaceMeta = 0x00 // records of the stage itself: cursors, outbox, format
	spaceFold = 0x01 // records of the fold, by partition
)

// store is the cache of a fold: a Pebble database with four layers in memory.
//
//   - pending has the changes that are not committed. They may be discarded.
//   - sealed has earlier changes, whose entries are being published. They may be discarded too.
//   - committed has committed changes. Most of them are soon overwritten. So they are written to the database together,
//     once they are many or a second old. If the process dies, they are lost, and the stage folds their entries again.
//   - known has values that were recently written to the database or read from it. From time to time, values are
//     dropped that were not read.
//
// The changes of all layers are in one table, see table.go.
//
// A scan first writes committed to the database. Then it reads the database together with view, a Pebble batch that has
// the changes of sealed and pending. The iterator is used again as long as nothing changes. A search in an index makes
// a dozen scans, and opening an iterator costs more than most scans.
//
// Only the stage's loop uses a store.
type store struct {
	db        *pebble.DB
	dir       string
	fs        vfs.FS
	key       []byte // key that encrypts the files; nil: plaintext
	format    int    // format of the state in the database
	pending   layer
	sealed    layer
	committed layer
	table     table            // the changes of these layers, and the known values
	known     int              // approximate memory of the known values
	keys      keyFilter        // the keys that the database may have
	view      *pebble.Batch    // changes of sealed and pending, for scans; nil until the first scan after a commit
	it        *pebble.Iterator // iterator over the database and view; nil if there is none
	lent      bool             // a scan is using it
	scanned   bool             // there was a scan since the last flush
	early     bool             // a recall is being decided, so a scan will follow soon
	flushed   time.Time
	flushers  sync.Pool // of *flusher
	work      Work
	drops     int // how often changes were discarded; State drops its cached values when this number increases
}

// flusher has the buffers of a flush, which are several MiB. The buffers are in a sync.Pool, which frees them once they
// are unused for two garbage collections.
type flusher struct {
	b      *pebble.Batch
	sorted []entry
}

const (
	// flushBytes is a size in bytes. Committed changes that are larger are written to the database. The known values
	// take at most about twice as much.
	flushBytes = 3 << 20
	// memTable is the size of Pebble's memtable. Pebble writes a batch larger than half of that directly to a separate
	// file, and many small files are compacted again and again. A batch has up to flushBytes, plus the bytes of one
	// more commit. In the memtable, each of these bytes takes about 1.7 bytes.
	memTable = 16 << 20
	// flushAfter is how long committed changes wait at most before they are written to the database.
	flushAfter = time.Second
	// flushEarly is the maximum size of changes that are written right after a commit while recalls are decided.
	// Otherwise the next recall's first scan would have to write them while the caller waits for the recall.
	flushEarly = 64 << 10
)

// openStore opens the store in dir. If fs is nil, it uses the operating system's file system. The files are encrypted
// with key; if key is nil, they are in plaintext.
func openStore(dir string, fs vfs.FS, key []byte) (*store, error) {
	if fs == nil {
		fs = vfs.Default
	}
	if err := errors.Join(settleFolders(dir, fs), settleFolders(SnapshotDir(dir), fs)); err != nil {
		return nil, fmt.Errorf("opening stage state in %s: %w", dir, err)
	}
	if fs == vfs.Default { // earlier versions created files that other users can read
		if err := files.RestrictAll(dir); err != nil {
			return nil, fmt.Errorf("opening stage state in %s: %w", dir, err)
		}
	}
	db, err := openPebble(dir, fs, key)
	if err != nil {
		return nil, err
	}
	s := &store{db: db, dir: dir, fs: fs, key: key, flushed: time.Now(), sealed: layer{slot: 1},
		committed: layer{slot: slotStored}}
	if err := s.checkFormat(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.rewriteErased(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// cacheBytes is the size of Pebble's block cache, which all stores of the process share. It is allocated as needed.
// Without cgo it is part of Go's heap, where garbage collection may need twice the memory. Pebble subtracts the
// memtables from it. A pipeline has three stores, each with up to two memtables: the current one, and one that is being
// flushed or kept for reuse. Without the added size of these memtables, no cache would remain.
const cacheBytes = 40<<20 + 3*2*memTable

// blockCache is shared by the stages of a process, because usually only some of them read the database at a time.
var blockCache = sync.OnceValue(func() *pebble.Cache { return pebble.NewCache(cacheBytes) })

// mergeAt is Pebble's L0CompactionThreshold: twice the number of sublevels of new tables that are merged into the lower
// levels at once. Most keys are hashes, so each merge rewrites the whole next level, however little is new. With
// Pebble's default of 4, the data of half a million beliefs was written seven times. With 16, it was written three
// times. With 32, writes are a sixth fewer, but reads use more files: recalls among a million beliefs took 0.4 ms
// longer.
const mergeAt = 16

// manifest is the size at which Pebble starts a new manifest. A snapshot copies the manifest with a buffer of 32 KiB
// for each record. With Pebble's default of 128 MB, a snapshot would need more memory and time the longer the process
// runs.
const manifest = 16 << 10

// format is Pebble's last format with row-oriented blocks. The later formats have column-oriented blocks. Reading these
// is equally fast, but compacting them costs a third more.
const format = pebble.FormatFlushableIngestExcises

// openPebble opens the database of a store. It has no write-ahead log: if the process dies, entries whose state was
// only in the memtable are folded again from the ledger. Tables are added in order, so the files always have the state
// at some earlier time.
func openPebble(dir string, fs vfs.FS, key []byte) (*pebble.DB, error) {
	fs = pebblefs.OwnerOnly(fs)
	if key != nil {
		fs = &sealedFS{FS: fs, key: key}
	}
	o := &pebble.Options{
		Cache:                       blockCache(),
		FS:                          bulkFS{fs},
		DisableWAL:                  true,
		MemTableSize:                memTable,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       mergeAt,
		L0StopWritesThreshold:       3 * mergeAt,
		LBaseMaxBytes:               32 << 20,
		MaxOpenFiles:                256,
		MaxManifestFileSize:         manifest,
		FormatMajorVersion:          format,
		Logger:                      quietLogger{},
	}
	// The filters of the tables tell which levels may have a key. keyFilter already excludes most keys that no level
	// has. So the last level, which has nearly all keys, needs no filter; its filter would use half of the cache. Only
	// the last level is compressed, because the tables of the other levels will soon be merged.
	last := len(o.Levels) - 1
	for i := range last {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].Compression = func() *block.CompressionProfile { return block.NoCompression }
	}
	o.Levels[last].FilterPolicy = pebble.NoFilterPolicy
	db, err := pebble.Open(dir, o)
	if errors.Is(err, ErrSealed) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("opening stage state in %s: %w (is another process using it?)", dir, err)
	}
	return db, nil
}

func (s *store) checkFormat() (err error) {
	if s.format, err = s.readFormat(); err != nil {
		return err
	}
	if s.format == 0 {
		s.format = stateFormat
		s.keys.now = newFilter(filterKeys)
		s.keys.wrote(hashOf(formatKey))
		return s.db.Set(formatKey, []byte{stateFormat}, pebble.NoSync)
	}
	var keys uint64
	for _, l := range s.db.Metrics().Levels {
		keys += uint64(l.TablesSize) // in bytes; converted below to a number of keys, with 32 bytes for each
	}
	s.keys.build(s.db, max(filterKeys, int(keys/32)), learnAfter)
	return nil
}

func (s *store) close() error {
	err := errors.Join(s.flush(), s.closeView())
	s.keys.close()
	return errors.Join(err, s.db.Flush(), s.db.Close())
}

// commit makes the pending and the sealed changes part of committed. It does not sync, because the ledger is durable.
func (s *store) commit() error {
	s.join(&s.sealed)
	s.join(&s.pending)
	return s.joined()
}

// change adds a pending change of a key.
func (s *store) change(key []byte, c change) { s.put(&s.pending, key, c) }

// commitSealed is like commit, but commits only the sealed changes. The pending changes stay pending.
func (s *store) commitSealed() error {
	s.join(&s.sealed)
	return s.joined()
}

// joined completes a commit. It writes the committed changes to the database if they are many, old, or soon needed.
func (s *store) joined() error {
	if err := s.closeView(); err != nil {
		return err
	}
	early := s.early && s.scanned && s.committed.bytes < flushEarly
	if s.committed.bytes < flushBytes && time.Since(s.flushed) < flushAfter && !early {
		return nil
	}
	return s.flush()
}

// settle writes the committed changes to the database if the last write to it is at least a second ago. An idle stage
// calls it regularly, so that committed changes do not stay only in memory.
func (s *store) settle() error {
	if s.committed.empty() || time.Since(s.flushed) < flushAfter {
		return nil
	}
	return s.flush()
}

// flush writes the committed changes to the database, without syncing.
func (s *store) flush() error {
	s.flushed, s.scanned = time.Now(), false
	if s.committed.empty() {
		return nil
	}
	if err := s.closeIter(); err != nil {
		return err
	}
	f, _ := s.flushers.Get().(*flusher)
	if f == nil {
		f = &flusher{b: s.db.NewBatchWithSize(s.committed.size(), pebble.WithMaxRetainedSizeBytes(memTable/2))}
	}
	if err := s.write(&s.committed, f.b, &s.keys, &f.sorted); err != nil {
		return errors.Join(err, f.b.Close())
	}
	if err := f.b.Commit(pebble.NoSync); err != nil {
		return errors.Join(fmt.Errorf("committing stage state: %w", err), f.b.Close())
	}
	f.b.Reset()
	s.flushers.Put(f)
	s.written()
	s.keys.swap(s.db)
	return nil
}

func (s *store) closeView() error {
	err := s.closeIter()
	if s.view != nil {
		err = errors.Join(err, s.view.Close())
		s.view = nil
	}
	return err
}

// closeIter closes the iterator. It must be called before the data changes over which the iterator runs. If a scan is
// using the iterator, the scan closes it at its end.
func (s *store) closeIter() error {
	it, lent := s.it, s.lent
	s.it, s.lent = nil, false
	if it == nil || lent {
		return nil
	}
	return it.Close()
}

// State is the state of a fold in one partition. Its methods see changes that are not committed yet. Values from Get
// and Scan must not be modified, nor used after the next call of a method.
type State struct {
	s         kv
	partition int
	key       []byte // scratch space
	hot       map[string]hot
	drops     int // the store's drops when hot was created
	memo      any
	memoDrops int // value of the store's drops when Memo last returned memo
}

// hot is a result of GetHot.
type hot struct {
	value []byte
	ok    bool
}

// Work counts the operations on a store since it was opened. Scans is the number of scans, and Steps the number of
// steps of their iterators. Steps over deleted records that are not compacted yet count too, so a scan that finds one
// key may take thousands of steps.
type Work struct {
	Gets, Sets, Deletes, Scans, Steps, Bytes uint64
}

// Sub returns the work since an earlier value v.
func (w Work) Sub(v Work) Work {
	return Work{w.Gets - v.Gets, w.Sets - v.Sets, w.Deletes - v.Deletes, w.Scans - v.Scans, w.Steps - v.Steps,
		w.Bytes - v.Bytes}
}

// kv stores the state of a fold, including changes that are not committed. Its implementations are store and memory.
type kv interface {
	get(key []byte) ([]byte, bool, error)
	set(key, value []byte) error // the caller must not modify value afterwards
	delete(key []byte) error
	deleteRange(from, to []byte) error
	scan(prefix []byte, fn func(key, value []byte) (bool, error)) error
	scanFrom(prefix, from []byte, fn func(key, value []byte) (bool, error)) error
	// discards returns how often changes were discarded. When this number increases, values that were cached before may
	// be wrong.
	discards() int
}

func (s *store) set(key, value []byte) error {
	s.work.Sets++
	s.work.Bytes += uint64(len(key) + len(value))
	s.change(key, change{v: value})
	if s.view == nil {
		return nil
	}
	return errors.Join(s.closeIter(), s.view.Set(key, value, nil))
}

func (s *store) delete(key []byte) error {
	s.work.Deletes++
	s.change(key, change{deleted: true})
	if s.view == nil {
		return nil
	}
	return errors.Join(s.closeIter(), s.view.Delete(key, nil))
}

func (s *store) discards() int { return s.drops }

func (s *store) deleteRange(from, to []byte) error {
	s.drop(&s.pending, span{from, to})
	if s.view == nil {
		return nil
	}
	return errors.Join(s.closeIter(), s.view.DeleteRange(from, to, nil))
}

// Partition returns the number of the state's partition.
func (st *State) Partition() int { return st.partition }

func (st *State) full(key []byte) []byte {
	st.key = append(append(st.key[:0], spaceFold, byte(st.partition)), key...)
	return st.key
}

// Get returns the value of key. The bool reports whether key has a value.
func (st *State) Get(key []byte) ([]byte, bool, error) {
	return st.s.get(st.full(key))
}

// GetHot is like Get, for the few keys that nearly every entry reads. It caches the result until the value changes.
func (st *State) GetHot(key []byte) ([]byte, bool, error) {
	if n := st.s.discards(); st.hot == nil || st.drops != n {
		st.hot, st.drops = make(map[string]hot), n
	}
	if h, ok := st.hot[string(key)]; ok {
		return h.value, h.ok, nil
	}
	v, ok, err := st.Get(key)
	if err == nil {
		st.hot[string(key)] = hot{v, ok}
	}
	return v, ok, err
}

// Memo returns a pointer to a value in which the fold may cache data that it derives from the state. The value is set
// to nil when changes are discarded and when DropProject removes keys.
func (st *State) Memo() *any {
	if n := st.s.discards(); st.memoDrops != n {
		st.memo, st.memoDrops = nil, n
	}
	return &st.memo
}

// Set sets the value of key.
func (st *State) Set(key, value []byte) error { return st.Give(key, bytes.Clone(value)) }

// Give is like Set, but does not copy value. The caller must not modify value afterwards.
func (st *State) Give(key, value []byte) error {
	value = slices.Clip(value) // so that an append to a result of Get cannot write into value
	if _, ok := st.hot[string(key)]; ok {
		st.hot[string(key)] = hot{value, true}
	}
	return st.s.set(st.full(key), value)
}

// Delete removes key. It has no effect if there is no value.
func (st *State) Delete(key []byte) error {
	delete(st.hot, string(key))
	return st.s.delete(st.full(key))
}

// DropPrefix removes every key that begins with prefix.
func (st *State) DropPrefix(prefix []byte) error {
	clear(st.hot)
	from := append([]byte(nil), st.full(prefix)...)
	return st.s.deleteRange(from, upperBound(from))
}

// DropRange removes all keys k with from <= k < to.
func (st *State) DropRange(from, to []byte) error {
	clear(st.hot)
	low := bytes.Clone(st.full(from))
	return st.s.deleteRange(low, bytes.Clone(st.full(to)))
}

// Scan calls fn in byte order for every key that begins with prefix, until fn returns false or an error. It returns
// that error. fn gets the keys as they were passed to Set.
func (st *State) Scan(prefix []byte, fn func(key, value []byte) (more bool, err error)) error {
	return st.s.scan(append([]byte(nil), st.full(prefix)...), func(k, v []byte) (bool, error) { return fn(k[2:], v) })
}

// ScanFrom is like Scan, but leaves out keys below from.
func (st *State) ScanFrom(prefix, from []byte, fn func(key, value []byte) (more bool, err error)) error {
	low := append([]byte(nil), st.full(from)...)
	return st.s.scanFrom(append([]byte(nil), st.full(prefix)...), low, func(k, v []byte) (bool, error) {
		return fn(k[2:], v)
	})
}

// Put stores v as JSON.
func (st *State) Put(key []byte, v any) error {
	b, err := streams.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding state: %w", err)
	}
	return st.Give(key, b)
}

// Load decodes the value of key, which Put stored, into v. It reports whether key has a value.
func (st *State) Load(key []byte, v any) (bool, error) {
	b, ok, err := st.Get(key)
	if err != nil || !ok {
		return false, err
	}
	if err := streams.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("decoding state: %w: remove the state folder, it is rebuilt from the ledger", err)
	}
	return true, nil
}

// Key returns a key for fold state. space is the kind of the record. The key has the parts, usually identifiers,
// separated by zero bytes. The parts must not contain zero bytes.
func Key(space byte, parts ...string) []byte {
	n := 1
	for _, p := range parts {
		n += len(p) + 1
	}
	k := append(make([]byte, 0, n), space)
	for i, p := range parts {
		if i > 0 {
			k = append(k, 0)
		}
		k = append(k, p...)
	}
	return k
}
