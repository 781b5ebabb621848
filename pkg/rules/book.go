package rules

import (
	"encoding/binary"
	"fmt"

	"lazaret/pkg/intent"
)

// A book is what is looked up by hash of a project's signals: which content was
// the first to bring a phrase, a fingerprint band, a carrier or a piece. Two
// dozen of those come with each KiB, so they are not keys of the store. The store
// has one record for each entry that brought something new, and the book, which
// is in memory, is made of the records again whenever it is not there.
//
// A record is a list of groups: a head, which says whose content it was, and the
// hashes that lead to it from then on. Each posting table is bounded as the others
// are, by two generations; they change between two records, and records that only
// older generations need are dropped. What is met among the elder is moved: it
// stands in the newest record again, with its head.
type book struct {
	project string
	next    uint32 // number of the record that is being made
	floor   uint32 // of the first one that is kept
	tabs    [numPosts]posting
	heads   []uint32 // where a head begins in text, by ref
	text    []byte   // heads, each with its length before it
	kept    int      // heads after the last compaction
	groups  []group  // of the record that is being made
	links   [numLinks]links
	runs    []run    // of the record that is being made
	moving  []uint32 // scratch
	keys    []uint64 // scratch
	dirty   bool     // the generations changed
	used    uint64   // when the book was opened last, as the shelf counts
	counted int      // of the shelf's size
}

// postID names a posting table.
type postID byte

const (
	postPhrases postID = iota
	postBands
	postCarriers
	postPieces
	numPosts
)

var postNames = [numPosts]string{"phrases", "bands", "carriers", "pieces"}

// postBounds is how many hashes of one project a table holds. A record is never
// split, so that there may be those of one entry more.
var postBounds = [numPosts]int{100_000, 100_000, 100_000, 100_000}

// posting is one table: hash → ref, the number of a head.
type posting struct {
	young, elder hashes
	// stems are, by the first bytes of pieces, how long those are that begin so, and
	// sieves say of most texts that they are no piece.
	youngStems, elderStems map[uint32]uint64
	youngSieve, elderSieve sieve
	generations
}

// generations is which records two of them are made of.
type generations struct {
	from, since uint32 // first record of the elder and of the younger generation
	lost        bool   // hashes have fallen out
}

// generations are those of all tables, in the order in which they are kept.
func (b *book) generations() []*generations {
	var out []*generations
	for i := range b.tabs {
		out = append(out, &b.tabs[i].generations)
	}
	for i := range b.links {
		out = append(out, &b.links[i].generations)
	}
	return out
}

// group is a head and what leads to it.
type group struct {
	ref    uint32
	of     uint32 // the ref that its head was copied from, or ref
	lists  [numLists][]uint64
	pieces []string
}

// The lists of hashes of a group. Carriers that the user named are a list of
// their own, and a flag of the ref.
const (
	listPhrases = iota
	listBands
	listCarriers
	listNamed
	numLists
)

const (
	refNamed   = 1 << 31 // the user has named the carrier, too
	maxRef     = 1 << 30
	recordSize = 1 << 20 // no record is longer
)

// shelf is the books of a store that are in memory. What lies on it can be made
// anew of the store at any time.
type shelf struct {
	books map[string]*book
	opens uint64
	size  int
}

// shelfSize is how much of one store's books is kept in memory, in bytes. A
// project whose tables are full by what a KiB brings takes 5.6 MiB, and some 30 ms
// of CPU to be read again (BenchmarkReadBook).
const shelfSize = 32 << 20

func recordKey(buf []byte, project string, n uint32) []byte {
	k := append(append(append(buf, 'l'), project...), 0)
	return binary.BigEndian.AppendUint32(k, n)
}

func bookKey(buf []byte, project string) []byte { return append(append(buf, 'b'), project...) }

// openBook returns the book of a project.
func openBook(st Store, project string) (*book, error) {
	memo := st.Memo()
	sh, ok := (*memo).(*shelf)
	if !ok {
		sh = &shelf{books: make(map[string]*book)}
		*memo = sh
	}
	sh.opens++
	b := sh.books[project]
	if b == nil {
		var err error
		if b, err = readBook(st, project); err != nil {
			return nil, err
		}
		sh.books[project] = b
	}
	b.used = sh.opens
	b.turn()
	return b, nil
}

// forgetBook takes a book off the shelf, after an error.
func forgetBook(st Store, project string) {
	if sh, ok := (*st.Memo()).(*shelf); ok {
		if b := sh.books[project]; b != nil {
			sh.size -= b.counted
			delete(sh.books, project)
		}
	}
}

// readBook makes a book of its records.
func readBook(st Store, project string) (*book, error) {
	b := &book{project: project}
	bad := fmt.Errorf("the signals of project %s are unreadable: remove the state folder, it is rebuilt from the ledger", project)
	v, ok, err := st.Get(bookKey(nil, project))
	if err != nil {
		return nil, err
	}
	if ok {
		d := dec(v)
		b.next, b.floor = uint32(d.num()), uint32(d.num())
		for _, g := range b.generations() {
			g.from, g.since, g.lost = uint32(d.num()), uint32(d.num()), d.num() == 1
		}
	}
	prefix := recordKey(nil, project, 0)
	prefix = prefix[:len(prefix)-4]
	err = st.Scan(prefix, func(k, v []byte) (bool, error) {
		if len(k) != len(prefix)+4 {
			return false, bad
		}
		n := binary.BigEndian.Uint32(k[len(prefix):])
		b.next = max(b.next, n+1)
		b.compact()
		return true, b.load(n, v, bad)
	})
	return b, err
}

// load takes in a record.
func (b *book) load(n uint32, v []byte, bad error) error {
	d := dec(v)
	for range min(d.num(), recordSize) {
		head := d.raw()
		if head == nil {
			return bad
		}
		ref := b.addHead(head)
		for l := range numLists {
			hs := d.raw()
			p := &b.tabs[postOf(l)]
			if n < p.from {
				continue
			}
			gen := &p.young
			if n < p.since {
				gen = &p.elder
			}
			to := ref
			if l == listNamed {
				to |= refNamed
			}
			for ; len(hs) >= 8; hs = hs[8:] {
				gen.put(binary.BigEndian.Uint64(hs), to)
			}
		}
		for range min(d.num(), recordSize) {
			s := d.raw()
			p := &b.tabs[postPieces]
			if n < p.from || len(s) < minPiece {
				continue
			}
			p.putPiece(n >= p.since, string(s), hash64(string(s)), ref)
		}
	}
	return b.loadRuns(n, &d, bad)
}

func postOf(list int) postID {
	switch list {
	case listPhrases:
		return postPhrases
	case listBands:
		return postBands
	}
	return postCarriers
}

// addHead keeps a head and returns its ref.
func (b *book) addHead(head []byte) uint32 {
	ref := uint32(len(b.heads))
	b.heads = append(b.heads, uint32(len(b.text)))
	b.text = append(binary.AppendUvarint(b.text, uint64(len(head))), head...)
	return ref
}

// head is what a ref leads to, valid until the book changes.
func (b *book) head(ref uint32) []byte {
	d := dec(b.text[b.heads[ref&^refNamed]:])
	return d.raw()
}

// warm is about to look hashes up.
func (b *book) warm(id postID, hs []uint64) { b.tabs[id].young.warm(hs) }

// get looks a hash up.
func (b *book) get(id postID, h uint64) (ref uint32, ok bool) {
	p := &b.tabs[id]
	if ref, ok = p.young.get(h); ok {
		return ref, true
	}
	if p.elder.n == 0 {
		return 0, false
	}
	if ref, ok = p.elder.get(h); ok && id != postPieces {
		ref = b.put(id, h, ref)
	}
	return ref, ok
}

// put lets a hash lead to a head, or to the copy of it that the record has, and
// returns which.
func (b *book) put(id postID, h uint64, ref uint32) uint32 {
	g := b.group(ref)
	ref = g.ref | ref&refNamed
	list := listPhrases
	switch {
	case id == postBands:
		list = listBands
	case id == postCarriers && ref&refNamed != 0:
		list = listNamed
	case id == postCarriers:
		list = listCarriers
	}
	g.lists[list] = append(g.lists[list], h)
	b.tabs[id].young.put(h, ref)
	return ref
}

// group is the group of the record that is being made with a head. A head of an
// earlier record is copied, because that record may be dropped before this one.
func (b *book) group(ref uint32) *group {
	ref &^= refNamed
	for i := len(b.groups) - 1; i >= 0; i-- {
		if g := &b.groups[i]; g.ref == ref || g.of == ref {
			return g
		}
	}
	return b.newGroup(b.head(ref), ref)
}

// newGroup begins a group. of is what the head is a copy of, or maxRef.
func (b *book) newGroup(head []byte, of uint32) *group {
	ref := b.addHead(head)
	if n := len(b.groups); n < cap(b.groups) {
		// The lists of an earlier record serve again.
		b.groups = b.groups[:n+1]
		g := &b.groups[n]
		for i := range g.lists {
			g.lists[i] = g.lists[i][:0]
		}
		g.ref, g.of, g.pieces = ref, of, g.pieces[:0]
	} else {
		b.groups = append(b.groups, group{ref: ref, of: of})
	}
	return &b.groups[len(b.groups)-1]
}

func stemOf(s string) uint32 {
	return uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3])
}

// piece looks a piece up, of minPiece bytes or more.
func (b *book) piece(s string, h uint64) (ref uint32, ok bool) {
	p := &b.tabs[postPieces]
	if ref, ok = p.young.get(h); ok || p.elder.n == 0 {
		return ref, ok
	}
	if ref, ok = p.elder.get(h); ok {
		ref = b.putPiece(s, h, ref)
	}
	return ref, ok
}

func (b *book) hasPiece(s string, h uint64) bool {
	_, ok := b.piece(s, h)
	return ok
}

func (b *book) putPiece(s string, h uint64, ref uint32) uint32 {
	g := b.group(ref)
	g.pieces = append(g.pieces, s)
	b.tabs[postPieces].putPiece(true, s, h, g.ref)
	return g.ref
}

func (p *posting) putPiece(young bool, s string, h uint64, ref uint32) {
	gen, stems, sieve := &p.young, &p.youngStems, &p.youngSieve
	if !young {
		gen, stems, sieve = &p.elder, &p.elderStems, &p.elderSieve
	}
	gen.put(h, ref)
	sieve.add(intent.Hash(s))
	if *stems == nil {
		*stems = make(map[uint32]uint64)
	}
	(*stems)[stemOf(s)] |= pieceBit(len(s))
}

// lengths says which lengths the pieces have that v may begin with.
func (b *book) lengths(v string) uint64 {
	p := &b.tabs[postPieces]
	some := p.youngStems[stemOf(v)] | p.elderStems[stemOf(v)]
	if some == 0 {
		return 0
	}
	out, h := uint64(0), uint32(intent.FNVBasis)
	for i := range min(len(v), maxPiece) {
		h = (h ^ uint32(v[i])) * intent.FNVPrime
		if n := i + 1; n >= minPiece && some&pieceBit(n) != 0 && (p.youngSieve.may(h) || p.elderSieve.may(h)) {
			out |= pieceBit(n)
		}
	}
	return out
}

// turn ends the younger generations that are full, between two records.
func (b *book) turn() {
	turned := false
	for i := range b.tabs {
		p := &b.tabs[i]
		if p.young.n < postBounds[i]/2 {
			continue
		}
		p.lost = p.lost || p.elder.n > 0
		p.elder, p.elderStems, p.elderSieve = p.young, p.youngStems, p.youngSieve
		p.young, p.youngStems, p.youngSieve = hashes{}, nil, sieve{}
		p.from, p.since = p.since, b.next
		turned = true
	}
	turned = b.turnLinks() || turned
	b.dirty = b.dirty || turned
	b.compact()
}

// minHeads is how many heads a book has at least when it lets go of some.
var minHeads = 1 << 15

// compact lets go of the heads that no hash leads to any more, once they may be
// half of all, and numbers the others anew: one table may be full a thousand times
// while another keeps a hash of the first record. It changes nothing of what is
// found, and happens between two records.
func (b *book) compact() {
	if len(b.heads) < max(minHeads, 2*b.kept) {
		return
	}
	// What leads to a head, then the numbers that heads have from now on.
	refs := make([]uint32, len(b.heads))
	gens := make([]*hashes, 0, 2*numPosts)
	for i := range b.tabs {
		gens = append(gens, &b.tabs[i].young, &b.tabs[i].elder)
	}
	for _, g := range gens {
		for i := range g.slots {
			if e := &g.slots[i]; e.used() {
				refs[e.ref&^refNamed] = 1
			}
		}
	}
	heads, size := 0, 0
	for ref, used := range refs {
		if used != 0 {
			heads++
			size += b.span(ref)
		}
	}
	old := *b
	b.heads, b.text, b.kept = make([]uint32, 0, heads+heads/2), make([]byte, 0, size+size/2), heads
	for ref := range refs {
		if refs[ref] == 0 {
			continue
		}
		refs[ref] = uint32(len(b.heads))
		b.heads = append(b.heads, uint32(len(b.text)))
		at := int(old.heads[ref])
		b.text = append(b.text, old.text[at:at+old.span(ref)]...)
	}
	for _, g := range gens {
		for i := range g.slots {
			if e := &g.slots[i]; e.used() {
				e.ref = refs[e.ref&^refNamed] | e.ref&refNamed
			}
		}
	}
}

// span is how long a head is in the text, with its length before it.
func (b *book) span(ref int) int {
	end := len(b.text)
	if ref+1 < len(b.heads) {
		end = int(b.heads[ref+1])
	}
	return end - int(b.heads[ref])
}

// close writes what is new.
func (b *book) close(t *tables) error {
	st := t.st
	if b.dirty {
		b.dirty = false
		floor := b.next
		for i := range b.tabs {
			floor = min(floor, b.tabs[i].from)
		}
		for i := range b.links {
			if p := &b.links[i]; p.young.last.n+p.elder.last.n > 0 {
				floor = min(floor, p.from)
			}
		}
		if floor > b.floor {
			if err := st.DropRange(recordKey(nil, b.project, b.floor), recordKey(nil, b.project, floor)); err != nil {
				return err
			}
			b.floor = floor
		}
		var e enc
		e.num(uint64(b.next))
		e.num(uint64(b.floor))
		for _, g := range b.generations() {
			lost := uint64(0)
			if g.lost {
				lost = 1
			}
			e.num(uint64(g.from))
			e.num(uint64(g.since))
			e.num(lost)
		}
		if err := st.Set(bookKey(nil, b.project), e); err != nil {
			return err
		}
	}
	if len(b.groups)+len(b.runs) == 0 {
		return nil
	}
	e := enc(t.take())
	e.num(uint64(len(b.groups)))
	for i := range b.groups {
		g := &b.groups[i]
		e.bytes(b.head(g.ref))
		for _, hs := range g.lists {
			e = e.longs(hs)
		}
		e.num(uint64(len(g.pieces)))
		for _, s := range g.pieces {
			e.str(s)
		}
	}
	b.groups = b.groups[:0]
	e = b.writeRuns(e)
	t.apart = recordKey(t.apart[:0], b.project, b.next)
	err := st.Set(t.apart, t.give(e))
	b.next++
	return err
}

// size is about what the book takes in memory.
func (b *book) size() int {
	n := cap(b.text) + 4*cap(b.heads)
	for i := range b.tabs {
		p := &b.tabs[i]
		n += 12*(len(p.young.slots)+len(p.elder.slots)) + 40*(len(p.youngStems)+len(p.elderStems)) + p.youngSieve.size() + p.elderSieve.size()
	}
	for i := range b.links {
		n += b.links[i].young.size() + b.links[i].elder.size()
	}
	return n
}

// shelve counts a book after it was used, and takes those off the shelf that were
// used longest ago, if there is too much on it.
func (b *book) shelve(st Store) {
	sh, ok := (*st.Memo()).(*shelf)
	if !ok || sh.books[b.project] != b {
		return
	}
	n := b.size()
	sh.size += n - b.counted
	b.counted = n
	for sh.size > shelfSize && len(sh.books) > 1 {
		var least *book
		for _, o := range sh.books {
			if o != b && (least == nil || o.used < least.used) {
				least = o
			}
		}
		sh.size -= least.counted
		delete(sh.books, least.project)
	}
	if len(b.heads) > maxRef || len(b.text) > 1<<30 {
		sh.size -= b.counted
		delete(sh.books, b.project) // and numbers begin anew
	}
}
