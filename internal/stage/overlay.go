package stage

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

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
			if f.add(hashOf(it.Key())) {
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

// wrote adds a key to the filters, because the key is being written to the database. hash is hashOf(key).
func (k *keyFilter) wrote(hash uint64) {
	for _, f := range [...]*filter{k.now, k.next} {
		if f != nil && f.add(hash) {
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

// absent reports whether a key is certainly not in the database. hash is hashOf(key).
func (k *keyFilter) absent(hash uint64) bool { return k.now != nil && !k.now.may(hash) }

func (k *keyFilter) close() {
	if k.stop != nil {
		close(k.stop)
	}
	k.wg.Wait()
}
