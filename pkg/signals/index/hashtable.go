package index

import (
	"slices"
)

// hashTable is a hash table with open addressing that maps a hash to a ref. The number of its slots is a power of two.
type hashTable struct {
	slots []hashSlot
	count int
	seen  uint32 // prefetch writes it, so that the compiler does not remove the reads; the value has no meaning
}

// hashSlot has a hash and its ref, in twelve bytes. If the hash is 0, the slot is free.
type hashSlot struct{ high, low, ref uint32 }

func (e *hashSlot) used() bool { return e.high|e.low != 0 }

func (e *hashSlot) hash() uint64 { return uint64(e.high)<<32 | uint64(e.low) }

// prefetch reads the slots of several keys, so that their cache misses overlap.
func (t *hashTable) prefetch(hs []uint64) {
	if t.count == 0 {
		return
	}
	mask, seen := len(t.slots)-1, t.seen
	for _, h := range hs {
		seen ^= t.slots[int(h*0x9e3779b97f4a7c15>>32)&mask].low
	}
	t.seen = seen
}

// slot returns the slot that has key h. If none has it, slot returns the free slot in which to put it.
func (t *hashTable) slot(h uint64) *hashSlot {
	mask := len(t.slots) - 1
	i := int(h*0x9e3779b97f4a7c15>>32) & mask
	for {
		e := &t.slots[i&mask]
		if k := e.hash(); k == h || k == 0 {
			return e
		}
		i++
	}
}

func (t *hashTable) get(h uint64) (uint32, bool) {
	if t.count == 0 {
		return 0, false
	}
	e := t.slot(max(h, 1))
	return e.ref, e.used()
}

func (t *hashTable) put(h uint64, ref uint32) {
	at, _ := t.at(h)
	*at = ref
}

// at returns a pointer to the ref of key h. If the table lacks the key, at adds it, and known is false.
func (t *hashTable) at(h uint64) (ref *uint32, known bool) {
	if 5*(t.count+1) > 4*len(t.slots) { // in a fuller table, looking for a key that is missing takes many steps
		t.grow()
	}
	h = max(h, 1)
	e := t.slot(h)
	if known = e.used(); !known {
		e.high, e.low = uint32(h>>32), uint32(h)
		t.count++
	}
	return &e.ref, known
}

func (t *hashTable) sorted() []uint64 {
	var out []uint64
	for i := range t.slots {
		if e := &t.slots[i]; e.used() {
			out = append(out, e.hash())
		}
	}
	slices.Sort(out)
	return out
}

func (t *hashTable) grow() {
	old := t.slots
	t.slots = make([]hashSlot, max(64, 2*len(old)))
	for i := range old {
		if e := &old[i]; e.used() {
			*t.slot(e.hash()) = *e
		}
	}
}
