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

// The first byte of a key says what it holds.
const (
	spaceMeta = 0x00 // cursors, outbox
	spaceFold = 0x01 // the fold's own, by partition
)

// store is the cache of a fold: a Pebble database, and four layers over it. pending are
// the changes that are not committed yet and may be discarded; sealed are those before
// them whose entries are being published. committed are those that were committed and go
// into the database together, once they are many or old enough: most of them are
// overwritten before. A lost process loses them, and the next one folds them again. known
// are values that went into the database or came out of it lately.
//
// Scans go over the database with view on top, by an iterator that is kept while nothing
// changes: a search of an index makes a dozen scans, and opening an iterator costs more
// than what most of them read.
//
// Owned by the stage's loop.
type store struct {
	db        *pebble.DB
	dir       string
	fs        vfs.FS
	key       []byte // of its files; nil: they are in the clear
	format    int    // of what is in it
	pending   layer
	sealed    layer
	committed layer
	known     layer
	spare     layer // empty: a map for the next changes
	keys      knowledge
	view      *pebble.Batch // sealed and pending for scans; nil until there is one
	it        *pebble.Iterator
	lent      bool // it is in use
	scanned   bool // since the last flush
	early     bool // what is scanned for is something that somebody waits for
	flushed   time.Time
	work      Work
	drops     int // how often changes were discarded; what State remembers is void then
}

const (
	// flushBytes is how much is committed before it goes into the database, and
	// about how much known may hold beside that.
	flushBytes = 3 << 20
	// memTable is the size of the database's own. A batch that it counts for half of
	// that becomes a file by itself, and many small files are compacted over and over:
	// it counts about 1.7 times what flushBytes does, and another batch may come on top.
	memTable = 16 << 20
	// flushAfter is how long something committed may stay out of it.
	flushAfter = time.Second
	// flushEarly bounds the bytes that are flushed at once where recalls are decided:
	// their scans ask for it, and a caller may wait for the next one.
	flushEarly = 64 << 10
)

// openStore opens the cache in dir. fs is nil for the operating system's. The files are
// sealed with key; without one they are in the clear.
func openStore(dir string, fs vfs.FS, key []byte) (*store, error) {
	if fs == nil {
		fs = vfs.Default
	}
	if err := settleFolders(dir, fs); err != nil {
		return nil, fmt.Errorf("opening stage state in %s: %w", dir, err)
	}
	if fs == vfs.Default { // what an older version left
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

// cacheBytes is how much of what lies in files all stores of a process keep in
// memory. It fills as it is needed, and without cgo it lies in Go's own heap, where
// garbage collection lets it count twice. Pebble takes the memtables off it: of each
// of a pipeline's three stores the one that is written to, and one that is on its way
// to a file or kept for the next. Without them there would be no cache at all.
const cacheBytes = 40<<20 + 3*2*memTable

// blockCache is shared by the stages of a process: they are never all at the same
// kind of work.
var blockCache = sync.OnceValue(func() *pebble.Cache { return pebble.NewCache(cacheBytes) })

// mergeAt is twice how many layers of new files there are before they are merged into
// the old ones. Most keys are hashes: each merge writes all of the level below anew,
// however little comes in. With Pebble's 4 what half a million beliefs need was written
// seven times, with 16 three times. 32 saves another sixth, but reads look into more
// files then: recalls among a million beliefs took 0.4 ms longer.
const mergeAt = 16

// format is the last with blocks whose keys lie row by row. Those by column that came
// after it are read as fast, but of the cost of merging files they added a third.
const format = pebble.FormatFlushableIngestExcises

// openPebble opens a store's files. There is no write-ahead log: what a kill takes
// with the memtable is folded again from the ledger, and every prefix of what was
// written is the state at an earlier time.
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
		FormatMajorVersion:          format,
		Logger:                      quietLogger{},
	}
	// Filters tell which level has a key. That no level has it is known already, so
	// that the last one, where nearly all keys are, needs none: they would take half
	// of the cache. The last one is compressed, but not what will be merged into it soon.
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
		keys += uint64(l.TablesSize) // an upper bound: no key takes less than a byte
	}
	s.keys.learn(s.db, max(filterKeys, int(keys/32)), learnAfter)
	return nil
}

func (s *store) close() error {
	err := errors.Join(s.flush(), s.closeView())
	s.keys.close()
	return errors.Join(err, s.db.Flush(), s.db.Close())
}

// commit makes the pending changes part of the cache. It does not sync: the
// ledger is the durable thing.
func (s *store) commit() error {
	s.join(&s.sealed)
	s.join(&s.pending)
	return s.joined()
}

// seal begins a new set of pending changes on top of those that there are.
func (s *store) seal() {
	s.keep(s.sealed.add(&s.pending))
	s.pending = layer{}
}

// keep keeps the map of an empty layer for the next changes.
func (s *store) keep(l layer) {
	if l.entries != nil {
		s.spare = l
	}
}

// change adds to the pending changes.
func (s *store) change(key []byte, c change) {
	if s.pending.entries == nil {
		s.pending.entries, s.pending.grown, s.spare = s.spare.entries, s.spare.grown, layer{}
	}
	s.pending.put(string(key), c)
}

// commitSealed is commit of what was sealed.
func (s *store) commitSealed() error {
	s.join(&s.sealed)
	return s.joined()
}

// join adds changes to what is committed.
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

// settle flushes what was committed a while ago. An idle stage calls it now and
// then, so that its cache does not lag for longer than it was busy.
func (s *store) settle() error {
	if s.committed.empty() || time.Since(s.flushed) < flushAfter {
		return nil
	}
	return s.flush()
}

// flush puts what was committed into the database.
func (s *store) flush() error {
	s.flushed, s.scanned = time.Now(), false
	if s.committed.empty() {
		return nil
	}
	if err := s.closeIter(); err != nil {
		return err
	}
	b := s.db.NewBatchWithSize(s.committed.size())
	if err := s.committed.write(b, &s.keys); err != nil {
		return errors.Join(err, b.Close())
	}
	if err := errors.Join(b.Commit(pebble.NoSync), b.Close()); err != nil {
		return fmt.Errorf("committing stage state: %w", err)
	}
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

// closeIter lets go of the iterator: what it goes over has changed. One that is in
// use is closed by who uses it.
func (s *store) closeIter() error {
	it, lent := s.it, s.lent
	s.it, s.lent = nil, false
	if it == nil || lent {
		return nil
	}
	return it.Close()
}

// State is the part of the cache that belongs to a fold in one partition. Its
// methods see the fold's own uncommitted changes. Values that Get and Scan
// return must not be kept or changed after the next call.
type State struct {
	s         kv
	partition int
	key       []byte // scratch
	hot       map[string]hot
	drops     int // of the store, when hot was filled
	memo      any
	memoDrops int // of the store, when memo was given away
}

// hot is what State remembers of a key that GetHot was asked for.
type hot struct {
	value []byte
	ok    bool
}

// Work is what was asked of a store since it was opened. Steps are those of
// scans, over what was deleted and is not compacted away yet too: a scan that
// looks at one key may take thousands.
type Work struct {
	Gets, Sets, Deletes, Scans, Steps, Bytes uint64
}

// Sub is the work since an earlier one.
func (w Work) Sub(v Work) Work {
	return Work{w.Gets - v.Gets, w.Sets - v.Sets, w.Deletes - v.Deletes, w.Scans - v.Scans, w.Steps - v.Steps,
		w.Bytes - v.Bytes}
}

// kv is what a state is kept in, uncommitted changes included.
type kv interface {
	get(key []byte) ([]byte, bool, error)
	set(key, value []byte) error // value is not changed afterwards
	delete(key []byte) error
	deleteRange(from, to []byte) error
	scan(prefix []byte, fn func(key, value []byte) (bool, error)) error
	scanFrom(prefix, from []byte, fn func(key, value []byte) (bool, error)) error
	// discards counts how often changes were taken back.
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

// Partition is the partition whose state this is.
func (st *State) Partition() int { return st.partition }

func (st *State) full(key []byte) []byte {
	st.key = append(append(st.key[:0], spaceFold, byte(st.partition)), key...)
	return st.key
}

// Get returns the value of key, and whether there is one.
func (st *State) Get(key []byte) ([]byte, bool, error) {
	return st.s.get(st.full(key))
}

// GetHot is Get for one of the few keys that every entry asks for: it is
// remembered until it changes.
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

// Memo holds derived data of the fold. It is emptied when changes are discarded or Drop
// removes keys.
func (st *State) Memo() *any {
	if n := st.s.discards(); st.memoDrops != n {
		st.memo, st.memoDrops = nil, n
	}
	return &st.memo
}

// Set gives key a value.
func (st *State) Set(key, value []byte) error { return st.Give(key, bytes.Clone(value)) }

// Give is Set without a copy. The caller must not change the value afterwards.
func (st *State) Give(key, value []byte) error {
	value = slices.Clip(value) // an append to what Get returns must not write here
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

// DropRange removes every key from from to before to.
func (st *State) DropRange(from, to []byte) error {
	clear(st.hot)
	low := bytes.Clone(st.full(from))
	return st.s.deleteRange(low, bytes.Clone(st.full(to)))
}

// Scan calls fn for every key with the prefix, in byte order, until fn returns
// false. Keys are given without the partition's own prefix.
func (st *State) Scan(prefix []byte, fn func(key, value []byte) (more bool, err error)) error {
	return st.s.scan(append([]byte(nil), st.full(prefix)...), func(k, v []byte) (bool, error) { return fn(k[2:], v) })
}

// ScanFrom is Scan of the keys with the prefix that are not below from.
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

// Load reads a value that Put stored, and reports whether there is one.
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

// Key joins a space's byte and identifiers, which cannot hold a zero byte,
// into a key. Fold state begins with the byte that says what it holds.
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
