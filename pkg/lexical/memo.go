package lexical

import (
	"encoding/binary"
	"slices"
)

// Memo keeps the open segments of indexes that were searched, a hundred KiB each.
// Each of their keys was written once for every 512 documents that there ever were,
// so that reading them again with each search costs as much as all the rest of it.
//
// What is in it was read of the state and is what the state has, as long as only
// Add changes that: whoever takes changes back, or removes keys, drops the memo.
type Memo struct{ open map[string]*opened }

// opened is a segment that is being filled.
type opened struct {
	number uint32
	slots  [][]byte // what there is of it, never changed
}

// memoIndexes is how many segments are kept.
const memoIndexes = 64

// NewMemo returns an empty memo.
func NewMemo() *Memo { return &Memo{open: make(map[string]*opened)} }

// With lets an index use a memo.
func (x *Index) With(m *Memo) *Index {
	x.memo = m
	return x
}

// opened is the open segment of an index with so many documents.
func (m *Memo) opened(x *Index, count uint32) ([][]byte, error) {
	number, slots := count/segment, int(count%segment)
	o := m.open[string(x.prefix)]
	if o == nil || o.number != number || len(o.slots) > slots {
		if o == nil && len(m.open) >= memoIndexes {
			clear(m.open)
		}
		o = &opened{number: number}
		m.open[string(x.prefix)] = o
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
		o.slots = append(o.slots, slices.Clone(v))
		return true, nil
	})
	if err == nil && len(o.slots) < slots {
		err = errBadRun
	}
	return o.slots, err
}
