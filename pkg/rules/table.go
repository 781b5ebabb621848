package rules

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Store is where signals are kept: a part of the caller's fold, one for each
// partition. *stage.State is one.
type Store interface {
	Get(key []byte) (value []byte, ok bool, err error)
	Set(key, value []byte) error
	// DropPrefix removes every key that begins with prefix, and DropRange those
	// from from to before to.
	DropPrefix(prefix []byte) error
	DropRange(from, to []byte) error
	// Scan calls fn for every key that begins with prefix, in order.
	Scan(prefix []byte, fn func(key, value []byte) (more bool, err error)) error
	// Memo is a place for what was made of the values and may be made of them
	// again. It is empty whenever keys were changed by others than who uses it,
	// or changes were taken back.
	Memo() *any
}

// tableID names a table of signals. A table is bounded for each project: its
// keys live in two generations, and when the younger one has grown to half of
// the bound the elder one is dropped and the younger one takes its place. A key
// that is used moves into the younger one. What falls out is so among the least
// recently used half, at the cost of one counter.
type tableID byte

// maxTables is how many tables there may be.
const maxTables = 16

// tableOf are the registered tables, by their id.
var tableOf [maxTables]struct {
	name  string
	bound uint32 // keys of one project
}

// numTables is the highest id of a table, plus one.
var numTables int

// newTable registers a table. The id is part of the keys in the store and stays
// what it is; bound is how many keys of one project the table holds.
func newTable(id tableID, name string, bound uint32) tableID {
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
	lost  bool // keys have fallen out
	count uint32
	elder uint32 // keys of the elder generation
}

// tables is the state of one project's signals during one evaluation.
type tables struct {
	st      Store
	project string
	meta    [maxTables]tableMeta
	opened  bool
	dirty   bool
	posts   *book // nil until something is looked up in it
	err     error // the store's first; it ends the evaluation
	buf     []byte
	scratch []byte // memory for buf
	name    []byte // memory for a key of a table
	apart   []byte // and for one of none
	value   []byte // memory for values, see take
	text    []byte // memory for a text
	words   []uint32
	last    lookup
}

// lookup is what get found last: put, which mostly follows it, need not look
// again.
type lookup struct {
	id    tableID
	some  bool // there was one, and its key is in buf still
	young bool // the key is in the younger generation
}

const metaSize = 10

// metaKey is valid until the next key of the like is made.
func (t *tables) metaKey() []byte {
	t.apart = append(append(t.apart[:0], 'm'), t.project...)
	return t.apart
}

// openTables reads nothing yet: the first look-up does.
func openTables(st Store, project string) *tables { return &tables{st: st, project: project} }

// reset is openTables in memory that was used before.
func (t *tables) reset(st Store, project string) {
	*t = tables{st: st, project: project, scratch: t.scratch, name: t.name, apart: t.apart, value: t.value, text: t.text, words: t.words}
}

// open reads how far the tables are filled.
func (t *tables) open() {
	t.opened = true
	if t.err != nil {
		return
	}
	b, ok, err := t.st.Get(t.metaKey())
	if err != nil || !ok {
		t.err = err
		return
	}
	if len(b)%metaSize != 0 || len(b)/metaSize > numTables {
		t.err = fmt.Errorf("the signals of project %s are unreadable: remove the state folder, it is rebuilt from the ledger", t.project)
		return
	}
	for i := range t.meta[:len(b)/metaSize] {
		m := b[i*metaSize:]
		t.meta[i] = tableMeta{gen: m[0], lost: m[1] != 0, count: binary.BigEndian.Uint32(m[2:]), elder: binary.BigEndian.Uint32(m[6:])}
	}
}

// take is memory to make a value in, and give says where it has grown to. Stores
// copy what they are given.
func (t *tables) take() []byte { return t.value[:0] }

func (t *tables) give(v []byte) []byte {
	t.value = v
	return v
}

// book is nil once the store has failed.
func (t *tables) book() *book {
	if t.posts == nil && t.err == nil {
		t.posts, t.err = openBook(t.st, t.project)
	}
	if t.err != nil {
		return nil
	}
	return t.posts
}

// find looks a hash up in a posting table.
func (t *tables) find(id postID, h uint64) (ref uint32, ok bool) {
	if b := t.book(); b != nil {
		return b.get(id, h)
	}
	return 0, false
}

func (t *tables) close() error {
	if t.err == nil && t.posts != nil {
		if t.err = t.posts.close(t); t.err == nil {
			t.posts.shelve(t.st)
		}
	}
	if t.err != nil {
		forgetBook(t.st, t.project) // it may say what the store does not
		return t.err
	}
	if !t.dirty {
		return nil
	}
	b := t.take()
	for _, m := range t.meta[:numTables] {
		lost := byte(0)
		if m.lost {
			lost = 1
		}
		b = append(b, m.gen, lost)
		b = binary.BigEndian.AppendUint32(b, m.count)
		b = binary.BigEndian.AppendUint32(b, m.elder)
	}
	return t.st.Set(t.metaKey(), t.give(b))
}

// key is valid until the next call. All keys of a project begin alike, but for
// table and generation.
func (t *tables) key(id tableID, gen byte, k []byte) []byte {
	if t.buf == nil {
		t.buf = append(append(append(t.scratch[:0], 's', 0, 0), t.project...), 0)
	}
	t.buf = append(t.buf[:len(t.project)+4], k...)
	t.scratch = t.buf
	t.buf[1], t.buf[2] = byte(id), gen
	return t.buf
}

// named is the key of a text, hashed and numbered those of numbers, valid until the
// next of them is made.
func (t *tables) named(parts ...string) []byte {
	t.name = t.name[:0]
	for _, p := range parts {
		t.name = append(t.name, p...)
	}
	return t.name
}

func (t *tables) hashed(h uint64) []byte {
	t.name = binary.BigEndian.AppendUint64(t.name[:0], h)
	return t.name
}

func (t *tables) numbered(h uint32) []byte {
	t.name = binary.BigEndian.AppendUint32(t.name[:0], h)
	return t.name
}

// get returns a value, or nil. What it finds among the elder keys it moves.
func (t *tables) get(id tableID, k []byte) []byte {
	if !t.opened {
		t.open()
	}
	if t.err != nil {
		return nil
	}
	m := &t.meta[id]
	b, ok, err := t.st.Get(t.key(id, m.gen, k))
	young := ok
	if err == nil && !ok && m.elder > 0 {
		if b, ok, err = t.st.Get(t.key(id, m.gen-1, k)); ok && err == nil {
			t.set(id, k, b, false)
			young = true
		}
	}
	t.last = lookup{id, true, young}
	if t.err == nil {
		t.err = err
	}
	if !ok {
		return nil
	}
	return b
}

func (t *tables) put(id tableID, k, v []byte) {
	if !t.opened {
		t.open()
	}
	if t.err != nil {
		return
	}
	if l := &t.last; l.some && l.id == id && bytes.Equal(t.buf[len(t.project)+4:], k) {
		t.set(id, k, v, l.young)
		return
	}
	_, ok, err := t.st.Get(t.key(id, t.meta[id].gen, k))
	if err != nil {
		t.err = err
		return
	}
	t.set(id, k, v, ok)
}

// set is put of a key of which it is known whether the younger generation has
// it.
func (t *tables) set(id tableID, k, v []byte, known bool) {
	if t.err != nil {
		return
	}
	t.last.some = false
	m := &t.meta[id]
	if !known {
		if m.count >= tableOf[id].bound/2 {
			if t.err = t.st.DropPrefix(t.key(id, m.gen-1, nil)); t.err != nil {
				return
			}
			m.lost = m.lost || m.elder > 0
			m.gen, m.elder, m.count = m.gen+1, m.count, 0
		}
		m.count++
		t.dirty = true
	}
	t.err = t.st.Set(t.key(id, m.gen, k), v)
}

// partial names the tables out of which keys have fallen.
func (t *tables) partial() []string {
	if !t.opened {
		t.open()
	}
	var out []string
	for i, m := range t.meta {
		if m.lost {
			out = append(out, tableOf[i].name)
		}
	}
	if b := t.book(); b != nil {
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
