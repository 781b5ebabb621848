package stage

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
)

// layer is a set of changes to a store, or of cached values. They take precedence over the database. The ranges of a
// layer are deleted first, and its entries are set after that.
type layer struct {
	entries map[string]change
	sieve   *sieve // filter of the keys in entries; it may have further keys; nil if entries is nil
	ranges  []span
	bytes   int // approximate memory of the entries
	grown   int // largest number of entries that the map ever had; the cost of clearing the map depends on it
}

// sieve is a Bloom filter with one bit per key: it tells which keys a layer cannot have. Most lookups are for keys that
// no layer has. Without the filter, each lookup would search a map for each layer.
type sieve [1 << 11]uint64

func (m *sieve) add(h uint64) { m[h>>6%uint64(len(m))] |= 1 << (h % 64) }

func (m *sieve) may(h uint64) bool { return m[h>>6%uint64(len(m))]>>(h%64)&1 != 0 }

type change struct {
	v       []byte // never modified in place
	deleted bool
}

type span struct{ from, to []byte }

func (r span) holds(k string) bool { return k >= string(r.from) && (r.to == nil || k < string(r.to)) }

// entryOverhead is the approximate memory in bytes that an entry takes in addition to its key and value.
const entryOverhead = 96

func (l *layer) empty() bool { return len(l.entries) == 0 && len(l.ranges) == 0 }

// get looks up a key. hash is the key's xxhash. If the layer has neither an entry nor a deleted range for the key,
// known and ok are false.
func (l *layer) get(key []byte, hash uint64) (v []byte, ok, known bool) {
	if l.sieve != nil && l.sieve.may(hash) {
		if e, is := l.entries[string(key)]; is {
			return e.v, !e.deleted, true
		}
	}
	for _, r := range l.ranges {
		if r.holds(string(key)) {
			return nil, false, true
		}
	}
	return nil, false, false
}

func (l *layer) put(key string, e change) {
	l.ready()
	l.sieve.add(xxhash.Sum64String(key))
	l.putMarked(key, e)
}

// ready allocates the layer's map.
func (l *layer) ready() {
	if l.entries == nil {
		l.entries, l.sieve = make(map[string]change), new(sieve)
	}
}

// putMarked is like put, for a key that is in the sieve already.
func (l *layer) putMarked(key string, e change) {
	if old, ok := l.entries[key]; ok {
		l.bytes += len(e.v) - len(old.v)
	} else {
		l.bytes += len(key) + len(e.v) + entryOverhead
	}
	l.entries[key] = e
	l.grown = max(l.grown, len(l.entries))
}

// emptied returns an empty layer that reuses the map of l. If the last use filled only a small part of the map, it
// returns a new layer, because clearing a large map costs more than growing a small one.
func (l *layer) emptied() layer {
	if l.grown > spareLeast && l.grown > 8*len(l.entries) {
		return layer{}
	}
	clear(l.entries)
	if l.sieve != nil {
		clear(l.sieve[:])
	}
	return layer{entries: l.entries, sieve: l.sieve, grown: l.grown}
}

// spareLeast is a number of entries. A map that had at most that many is always reused.
const spareLeast = 64

// drop deletes all keys in a range.
func (l *layer) drop(r span) {
	for k, e := range l.entries {
		if r.holds(k) {
			l.bytes -= len(k) + len(e.v) + entryOverhead
			delete(l.entries, k)
		}
	}
	l.ranges = append(l.ranges, r)
}

// add adds the changes of a later layer to l. It returns an empty layer, whose map the caller may use for new changes.
func (l *layer) add(younger *layer) layer {
	if l.empty() {
		*l = *younger
		return layer{}
	}
	for _, r := range younger.ranges {
		l.drop(r)
	}
	if younger.sieve != nil {
		l.ready()
		for i, m := range younger.sieve {
			l.sieve[i] |= m
		}
	}
	for k, e := range younger.entries {
		l.putMarked(k, e)
	}
	return younger.emptied()
}

// size estimates how many bytes the changes take in a Pebble batch.
func (l *layer) size() int { return l.bytes - (entryOverhead-16)*len(l.entries) + 64*len(l.ranges) }

// entry is a change and its key.
type entry struct {
	k string
	e change
}

// write adds the changes to a batch in key order, because the database inserts adjacent keys faster. If keys is not
// nil, write leaves out deletions of keys that the database certainly does not have. room is scratch space.
func (l *layer) write(b *pebble.Batch, keys *keyFilter, room *[]entry) error {
	for _, r := range l.ranges {
		if err := b.DeleteRange(r.from, r.to, nil); err != nil {
			return err
		}
	}
	sorted := slices.Grow((*room)[:0], len(l.entries))
	for k, e := range l.entries {
		if !e.deleted || keys == nil || !keys.absent([]byte(k)) {
			sorted = append(sorted, entry{k, e})
		}
	}
	slices.SortFunc(sorted, func(a, b entry) int { return strings.Compare(a.k, b.k) })
	*room = sorted
	var key []byte // reused, because the batch copies it
	for i := range sorted {
		key = append(key[:0], sorted[i].k...)
		var err error
		if e := &sorted[i].e; e.deleted {
			err = b.Delete(key, nil)
		} else {
			err = b.Set(key, e.v, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keyFilter is a filter of the keys that the database may have. Most lookups of a fold are for keys that the database
// does not have. With the filter, these lookups read no files. It is a Bloom filter of every key that was ever written.
// For an existing database it is built in the background from a snapshot. Until it is built, every lookup reads the
// database.
type keyFilter struct {
	now  *filter       // the filter in use; nil: any key may be in the database
	next *filter       // the filter being built, of the snapshot's keys and of all keys written since; or nil
	made <-chan int    // receives the number of keys in the snapshot when next is complete
	stop chan struct{} // closed to end the building
	wg   sync.WaitGroup
}

// filter is a Bloom filter that sets four bits for each key, all in one cache line. Two goroutines may call add
// concurrently. Method may must not be called while a call of add is running.
type filter struct {
	lines [][8]uint64 // their number is a power of two
	keys  int         // approximate number of different keys
}

const (
	// A new filter has room for filterKeys keys, with filterBits bits for each. For about one in a hundred absent keys
	// it reports that the key may be present.
	filterKeys = 1 << 18
	filterBits = 12
	// filterLines limits a filter to 32 MiB. Beyond 22 million keys there are fewer bits for each key. At 45 million
	// keys, the filter reports for one in twelve absent keys that the key may be present.
	filterLines = 32 << 20 / 64
)

func newFilter(keys int) *filter {
	n := 1
	for n*512 < keys*filterBits && n < filterLines {
		n *= 2
	}
	return &filter{lines: make([][8]uint64, n)}
}

// room returns the number of keys that the filter was made for.
func (f *filter) room() int { return len(f.lines) * 512 / filterBits }

// add sets the bits of the key with the given hash. fresh reports whether at least one of the bits was not set before.
func (f *filter) add(key uint64) (fresh bool) {
	line := &f.lines[int(key>>36)&(len(f.lines)-1)]
	for range 4 {
		bit := uint64(1) << (key >> 3 & 63)
		if atomic.LoadUint64(&line[key&7])&bit == 0 {
			atomic.OrUint64(&line[key&7], bit)
			fresh = true
		}
		key >>= 9
	}
	return fresh
}

// may reports whether a key with this hash may have been added. If it returns false, no such key was added.
func (f *filter) may(key uint64) bool {
	line := &f.lines[int(key>>36)&(len(f.lines)-1)]
	for range 4 {
		if line[key&7]>>(key>>3&63)&1 == 0 {
			return false
		}
		key >>= 9
	}
	return true
}

// learnAfter is the delay between opening a store and building its filter. Building reads all keys, which would delay
// the first verdict after a start. Tests set no delay.
var learnAfter = 10 * time.Second

// build starts, after a delay, to fill a new filter with the keys of the database. keys is the expected number of these
// keys.
func (k *keyFilter) build(db *pebble.DB, keys int, after time.Duration) {
	k.stop = make(chan struct{})
	made, f := make(chan int, 1), newFilter(keys)
	k.next, k.made = f, made
	snap, stop := db.NewSnapshot(), k.stop
	k.wg.Go(func() {
		defer snap.Close()
		select {
		case <-stop:
			return
		case <-time.After(after):
		}
		it, err := snap.NewIter(nil)
		if err != nil {
			return // the filter is not used
		}
		defer it.Close()
		fresh := 0
		for n, ok := 0, it.First(); ok; n, ok = n+1, it.Next() {
			if f.add(xxhash.Sum64(it.Key())) {
				fresh++
			}
			if n%4096 == 0 {
				select {
				case <-stop:
					return
				default:
				}
			}
		}
		if it.Error() == nil {
			made <- fresh
		}
	})
}

// wrote adds a key to the filters, because the key is being written to the database.
func (k *keyFilter) wrote(key string) {
	h := xxhash.Sum64String(key)
	for _, f := range [...]*filter{k.now, k.next} {
		if f != nil && f.add(h) {
			f.keys++
		}
	}
}

// swap puts a completed filter into use. When the filter in use is full, it starts to build a larger one.
func (k *keyFilter) swap(db *pebble.DB) {
	if k.next != nil {
		select {
		case n := <-k.made:
			k.next.keys += n
			k.now, k.next = k.next, nil
		default:
			return
		}
	}
	if k.now != nil && k.now.keys > k.now.room() && len(k.now.lines) < filterLines {
		k.build(db, 4*k.now.room(), 0) // four times as large, because building a filter reads all keys and should be rare
	}
}

// absent reports whether a key is certainly not in the database.
func (k *keyFilter) absent(key []byte) bool { return k.absentHash(xxhash.Sum64(key)) }

func (k *keyFilter) absentHash(hash uint64) bool { return k.now != nil && !k.now.may(hash) }

func (k *keyFilter) close() {
	if k.stop != nil {
		close(k.stop)
	}
	k.wg.Wait()
}
