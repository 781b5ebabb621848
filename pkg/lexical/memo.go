package lexical

import "encoding/binary"

// Memo caches the open segments of indexes that were searched or written. The open segment is the one that is being
// filled; it has about a hundred KiB. Without the cache, every search reads the up to 512 keys of the open segment.
// That takes as long as the rest of the search.
//
// A memo stays valid as long as only Add, Remove and Sweep change the state. A caller that rolls back changes or
// removes keys must drop the memo.
type Memo struct{ open map[string]*opened }

// opened is a cached open segment.
type opened struct {
	number uint32
	slots  [][]byte // the cached documents; never modified
	room   []byte   // the memory of slots; contiguous because a search reads all slots
}

// add copies the postings of a document.
func (o *opened) add(v []byte) {
	if cap(o.room)-len(o.room) < len(v) {
		o.room = make([]byte, 0, max(len(v), openedRoom))
	}
	n := len(o.room)
	o.room = append(o.room, v...)
	o.slots = append(o.slots, o.room[n:len(o.room):len(o.room)])
}

// openedRoom is the size in bytes of one allocation for slots.
const openedRoom = 16 << 10

// memoIndexes is the maximum number of cached segments.
const memoIndexes = 64

// NewMemo returns an empty memo.
func NewMemo() *Memo { return &Memo{open: make(map[string]*opened)} }

// With makes the index use a memo, and returns the index.
func (x *Index) With(m *Memo) *Index {
	x.memo = m
	return x
}

// added records the postings of a new document if the cache has all earlier documents of the segment. If the document
// begins a new segment, added caches that segment under one of two conditions: the index is in the cache already, or
// the cache is not full. It never removes another index, because indexes that were searched have priority.
func (m *Memo) added(x *Index, doc uint32, v []byte) {
	number, slot := doc/segment, int(doc%segment)
	o := m.open[string(x.prefix)]
	if slot == 0 && (o != nil || len(m.open) < memoIndexes) {
		o = m.begin(x, number)
	}
	if o != nil && o.number == number && len(o.slots) == slot {
		o.add(v)
	}
}

// begin starts to cache a segment of an index. If the index is not in the cache and the cache is full, it first drops
// all segments.
func (m *Memo) begin(x *Index, number uint32) *opened {
	if m.open[string(x.prefix)] == nil && len(m.open) >= memoIndexes {
		clear(m.open)
	}
	o := &opened{number: number}
	m.open[string(x.prefix)] = o
	return o
}

// opened returns the documents of the open segment of an index that has count documents.
func (m *Memo) opened(x *Index, count uint32) ([][]byte, error) {
	number, slots := count/segment, int(count%segment)
	o := m.open[string(x.prefix)]
	if o == nil || o.number != number || len(o.slots) > slots {
		o = m.begin(x, number)
	}
	if len(o.slots) == slots {
		return o.slots, nil
	}
	err := x.kv.ScanFrom(x.key(keyForward), x.key(keyForward, uint64(len(o.slots))), func(k, v []byte) (bool, error) {
		slot := int(binary.BigEndian.Uint16(k[len(k)-2:]))
		if slot >= slots {
			return false, nil
		}
		if slot != len(o.slots) || len(v)%7 != 0 {
			return false, errBadRun
		}
		o.add(v)
		return true, nil
	})
	if err == nil && len(o.slots) < slots {
		err = errBadRun
	}
	return o.slots, err
}
