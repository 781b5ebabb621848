package stage

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// table has the keys of a store that are in memory, with their values in each layer. One lookup finds the values of all
// layers, and a commit moves values between layers without looking up keys.
type table struct {
	// index is a hash table with linear probing. An element has the upper half of a key's hash in its upper half, and
	// the number of the key's record plus one in its lower half. It is 0 if it is free. The length is a power of two.
	index   []uint64
	records []record
}

// record has the values of a key.
type record struct {
	key    string
	hash   uint64        // hashOf(key)
	values [slots][]byte // never modified in place
	has    [slots]bool   // the slot has a change, or in slotStored also a cached value
	gone   [slots]bool   // the change is a deletion
	dirty  bool          // the value in slotStored is committed, but not written to the database
	fresh  bool          // it was written to the database by the last flush
	used   bool          // the value in slotStored was read since the last sweep
}

// The slots of a record. Pending and sealed changes use the first two in turns. slotStored is for committed changes and
// for cached values of the database, which is the layer known.
const (
	slotStored = 2
	slots      = 3
)

// layer is a set of changes to a store: pending, sealed or committed (see store). They take precedence over earlier
// layers and the database. A layer's ranges are deleted before its other changes apply.
type layer struct {
	slot   int      // slot of its values
	list   []uint32 // numbers of the records that have a change in this layer
	ranges []span
	bytes  int // approximate memory of the changes
}

type change struct {
	v       []byte // never modified in place
	deleted bool
}

type span struct{ from, to []byte }

func (r span) holds(k string) bool { return k >= string(r.from) && (r.to == nil || k < string(r.to)) }

// entryOverhead is the approximate memory of a change in addition to its bytes.
const entryOverhead = 96

// leastIndex is the minimum length of a table's index.
const leastIndex = 64

func (l *layer) empty() bool { return len(l.list) == 0 && len(l.ranges) == 0 }

// covers reports whether one of the layer's ranges holds a key.
func (l *layer) covers(key []byte) bool {
	for _, r := range l.ranges {
		if r.holds(string(key)) {
			return true
		}
	}
	return false
}

var hashSeed = maphash.MakeSeed()

// hashOf returns the hash of a key. Clients choose parts of keys, and an unseeded hash would let them choose keys with
// equal hashes, which a table finds slowly. The seed is random: nothing but the place of a record may depend on it.
func hashOf(key []byte) uint64 { return maphash.Bytes(hashSeed, key) }

// find returns the record of a key, or nil. hash is hashOf(key). The record is valid until the next call of ensure.
func (t *table) find(key []byte, hash uint64) *record {
	if len(t.index) == 0 {
		return nil
	}
	mask := uint64(len(t.index) - 1)
	for i := hash & mask; t.index[i] != 0; i = (i + 1) & mask {
		if e := t.index[i]; e>>32 == hash>>32 {
			if r := &t.records[uint32(e)-1]; r.hash == hash && r.key == string(key) {
				return r
			}
		}
	}
	return nil
}

// ensure returns the record of a key and its number. If there is none, it adds one.
func (t *table) ensure(key []byte, hash uint64) (*record, uint32) {
	if 2*len(t.records) >= len(t.index) {
		t.reindex(max(2*len(t.index), leastIndex))
	}
	mask := uint64(len(t.index) - 1)
	i := hash & mask
	for ; t.index[i] != 0; i = (i + 1) & mask {
		if e := t.index[i]; e>>32 == hash>>32 {
			n := uint32(e) - 1
			if r := &t.records[n]; r.hash == hash && r.key == string(key) {
				return r, n
			}
		}
	}
	n := uint32(len(t.records))
	t.records = append(t.records, record{key: string(key), hash: hash})
	t.index[i] = hash>>32<<32 | uint64(n+1)
	return &t.records[n], n
}

// reindex makes the index again, with a length of n.
func (t *table) reindex(n int) {
	if n == len(t.index) {
		clear(t.index)
	} else {
		t.index = make([]uint64, n)
	}
	mask := uint64(n - 1)
	for at := range t.records {
		hash := t.records[at].hash
		i := hash & mask
		for t.index[i] != 0 {
			i = (i + 1) & mask
		}
		t.index[i] = hash>>32<<32 | uint64(at+1)
	}
}

// lookup returns the value of a key. hash is hashOf(key). known is false if only the database can tell the value;
// then ok is false too. r is the record of the key, or nil. lookup changes nothing.
func (s *store) lookup(key []byte, hash uint64) (v []byte, ok, known bool, r *record) {
	r = s.table.find(key, hash)
	for _, l := range [...]*layer{&s.pending, &s.sealed} {
		if r != nil && r.has[l.slot] {
			return r.values[l.slot], !r.gone[l.slot], true, r
		}
		if l.covers(key) {
			return nil, false, true, r
		}
	}
	if r != nil && r.has[slotStored] { // a committed range has dropped earlier values
		return r.values[slotStored], !r.gone[slotStored], true, r
	}
	return nil, false, s.committed.covers(key), r
}

// put sets the change of a key in a layer.
func (s *store) put(l *layer, key []byte, c change) {
	r, n := s.table.ensure(key, hashOf(key))
	s.assign(l, r, n, c)
}

// assign sets the change of a record in a layer that is pending or sealed.
func (s *store) assign(l *layer, r *record, n uint32, c change) {
	if r.has[l.slot] {
		l.bytes += len(c.v) - len(r.values[l.slot])
	} else {
		l.bytes += r.size(c.v)
		l.list = append(l.list, n)
	}
	r.has[l.slot], r.values[l.slot], r.gone[l.slot] = true, c.v, c.deleted
}

// size is the approximate memory of a record's change.
func (r *record) size(v []byte) int { return len(r.key) + len(v) + entryOverhead }

// take removes the change in a slot and returns it.
func (r *record) take(slot int) change {
	c := change{r.values[slot], r.gone[slot]}
	r.has[slot], r.values[slot], r.gone[slot] = false, nil, false
	return c
}

// remember caches a value of the database, unless too much is cached.
func (s *store) remember(key, value []byte, hash uint64) {
	if s.known >= 2*flushBytes {
		return
	}
	r, _ := s.table.ensure(key, hash)
	if !r.has[slotStored] {
		r.has[slotStored], r.values[slotStored], r.used = true, value, true
		s.known += r.size(value)
	}
}

// drop deletes all keys in a range from a layer that is pending or sealed.
func (s *store) drop(l *layer, in span) {
	l.list = slices.DeleteFunc(l.list, func(n uint32) bool {
		r := &s.table.records[n]
		if !in.holds(r.key) {
			return false
		}
		l.bytes -= r.size(r.take(l.slot).v)
		return true
	})
	l.ranges = append(l.ranges, in)
}

// dropStored deletes all keys in a range from committed and known.
func (s *store) dropStored(in span) {
	for i := range s.table.records {
		if r := &s.table.records[i]; r.has[slotStored] && in.holds(r.key) {
			if n := r.size(r.take(slotStored).v); r.dirty {
				s.committed.bytes -= n
			} else {
				s.known -= n
			}
			r.fresh, r.used = false, false
		}
	}
	s.committed.list = slices.DeleteFunc(s.committed.list, func(n uint32) bool {
		r := &s.table.records[n]
		gone := !r.has[slotStored]
		r.dirty = r.dirty && !gone
		return gone
	})
	s.committed.ranges = append(s.committed.ranges, in)
}

// join moves the changes of a layer that is pending or sealed to committed.
func (s *store) join(l *layer) {
	for _, in := range l.ranges {
		s.dropStored(in)
	}
	for _, n := range l.list {
		r := &s.table.records[n]
		c := r.take(l.slot)
		switch old := len(r.values[slotStored]); {
		case r.dirty:
			s.committed.bytes += len(c.v) - old
		default:
			if r.has[slotStored] {
				s.known -= r.size(r.values[slotStored])
			}
			s.committed.bytes += r.size(c.v)
			s.committed.list = append(s.committed.list, n)
		}
		r.has[slotStored], r.values[slotStored], r.gone[slotStored], r.dirty = true, c.v, c.deleted, true
	}
	l.reset()
}

// seal moves the pending changes to sealed. Later changes become pending.
func (s *store) seal() {
	if s.sealed.empty() {
		s.pending, s.sealed = s.sealed, s.pending
		return
	}
	for _, in := range s.pending.ranges {
		s.drop(&s.sealed, in)
	}
	for _, n := range s.pending.list {
		r := &s.table.records[n]
		s.assign(&s.sealed, r, n, r.take(s.pending.slot))
	}
	s.pending.reset()
}

// reset empties a layer whose records have no change in its slot any more.
func (l *layer) reset() { l.list, l.ranges, l.bytes = l.list[:0], nil, 0 }

// undo drops the changes of a layer that is pending or sealed.
func (s *store) undo(l *layer) {
	for _, n := range l.list {
		s.table.records[n].take(l.slot)
	}
	l.reset()
}

// written marks the committed changes as written to the database and moves them to known, the cache. If the cache is
// then too large, written drops the values that were neither written just now nor read since the last sweep.
func (s *store) written() {
	for _, n := range s.committed.list {
		r := &s.table.records[n]
		r.dirty, r.fresh = false, true
		if !r.gone[slotStored] {
			s.keys.wrote(r.hash)
		}
	}
	s.known += s.committed.bytes
	list := s.committed.list
	s.committed.reset()
	if s.known > 2*flushBytes || len(s.table.records)*entryOverhead > 4*flushBytes {
		s.sweep()
		return
	}
	for _, n := range list {
		s.table.records[n].fresh = false
	}
}

// sweep drops the cached values that the last flush did not write and that were not read since the last sweep. It also
// drops values that were read, beyond flushBytes. Then it removes the records that have neither a value nor a change.
// There must be no committed changes.
func (s *store) sweep() {
	kept, used := 0, 0
	s.known, s.pending.list, s.sealed.list = 0, s.pending.list[:0], s.sealed.list[:0]
	for i := range s.table.records {
		r := &s.table.records[i]
		if r.has[slotStored] {
			n := r.size(r.values[slotStored])
			if !r.fresh && (!r.used || used+n > flushBytes) {
				r.take(slotStored)
			} else {
				s.known += n
				if !r.fresh {
					used += n
				}
			}
			r.fresh, r.used = false, false
		}
		changed := false
		for _, l := range [...]*layer{&s.pending, &s.sealed} {
			if r.has[l.slot] {
				l.list, changed = append(l.list, uint32(kept)), true
			}
		}
		if changed || r.has[slotStored] {
			if kept != i {
				s.table.records[kept] = *r
			}
			kept++
		}
	}
	t := &s.table
	clear(t.records[kept:])
	t.records = t.records[:kept]
	n := len(t.index)
	if n > leastIndex && 16*kept < n {
		t.records, n = slices.Clone(t.records), leastIndex
		for n < 4*kept {
			n *= 2
		}
	}
	t.reindex(n)
}

// size estimates how many bytes the changes take in a Pebble batch.
func (l *layer) size() int { return l.bytes - (entryOverhead-16)*len(l.list) + 64*len(l.ranges) }

// entry is a record and its key, for sorting.
type entry struct {
	key    string
	record *record
}

// write adds the changes of a layer to a batch in key order, because the database inserts adjacent keys faster. keys
// may be nil. If it is not nil, deletions of keys that the database certainly does not have are left out. room is
// scratch space.
func (s *store) write(l *layer, b *pebble.Batch, keys *keyFilter, room *[]entry) error {
	for _, r := range l.ranges {
		if err := b.DeleteRange(r.from, r.to, nil); err != nil {
			return err
		}
	}
	sorted := slices.Grow((*room)[:0], len(l.list))
	for _, n := range l.list {
		if r := &s.table.records[n]; !r.gone[l.slot] || keys == nil || !keys.absent(r.hash) {
			sorted = append(sorted, entry{r.key, r})
		}
	}
	slices.SortFunc(sorted, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	*room = sorted
	defer clear(sorted)
	var key []byte // reused, because the batch copies it
	for _, e := range sorted {
		key = append(key[:0], e.key...)
		var err error
		if r := e.record; r.gone[l.slot] {
			err = b.Delete(key, nil)
		} else {
			err = b.Set(key, r.values[l.slot], nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
