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

	"lazaret/pkg/private"
	"lazaret/streams"
)

// The first byte of a key gives the kind of its record.
const (
	spaceMeta = 0x00 // cursors, outbox
	spaceFold = 0x01 // the fold's own state, by partition
)

// store is the cache of a fold: a Pebble database with four layers in memory.
//
//   - pending has the changes that are not committed yet. They may be discarded.
//   - sealed has earlier changes whose entries are being published.
//   - committed has committed changes. They are written to the database together once they are many
//     or old enough, because most of them are overwritten soon. If the process dies, they are lost
//     and folded again.
//   - known has values that were recently written to the database or read from it.
//
// A scan first writes committed to the database. It then reads the database and view, a Pebble
// batch with the changes of sealed and pending. Its iterator is kept while nothing changes: a
// search in an index makes a dozen scans, and opening an iterator costs more than most of them.
//
// It is owned by the stage's loop.
type store struct {
	db        *pebble.DB
	dir       string
	fs        vfs.FS
	key       []byte // key of the files; nil: plaintext
	format    int    // format of the state
	pending   layer
	sealed    layer
	committed layer
	known     layer
	spare     layer // empty; its map is reused for the next changes
	keys      knowledge
	view      *pebble.Batch // sealed and pending, for scans; nil until the first scan
	it        *pebble.Iterator
	lent      bool // the iterator is in use
	scanned   bool // there was a scan since the last flush
	early     bool // a caller waits for the results of scans
	flushed   time.Time
	flushers  sync.Pool // of *flusher
	work      Work
	drops     int // how often changes were discarded; values that State remembers are invalid after that
}

// flusher has the buffers of a flush, which are several MiB. They are reused until two collections have
// found them unused.
type flusher struct {
	b      *pebble.Batch
	sorted []entry
}

const (
	// flushBytes is the size of committed changes that are written to the database together, and
	// the approximate size of known in addition.
	flushBytes = 3 << 20
	// memTable is the size of the database's memtable. Pebble writes a batch of more than half of
	// this size to a separate file, and many small files are compacted repeatedly. A batch has
	// flushBytes, and possibly those of one more commit, and Pebble counts about 1.7 bytes for each.
	memTable = 16 << 20
	// flushAfter is the maximum time before a commit is written to the database.
	flushAfter = time.Second
	// flushEarly is the maximum size of changes that are flushed at once while recalls are decided.
	// Their scans need a flush, and a caller may wait for the next one.
	flushEarly = 64 << 10
)

// openStore opens the cache in dir. If fs is nil, it uses the file system of the operating system.
// The files are sealed with key, or in plaintext if key is nil.
func openStore(dir string, fs vfs.FS, key []byte) (*store, error) {
	if fs == nil {
		fs = vfs.Default
	}
	if err := errors.Join(settleFolders(dir, fs), settleFolders(SnapshotDir(dir), fs)); err != nil {
		return nil, fmt.Errorf("opening stage state in %s: %w", dir, err)
	}
	if fs == vfs.Default { // files of an older version
		if err := private.Tighten(dir); err != nil {
			return nil, fmt.Errorf("opening stage state in %s: %w", dir, err)
		}
	}
	db, err := openPebble(dir, fs, key)
	if err != nil {
		return nil, err
	}
	s := &store{db: db, dir: dir, fs: fs, key: key, flushed: time.Now()}
	if err := s.checkFormat(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.erased(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// cacheBytes is the memory in which all stores of a process cache file contents. It is allocated as
// needed. Without cgo it is part of Go's heap, where garbage collection may need twice the memory.
// Pebble subtracts memtables from it: for each of the three stores of a pipeline, the current one
// and one that is being flushed or kept for reuse. Without adding them, there would be no cache
// left.
const cacheBytes = 40<<20 + 3*2*memTable

// blockCache is shared by the stages of a process, because they are not all busy with the same kind
// of work at once.
var blockCache = sync.OnceValue(func() *pebble.Cache { return pebble.NewCache(cacheBytes) })

// mergeAt is twice the number of layers of new files that exist before they are merged into the old
// ones. Most keys are hashes, so each merge rewrites the whole next level, however little is added.
// With Pebble's default of 4, the data of half a million beliefs was written seven times, with 16
// three times. 32 saves another sixth, but reads then use more files: recalls among a million
// beliefs took 0.4 ms longer.
const mergeAt = 16

// manifest is the size at which Pebble writes a new manifest. A snapshot copies the manifest with a
// buffer of 32 KiB for each record. With Pebble's default of 128 MB, a snapshot allocates more, and
// takes longer, the longer the process runs.
const manifest = 16 << 10

// format is the last format with row-oriented blocks. Reading the later column-oriented blocks is
// equally fast, but merging files costs a third more with them.
const format = pebble.FormatFlushableIngestExcises

// openPebble opens a store's files. There is no write-ahead log: entries whose state was only in
// the memtable are folded again from the ledger. Every prefix of the written data is the state at
// an earlier time.
func openPebble(dir string, fs vfs.FS, key []byte) (*pebble.DB, error) {
	fs = private.FS(fs)
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
	// Filters tell which level has a key. The set of absent keys is known already (see knowledge),
	// so the last level, which has nearly all keys, needs no filter. It would use half of the
	// cache. The last level is compressed. The others are not, because they will be merged soon.
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
		s.keys.wrote(string(formatKey))
		return s.db.Set(formatKey, []byte{stateFormat}, pebble.NoSync)
	}
	var keys uint64
	for _, l := range s.db.Metrics().Levels {
		keys += uint64(l.TablesSize) // an upper bound: every key takes at least one byte
	}
	s.keys.learn(s.db, max(filterKeys, int(keys/32)), learnAfter)
	return nil
}

func (s *store) close() error {
	err := errors.Join(s.flush(), s.closeView())
	s.keys.close()
	return errors.Join(err, s.db.Flush(), s.db.Close())
}

// commit makes the pending changes part of the cache. It does not sync, because the ledger is
// durable.
func (s *store) commit() error {
	s.join(&s.sealed)
	s.join(&s.pending)
	return s.joined()
}

// seal moves the pending changes to sealed. Later changes are pending on top of them.
func (s *store) seal() {
	s.keep(s.sealed.add(&s.pending))
	s.pending = layer{}
}

// keep keeps the map of an empty layer for reuse.
func (s *store) keep(l layer) {
	if l.entries != nil {
		s.spare = l
	}
}

// change adds a pending change.
func (s *store) change(key []byte, c change) {
	if s.pending.entries == nil {
		spare := s.spare
		spare.ranges, s.spare = s.pending.ranges, layer{}
		s.pending = spare
	}
	s.pending.put(string(key), c)
}

// commitSealed is like commit, for the sealed changes only.
func (s *store) commitSealed() error {
	s.join(&s.sealed)
	return s.joined()
}

// join adds changes to committed.
func (s *store) join(l *layer) {
	if l.empty() {
		return
	}
	for _, r := range l.ranges {
		s.known.drop(r)
	}
	s.known.ranges = nil
	s.keep(s.committed.add(l))
	*l = layer{}
}

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

// settle flushes changes that were committed a while ago. An idle stage calls it from time to time,
// so that its cache does not lag.
func (s *store) settle() error {
	if s.committed.empty() || time.Since(s.flushed) < flushAfter {
		return nil
	}
	return s.flush()
}

// flush writes the committed changes to the database.
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
	if err := s.committed.write(f.b, &s.keys, &f.sorted); err != nil {
		return errors.Join(err, f.b.Close())
	}
	if err := f.b.Commit(pebble.NoSync); err != nil {
		return errors.Join(fmt.Errorf("committing stage state: %w", err), f.b.Close())
	}
	f.b.Reset()
	s.flushers.Put(f)
	for k, e := range s.committed.entries {
		if !e.deleted {
			s.keys.wrote(k)
		}
	}
	s.keys.turn(s.db)
	s.keep(s.known.emptied())
	s.known, s.committed = s.committed, layer{}
	s.known.ranges = nil
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

// closeIter closes the iterator because its data has changed. An iterator in use is closed by its
// user.
func (s *store) closeIter() error {
	it, lent := s.it, s.lent
	s.it, s.lent = nil, false
	if it == nil || lent {
		return nil
	}
	return it.Close()
}

// State is the part of the cache that belongs to a fold in one partition. Its methods see the
// fold's own uncommitted changes. Values from Get and Scan must not be kept or modified after the
// next call.
type State struct {
	s         kv
	partition int
	key       []byte // scratch
	hot       map[string]hot
	drops     int // the store's drops when hot was filled
	memo      any
	memoDrops int // the store's drops when memo was returned
}

// hot is the cached result of GetHot for a key.
type hot struct {
	value []byte
	ok    bool
}

// Work counts the operations on a store since it was opened. Steps are the steps of scans. They
// include steps over deleted records that are not compacted yet, so that a scan of one key may take
// thousands.
type Work struct {
	Gets, Sets, Deletes, Scans, Steps, Bytes uint64
}

// Sub returns the work since v.
func (w Work) Sub(v Work) Work {
	return Work{w.Gets - v.Gets, w.Sets - v.Sets, w.Deletes - v.Deletes, w.Scans - v.Scans, w.Steps - v.Steps,
		w.Bytes - v.Bytes}
}

// kv stores a state, including uncommitted changes.
type kv interface {
	get(key []byte) ([]byte, bool, error)
	set(key, value []byte) error // the caller does not modify value afterwards
	delete(key []byte) error
	deleteRange(from, to []byte) error
	scan(prefix []byte, fn func(key, value []byte) (bool, error)) error
	scanFrom(prefix, from []byte, fn func(key, value []byte) (bool, error)) error
	// discards returns how often changes were discarded.
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
	s.pending.drop(span{from, to})
	if s.view == nil {
		return nil
	}
	return errors.Join(s.closeIter(), s.view.DeleteRange(from, to, nil))
}

// Partition returns the partition of the state.
func (st *State) Partition() int { return st.partition }

func (st *State) full(key []byte) []byte {
	st.key = append(append(st.key[:0], spaceFold, byte(st.partition)), key...)
	return st.key
}

// Get returns the value of key, and whether there is one.
func (st *State) Get(key []byte) ([]byte, bool, error) {
	return st.s.get(st.full(key))
}

// GetHot is like Get, for the few keys that every entry reads. It caches the result until it
// changes.
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

// Memo returns a place for data that the fold derives from its state. It is emptied when changes
// are discarded or DropProject removes keys.
func (st *State) Memo() *any {
	if n := st.s.discards(); st.memoDrops != n {
		st.memo, st.memoDrops = nil, n
	}
	return &st.memo
}

// Set sets the value of key.
func (st *State) Set(key, value []byte) error { return st.Give(key, bytes.Clone(value)) }

// Give is like Set without a copy. The caller must not modify the value afterwards.
func (st *State) Give(key, value []byte) error {
	value = slices.Clip(value) // an append to the result of Get must not write to it
	if _, ok := st.hot[string(key)]; ok {
		st.hot[string(key)] = hot{value, true}
	}
	return st.s.set(st.full(key), value)
}

// Delete removes key.
func (st *State) Delete(key []byte) error {
	delete(st.hot, string(key))
	return st.s.delete(st.full(key))
}

// DropPrefix removes every key with the prefix.
func (st *State) DropPrefix(prefix []byte) error {
	clear(st.hot)
	from := append([]byte(nil), st.full(prefix)...)
	return st.s.deleteRange(from, upperBound(from))
}

// DropRange removes the keys in [from, to).
func (st *State) DropRange(from, to []byte) error {
	clear(st.hot)
	low := bytes.Clone(st.full(from))
	return st.s.deleteRange(low, bytes.Clone(st.full(to)))
}

// Scan calls fn for every key with the prefix, in byte order, until fn returns false. Keys do not
// include the partition's own prefix.
func (st *State) Scan(prefix []byte, fn func(key, value []byte) (more bool, err error)) error {
	return st.s.scan(append([]byte(nil), st.full(prefix)...), func(k, v []byte) (bool, error) { return fn(k[2:], v) })
}

// ScanFrom is like Scan, for the keys with the prefix that are not below from.
func (st *State) ScanFrom(prefix, from []byte, fn func(key, value []byte) (more bool, err error)) error {
	low := append([]byte(nil), st.full(from)...)
	return st.s.scanFrom(append([]byte(nil), st.full(prefix)...), low, func(k, v []byte) (bool, error) {
		return fn(k[2:], v)
	})
}

// Put stores a value as JSON.
func (st *State) Put(key []byte, v any) error {
	b, err := streams.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding state: %w", err)
	}
	return st.Give(key, b)
}

// Load decodes a value that Put stored, and reports whether there is one.
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

// Key joins the byte of a space and identifiers, which must not contain a zero byte, to a key. The
// first byte of a key of fold state gives the kind of its record.
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
