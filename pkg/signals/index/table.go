package index

import (
	"bytes"
	"encoding/binary"
)

// Store holds the state of signals. It is the state of one partition in the caller's fold. *stage.State implements it.
type Store interface {
	Get(key []byte) (value []byte, ok bool, err error)
	Set(key, value []byte) error
	// DropPrefix removes every key that begins with prefix. DropRange removes all keys k with from <= k < to.
	DropPrefix(prefix []byte) error
	DropRange(from, to []byte) error
	// Scan calls fn for every key that begins with prefix, in order.
	Scan(prefix []byte, fn func(key, value []byte) (more bool, err error)) error
	// Memo holds data derived from the values. It may be dropped and rebuilt at any time. It is empty if somebody else
	// has changed keys since, or if changes were rolled back.
	Memo() *any
}

// tableID identifies a table of signals. A table is bounded for each project. Its keys are in two generations. When the
// younger generation reaches half of the bound, the elder one is dropped and the younger one takes its place. A key
// that is used moves to the younger generation. So a key that was used recently is not dropped. To know when to drop a
// generation, the table needs only one counter.
type tableID byte

// maxTables is the maximum number of tables.
const maxTables = 16

// tableOf has the registered tables, by id.
var tableOf [maxTables]struct {
	name  string
	bound uint32 // maximum number of keys of one project
}

// numTables is the highest table id plus one.
var numTables int

// NewTable registers a table. The id is part of the keys in the store and must never change. bound
// is the maximum number of keys of one project.
func NewTable(id tableID, name string, bound uint32) tableID {
	if tableOf[id].name != "" {
		panic("signals: two tables have the id of " + name)
	}
	tableOf[id].name, tableOf[id].bound = name, bound
	numTables = max(numTables, int(id)+1)
	return id
}

// tableMeta is the state of one table of one project.
type tableMeta struct {
	gen   byte
	lost  bool // keys were dropped
	count uint32
	elder uint32 // number of keys in the elder generation
}

// Tables gives access to one project's signals during one evaluation.
type Tables struct {
	St      Store
	project string
	meta    [maxTables]tableMeta
	opened  bool
	dirty   bool
	index   *Index // nil until the first lookup
	Err     error  // first error of the store; after it, the evaluation ends
	buf     []byte
	scratch []byte // memory of buf
	Name    []byte // memory for a key within a table
	apart   []byte // memory for other keys
	value   []byte // memory for values, see Take
	Text    []byte // memory for a text
	Words   []uint32
	last    lookup
}

// lookup describes the last call of Get. A Put of the same key after it need not look the key up again.
type lookup struct {
	id    tableID
	some  bool // Get was called, and its key is still in buf
	young bool // the key is in the younger generation
}

const metaSize = 10

// metaKey returns the key under which the state of the project's tables is stored. It is valid until the next call.
func (t *Tables) metaKey() []byte {
	t.apart = append(append(t.apart[:0], 'm'), t.project...)
	return t.apart
}

// Open returns the tables of a project. It reads nothing from the store; the first lookup does.
func Open(st Store, project string) *Tables { return &Tables{St: st, project: project} }

// Reset is like Open, but reuses memory.
func (t *Tables) Reset(st Store, project string) {
	*t = Tables{
		St:      st,
		project: project,
		scratch: t.scratch,
		Name:    t.Name,
		apart:   t.apart,
		value:   t.value,
		Text:    t.Text,
		Words:   t.Words,
	}
}

// open reads the state of the generations.
func (t *Tables) open() {
	t.opened = true
	if t.Err != nil {
		return
	}
	b, ok, err := t.St.Get(t.metaKey())
	if err != nil || !ok {
		t.Err = err
		return
	}
	if len(b)%metaSize != 0 || len(b)/metaSize > numTables {
		t.Err = unreadable(t.project)
		return
	}
	for i := range t.meta[:len(b)/metaSize] {
		m := b[i*metaSize:]
		t.meta[i] = tableMeta{
			gen:   m[0],
			lost:  m[1] != 0,
			count: binary.BigEndian.Uint32(m[2:]),
			elder: binary.BigEndian.Uint32(m[6:]),
		}
	}
}

// Take returns an empty buffer for encoding a value. The buffer may be used again, because a Store copies each value
// that it gets.
func (t *Tables) Take() []byte { return t.value[:0] }

// Give returns v, and keeps v's memory as the buffer that Take returns next.
func (t *Tables) Give(v []byte) []byte {
	t.value = v
	return v
}

// Index returns the index of the project. If the store fails, it returns nil.
func (t *Tables) Index() *Index {
	if t.index == nil && t.Err == nil {
		t.index, t.Err = openIndex(t.St, t.project)
	}
	if t.Err != nil {
		return nil
	}
	return t.index
}

// Find looks up a hash in the given posting table of the project's index.
func (t *Tables) Find(id postID, h uint64) (ref uint32, ok bool) {
	if b := t.Index(); b != nil {
		return b.Get(id, h)
	}
	return 0, false
}

// Close writes the changed state to the store. It returns the first error of the store since Open.
func (t *Tables) Close() error {
	if t.Err == nil && t.index != nil {
		if t.Err = t.index.close(t); t.Err == nil {
			t.index.account(t.St)
		}
	}
	if t.Err != nil {
		forgetIndex(t.St, t.project) // it may differ from the store
		return t.Err
	}
	if !t.dirty {
		return nil
	}
	b := t.Take()
	for _, m := range t.meta[:numTables] {
		lost := byte(0)
		if m.lost {
			lost = 1
		}
		b = append(b, m.gen, lost)
		b = binary.BigEndian.AppendUint32(b, m.count)
		b = binary.BigEndian.AppendUint32(b, m.elder)
	}
	return t.St.Set(t.metaKey(), t.Give(b))
}

// key returns the store's key of k in a table and generation. It is valid until the next call. For each table and
// generation, all keys of a project have the same prefix.
func (t *Tables) key(id tableID, gen byte, k []byte) []byte {
	if t.buf == nil {
		t.buf = append(append(append(t.scratch[:0], 's', 0, 0), t.project...), 0)
	}
	t.buf = append(t.buf[:len(t.project)+4], k...)
	t.scratch = t.buf
	t.buf[1], t.buf[2] = byte(id), gen
	return t.buf
}

// NameKey makes a key from texts. The result is valid until the next call of NameKey, HashKey or NumberKey.
func (t *Tables) NameKey(parts ...string) []byte {
	t.Name = t.Name[:0]
	for _, p := range parts {
		t.Name = append(t.Name, p...)
	}
	return t.Name
}

// HashKey is like NameKey, for a hash.
func (t *Tables) HashKey(h uint64) []byte {
	t.Name = binary.BigEndian.AppendUint64(t.Name[:0], h)
	return t.Name
}

// NumberKey is like NameKey, for a number.
func (t *Tables) NumberKey(h uint32) []byte {
	t.Name = binary.BigEndian.AppendUint32(t.Name[:0], h)
	return t.Name
}

// Get returns the value of a key, or nil. If the key is in the elder generation, Get moves it to the younger one.
func (t *Tables) Get(id tableID, k []byte) []byte {
	if !t.opened {
		t.open()
	}
	if t.Err != nil {
		return nil
	}
	m := &t.meta[id]
	key := t.key(id, m.gen, k)
	if m.count == 0 && m.elder == 0 { // most projects have several empty tables
		t.last = lookup{id, true, false}
		return nil
	}
	b, ok, err := t.St.Get(key)
	young := ok
	if err == nil && !ok && m.elder > 0 {
		if b, ok, err = t.St.Get(t.key(id, m.gen-1, k)); ok && err == nil {
			t.set(id, k, b, false)
			young = true
		}
	}
	t.last = lookup{id, true, young}
	if t.Err == nil {
		t.Err = err
	}
	if !ok {
		return nil
	}
	return b
}

// Put sets a value.
func (t *Tables) Put(id tableID, k, v []byte) {
	if !t.opened {
		t.open()
	}
	if t.Err != nil {
		return
	}
	if l := &t.last; l.some && l.id == id && bytes.Equal(t.buf[len(t.project)+4:], k) {
		t.set(id, k, v, l.young)
		return
	}
	_, ok, err := t.St.Get(t.key(id, t.meta[id].gen, k))
	if err != nil {
		t.Err = err
		return
	}
	t.set(id, k, v, ok)
}

// set sets the value of a key. known says whether the younger generation already has the key.
func (t *Tables) set(id tableID, k, v []byte, known bool) {
	if t.Err != nil {
		return
	}
	t.last.some = false
	m := &t.meta[id]
	if !known {
		if m.count >= tableOf[id].bound/2 {
			if t.Err = t.St.DropPrefix(t.key(id, m.gen-1, nil)); t.Err != nil {
				return
			}
			m.lost = m.lost || m.elder > 0
			m.gen, m.elder, m.count = m.gen+1, m.count, 0
		}
		m.count++
		t.dirty = true
	}
	t.Err = t.St.Set(t.key(id, m.gen, k), v)
}

// Partial returns the names of the tables that have dropped keys because they were full.
func (t *Tables) Partial() []string {
	if !t.opened {
		t.open()
	}
	var out []string
	for i, m := range t.meta {
		if m.lost {
			out = append(out, tableOf[i].name)
		}
	}
	if b := t.Index(); b != nil {
		for i := range b.tabs {
			if b.tabs[i].lost {
				out = append(out, postNames[i])
			}
		}
		for i := range b.links {
			if b.links[i].lost {
				out = append(out, linkNames[i])
			}
		}
	}
	return out
}

// Origin returns the origin with the given ref from the project's index.
func (t *Tables) Origin(ref uint32) []byte { return t.index.Origin(ref) }
