package lexical

import "encoding/binary"

// Memo keeps the open segments of indexes that were searched or written to, a
// hundred KiB each. Each of their keys was written once for every 512 documents that
// there ever were, so that reading them again with each search costs as much as all
// the rest of it.
//
// A memo holds what was read from the state, and stays true as long as only Add
// changes the state. A caller that takes changes back or removes keys drops the memo.
type Memo struct{ open map[string]*opened }

// opened is a segment that is being filled.
type opened struct {
	number uint32
	slots  [][]byte // what there is of it, never changed
	room   []byte   // they lie side by side: a search goes over all of them
}

// add takes a copy of what there is of a document.
func (o *opened) add(v []byte) {
	if cap(o.room)-len(o.room) < len(v) {
		o.room = make([]byte, 0, max(len(v), openedRoom))
	}
	n := len(o.room)
	o.room = append(o.room, v...)
	o.slots = append(o.slots, o.room[n:len(o.room):len(o.room)])
}

// openedRoom is how many bytes are allocated at once.
const openedRoom = 16 << 10

// memoIndexes is how many segments are kept.
const memoIndexes = 64

// NewMemo returns an empty memo.
func NewMemo() *Memo { return &Memo{open: make(map[string]*opened)} }

// With lets an index use a memo.
func (x *Index) With(m *Memo) *Index {
	x.memo = m
	return x
}

// added is told of a document's postings. It takes those that follow on what it has,
// and a new segment only where there is room: what is searched comes first.
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

// begin makes room for a segment of an index.
func (m *Memo) begin(x *Index, number uint32) *opened {
	if m.open[string(x.prefix)] == nil && len(m.open) >= memoIndexes {
		clear(m.open)
	}
	o := &opened{number: number}
	m.open[string(x.prefix)] = o
	return o
}

// opened is the open segment of an index with so many documents.
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
