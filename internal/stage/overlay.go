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

// layer is a set of changes, or of values that are known, that lies over the
// database. Its ranges were deleted before its entries were made.
type layer struct {
	entries map[string]change
	ranges  []span
	bytes   int
	grown   int // the most that entries ever held: about what it costs to empty it
}

type change struct {
	v       []byte // never changed in place
	deleted bool
}

type span struct{ from, to []byte }

func (r span) holds(k string) bool { return k >= string(r.from) && (r.to == nil || k < string(r.to)) }

// entryOverhead is about what an entry takes beside its bytes.
const entryOverhead = 96

func (l *layer) empty() bool { return len(l.entries) == 0 && len(l.ranges) == 0 }

// get looks a key up. known says that the layer decides.
func (l *layer) get(key []byte) (v []byte, ok, known bool) {
	if e, is := l.entries[string(key)]; is {
		return e.v, !e.deleted, true
	}
	for _, r := range l.ranges {
		if r.holds(string(key)) {
			return nil, false, true
		}
	}
	return nil, false, false
}

func (l *layer) put(key string, e change) {
	if l.entries == nil {
		l.entries = make(map[string]change)
	}
	if old, ok := l.entries[key]; ok {
		l.bytes += len(e.v) - len(old.v)
	} else {
		l.bytes += len(key) + len(e.v) + entryOverhead
	}
	l.entries[key] = e
	l.grown = max(l.grown, len(l.entries))
}

// emptied is a layer without anything, in the map of this one unless that has grown
// to far more than it held at last. To grow one anew for each batch costs more than
// to empty it.
func (l *layer) emptied() layer {
	if l.grown > spareLeast && l.grown > 8*len(l.entries) {
		return layer{}
	}
	clear(l.entries)
	return layer{entries: l.entries, grown: l.grown}
}

// spareLeast is how many entries a map may have had to be used again in any case.
const spareLeast = 64

// drop deletes a range.
func (l *layer) drop(r span) {
	for k, e := range l.entries {
		if r.holds(k) {
			l.bytes -= len(k) + len(e.v) + entryOverhead
			delete(l.entries, k)
		}
	}
	l.ranges = append(l.ranges, r)
}

// add puts a younger layer on top, and returns an empty one in its place.
func (l *layer) add(younger *layer) layer {
	if l.empty() {
		*l = *younger
		return layer{}
	}
	for _, r := range younger.ranges {
		l.drop(r)
	}
	for k, e := range younger.entries {
		l.put(k, e)
	}
	return younger.emptied()
}

// size is about what the changes take in a batch.
func (l *layer) size() int { return l.bytes - (entryOverhead-16)*len(l.entries) + 64*len(l.ranges) }

// write puts the changes into a batch, in order, so that the database inserts
// neighbours one after another. With keys, which say what is below the batch, what
// was deleted before it ever came there leaves nothing.
func (l *layer) write(b *pebble.Batch, keys *knowledge) error {
	for _, r := range l.ranges {
		if err := b.DeleteRange(r.from, r.to, nil); err != nil {
			return err
		}
	}
	type entry struct {
		k string
		e change
	}
	sorted := make([]entry, 0, len(l.entries))
	for k, e := range l.entries {
		if !e.deleted || keys == nil || !keys.absent([]byte(k)) {
			sorted = append(sorted, entry{k, e})
		}
	}
	slices.SortFunc(sorted, func(a, b entry) int { return strings.Compare(a.k, b.k) })
	var key []byte // the batch copies it
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

// knowledge says which keys are not in the database: most look-ups of a fold ask for new
// keys. It is a Bloom filter of every key that was ever written. For an existing database
// it is made in the background from a snapshot; until then it excludes no key.
type knowledge struct {
	now  *filter    // nil: nothing is known
	next *filter    // being made, of the snapshot and of what was written since
	made <-chan int // keys of the snapshot
	stop chan struct{}
	wg   sync.WaitGroup
}

// filter is a Bloom filter: four bits for each key, in one cache line. Two goroutines may
// set bits at once; reads come after both.
type filter struct {
	lines [][8]uint64 // a power of two
	keys  int         // that were new, as far as the filter can tell
}

const (
	// filterKeys is for how many keys a filter is first made, and filterBits how
	// many bits it has for each: of a hundred other keys, it says of about one
	// that it may be there.
	filterKeys = 1 << 18
	filterBits = 12
	// filterLines bounds a filter, to 32 MiB. It then has fewer bits for each of
	// more than 22 million keys, and is wrong of one in twelve at 45 million.
	filterLines = 32 << 20 / 64
)

func newFilter(keys int) *filter {
	n := 1
	for n*512 < keys*filterBits && n < filterLines {
		n *= 2
	}
	return &filter{lines: make([][8]uint64, n)}
}

func (f *filter) room() int { return len(f.lines) * 512 / filterBits }

// add sets a key's bits, and reports whether one was not set.
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

// learnAfter is how long an opened store waits before its filter is made. That reads all
// keys, which would delay the first verdict after a start. Look-ups go to the files until
// then. Tests do not wait.
var learnAfter = 10 * time.Second

// learn begins to fill a filter with what the database holds, after a while.
func (k *knowledge) learn(db *pebble.DB, keys int, after time.Duration) {
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
			return // and nothing is known
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

// wrote notes a key that goes into the database.
func (k *knowledge) wrote(key string) {
	h := xxhash.Sum64String(key)
	for _, f := range [...]*filter{k.now, k.next} {
		if f != nil && f.add(h) {
			f.keys++
		}
	}
}

// turn takes a filter that is ready into use, and has a larger one made when
// this one is full.
func (k *knowledge) turn(db *pebble.DB) {
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
		k.learn(db, 4*k.now.room(), 0) // all keys are read for it: not at each doubling
	}
}

// absent reports whether a key is known not to be in the database.
func (k *knowledge) absent(key []byte) bool { return k.now != nil && !k.now.may(xxhash.Sum64(key)) }

func (k *knowledge) close() {
	if k.stop != nil {
		close(k.stop)
	}
	k.wg.Wait()
}
