package index

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// MemStore is a Store in memory, for tests, trials and back-tests. Keys and values are stored one after another in
// large chunks, so that the garbage collector has no pointers to follow.
//
// The result of Get is valid until its key is written again.
type MemStore struct {
	seed   maphash.Seed
	slots  []memSlot // slots of a hash table with open addressing; their number is a power of two
	used   int       // number of slots that are not free; slots of dropped keys count
	chunks [][]byte
	wasted int // number of bytes in chunks that no key or value uses any more
	total  int
	memo   any
}

// memSlot says where a key is in the chunks. The key's value comes directly after it.
type memSlot struct {
	hash  uint64
	chunk int32 // index plus one; 0: free, -1: dropped
	pos   uint32
	key   uint32 // sizes in bytes
	value uint32
}

const (
	memChunk   = 256 << 10
	memDropped = -1
)

// NewMemStore returns an empty store.
func NewMemStore() *MemStore {
	return &MemStore{seed: maphash.MakeSeed(), slots: make([]memSlot, 256)}
}

// Size returns the size of all keys and values, in bytes.
func (m *MemStore) Size() int { return m.total - m.wasted }

// find returns the slot of key k. If the store lacks the key, find returns the first slot in which the key may be put.
func (m *MemStore) find(h uint64, k []byte) (slot *memSlot, found bool) {
	mask := uint64(len(m.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := &m.slots[i]
		if s.chunk == 0 {
			return s, false
		}
		if s.hash == h && s.chunk > 0 && int(s.key) == len(k) &&
			bytes.Equal(m.chunks[s.chunk-1][s.pos:s.pos+s.key], k) {
			return s, true
		}
	}
}

func (m *MemStore) valueOf(s *memSlot) []byte {
	at := s.pos + s.key
	return m.chunks[s.chunk-1][at : at+s.value : at+s.value]
}

// Get implements Store.
func (m *MemStore) Get(k []byte) ([]byte, bool, error) {
	s, ok := m.find(maphash.Bytes(m.seed, k), k)
	if !ok {
		return nil, false, nil
	}
	return m.valueOf(s), true, nil
}

// Set implements Store.
func (m *MemStore) Set(k, v []byte) error {
	h := maphash.Bytes(m.seed, k)
	s, ok := m.find(h, k)
	if ok && len(v) <= int(s.value) {
		m.wasted += int(s.value) - len(v)
		s.value = uint32(len(v))
		copy(m.valueOf(s), v)
		return nil
	}
	if ok {
		m.wasted += int(s.key + s.value)
	} else {
		if 4*(m.used+1) > 3*len(m.slots) {
			m.rehash()
			s, _ = m.find(h, k)
		}
		m.used++
	}
	*s = m.append(h, k, v)
	if m.wasted > 4*memChunk && 2*m.wasted > m.total {
		m.compact()
	}
	return nil
}

func (m *MemStore) append(h uint64, k, v []byte) memSlot {
	n := len(k) + len(v)
	last := len(m.chunks) - 1
	if last < 0 || cap(m.chunks[last])-len(m.chunks[last]) < n {
		size := memChunk
		if last < 0 {
			size /= 16
		}
		m.chunks = append(m.chunks, make([]byte, 0, max(size, n)))
		last++
	}
	c := m.chunks[last]
	s := memSlot{h, int32(last + 1), uint32(len(c)), uint32(len(k)), uint32(len(v))}
	m.chunks[last] = append(append(c, k...), v...)
	m.total += n
	return s
}

// rehash makes the hash table larger and removes the slots of dropped keys.
func (m *MemStore) rehash() {
	live := 0
	for i := range m.slots {
		if m.slots[i].chunk > 0 {
			live++
		}
	}
	size := len(m.slots)
	for 2*(live+1) > size {
		size *= 2
	}
	old := m.slots
	m.slots, m.used = make([]memSlot, size), live
	mask := uint64(size - 1)
	for _, s := range old {
		if s.chunk <= 0 {
			continue
		}
		i := s.hash & mask
		for m.slots[i].chunk != 0 {
			i = (i + 1) & mask
		}
		m.slots[i] = s
	}
}

// compact copies all keys and values that are in use to new chunks.
func (m *MemStore) compact() {
	old := m.chunks
	m.chunks, m.wasted, m.total = nil, 0, 0
	for i := range m.slots {
		if s := &m.slots[i]; s.chunk > 0 {
			c := old[s.chunk-1]
			*s = m.append(s.hash, c[s.pos:s.pos+s.key], c[s.pos+s.key:s.pos+s.key+s.value])
		}
	}
}

// DropPrefix implements Store.
func (m *MemStore) DropPrefix(prefix []byte) error {
	m.drop(func(k []byte) bool { return bytes.HasPrefix(k, prefix) })
	return nil
}

// DropRange implements Store.
func (m *MemStore) DropRange(from, to []byte) error {
	m.drop(func(k []byte) bool { return bytes.Compare(k, from) >= 0 && bytes.Compare(k, to) < 0 })
	return nil
}

func (m *MemStore) drop(of func(k []byte) bool) {
	for i := range m.slots {
		s := &m.slots[i]
		if s.chunk > 0 && of(m.keyOf(s)) {
			m.wasted += int(s.key + s.value)
			s.chunk = memDropped
		}
	}
}

func (m *MemStore) keyOf(s *memSlot) []byte { return m.chunks[s.chunk-1][s.pos : s.pos+s.key] }

// Scan implements Store. It examines all keys.
func (m *MemStore) Scan(prefix []byte, fn func(key, value []byte) (bool, error)) error {
	var found []*memSlot
	for i := range m.slots {
		if s := &m.slots[i]; s.chunk > 0 && bytes.HasPrefix(m.keyOf(s), prefix) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *memSlot) int { return bytes.Compare(m.keyOf(a), m.keyOf(b)) })
	for _, s := range found {
		if more, err := fn(m.keyOf(s), m.valueOf(s)); err != nil || !more {
			return err
		}
	}
	return nil
}

// Memo implements Store.
func (m *MemStore) Memo() *any { return &m.memo }
