package index

import (
	"encoding/binary"
	"fmt"
	"slices"

	"lazaret/pkg/intent"
)

// Index maps a hash to the content of a project that was the first to bring a phrase, a fingerprint band, a carrier or
// a piece. Each KiB of content brings about two dozen of these, too many for separate keys in the store. So the store
// has only one record for each ledger entry that brought something new. The Index is in memory, and is rebuilt from the
// records when needed.
//
// A record is a list of postings. A posting has an origin, which identifies the content, and the hashes that map to it.
// Each posting table has two generations, which change only between records. Records that no generation needs any more
// are removed. If a hash is found in the elder generation, it is written to the newest record again, with its origin.
type Index struct {
	project  string
	next     uint32 // number of the current record
	floor    uint32 // number of the first record in the store
	tabs     [numPosts]postingTable
	origins  []uint32  // offset of each origin in text, by ref
	text     []byte    // origins, each after its length
	kept     int       // number of origins after the last compaction
	postings []posting // postings of the current record
	links    [numLinks]links
	runs     []run    // runs of the current record
	moving   []uint32 // scratch
	keys     []uint64 // scratch
	dirty    bool     // the generations changed
	used     uint64   // value of the cache's counter when the index was last opened
	counted  int      // bytes counted in the cache's size
}

// postID identifies a posting table.
type postID byte

// The posting tables, by the kind of hash.
const (
	PostPhrases postID = iota
	PostBands
	PostCarriers
	PostPieces
	numPosts
)

var postNames = [numPosts]string{"phrases", "bands", "carriers", "pieces"}

// postingTable maps a hash to a ref, the number of an origin. It has two generations, young and elder; see generations.
type postingTable struct {
	young, elder hashTable
	// A piece is a part of a value that an agent may put together again. The stems map the first bytes of pieces to a bit
	// set of the lengths of the pieces that begin so. The sieves rule out most texts that are no pieces.
	youngStems, elderStems map[uint32]uint64
	youngSieve, elderSieve sieve
	generations
}

// generations says from which record on the elder and the younger generation of a table need the records.
type generations struct {
	from, since uint32 // first record of the elder and of the younger generation
	lost        bool   // hashes were dropped
}

// generations returns the generations of all tables, in the order in which they are stored.
func (b *Index) generations() []*generations {
	var out []*generations
	for i := range b.tabs {
		out = append(out, &b.tabs[i].generations)
	}
	for i := range b.links {
		out = append(out, &b.links[i].generations)
	}
	return out
}

// posting is an origin and the hashes that map to it.
type posting struct {
	Ref    uint32
	of     uint32 // the ref of the origin of which this one is a copy, or Ref if it is no copy
	lists  [numLists][]uint64
	pieces []string
}

// The lists of hashes of a posting. Carriers that the user named have a list of their own, because their refs have the
// flag NamedByUser.
const (
	listPhrases = iota
	listBands
	listCarriers
	listNamed
	numLists
)

// NamedByUser is a flag in a ref to the origin of a carrier. It says that the user named the carrier too.
const NamedByUser = 1 << 31

// MaxRef is an upper bound of refs. NewPosting gets it as `of` if the origin is not a copy.
const (
	MaxRef     = 1 << 30
	recordSize = 1 << 20 // maximum number of postings in a record
)

// cache has those indexes of a store that are in memory. Each can be rebuilt from the store at any time.
type cache struct {
	indexes map[string]*Index
	last    *Index // the index that was opened last, if it is still in indexes; else nil
	opens   uint64
	size    int
}

// cacheSize is the maximum size of the cached indexes of one store, in bytes. The index of a
// project with full tables takes 5.6 MiB, and about 30 ms of CPU time to load (BenchmarkReadBook).
const cacheSize = 32 << 20

func recordKey(buf []byte, project string, n uint32) []byte {
	k := append(append(append(buf, 'l'), project...), 0)
	return binary.BigEndian.AppendUint32(k, n)
}

func indexKey(buf []byte, project string) []byte { return append(append(buf, 'b'), project...) }

// openIndex returns the index of a project. If the index is not in memory, it is rebuilt from the store.
func openIndex(st Store, project string) (*Index, error) {
	memo := st.Memo()
	sh, ok := (*memo).(*cache)
	if !ok {
		sh = &cache{indexes: make(map[string]*Index)}
		*memo = sh
	}
	sh.opens++
	b := sh.of(project)
	if b == nil {
		var err error
		if b, err = loadIndex(st, project); err != nil {
			return nil, err
		}
		sh.indexes[project] = b
	}
	b.used, sh.last = sh.opens, b
	b.turn()
	return b, nil
}

// of returns the index of a project, if it is in the cache, and otherwise nil.
func (sh *cache) of(project string) *Index {
	if b := sh.last; b != nil && b.project == project {
		return b
	}
	return sh.indexes[project]
}

// drop removes an index.
func (sh *cache) drop(b *Index) {
	sh.size -= b.counted
	delete(sh.indexes, b.project)
	if sh.last == b {
		sh.last = nil
	}
}

// forgetIndex removes an index from the cache, because an error may have left it wrong.
func forgetIndex(st Store, project string) {
	if sh, ok := (*st.Memo()).(*cache); ok {
		if b := sh.of(project); b != nil {
			sh.drop(b)
		}
	}
}

// loadIndex rebuilds an index from its records.
func loadIndex(st Store, project string) (*Index, error) {
	b := &Index{project: project}
	v, ok, err := st.Get(indexKey(nil, project))
	if err != nil {
		return nil, err
	}
	if ok {
		d := Decoder(v)
		b.next, b.floor = uint32(d.Num()), uint32(d.Num())
		for _, g := range b.generations() {
			g.from, g.since, g.lost = uint32(d.Num()), uint32(d.Num()), d.Num() == 1
		}
	}
	prefix := recordKey(nil, project, 0)
	prefix = prefix[:len(prefix)-4]
	err = st.Scan(prefix, func(k, v []byte) (bool, error) {
		if len(k) != len(prefix)+4 {
			return false, unreadable(project)
		}
		n := binary.BigEndian.Uint32(k[len(prefix):])
		b.next = max(b.next, n+1)
		b.compact()
		return true, b.load(n, v)
	})
	return b, err
}

func unreadable(project string) error {
	return fmt.Errorf("the signals of project %s are unreadable: remove the state folder, it is rebuilt from the ledger",
		project)
}

// load adds a record.
func (b *Index) load(n uint32, v []byte) error {
	d := Decoder(v)
	for range min(d.Num(), recordSize) {
		head := d.Raw()
		if head == nil {
			return unreadable(b.project)
		}
		ref := b.addOrigin(head)
		for l := range numLists {
			hs := d.Raw()
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
				to |= NamedByUser
			}
			for ; len(hs) >= 8; hs = hs[8:] {
				gen.put(binary.BigEndian.Uint64(hs), to)
			}
		}
		for range min(d.Num(), recordSize) {
			s := d.Raw()
			p := &b.tabs[PostPieces]
			if n < p.from || len(s) < MinPiece {
				continue
			}
			p.putPiece(n >= p.since, string(s), Hash(string(s)), ref)
		}
	}
	return b.loadRuns(n, &d)
}

func postOf(list int) postID {
	switch list {
	case listPhrases:
		return PostPhrases
	case listBands:
		return PostBands
	}
	return PostCarriers
}

// addOrigin stores an origin and returns its ref.
func (b *Index) addOrigin(head []byte) uint32 {
	ref := uint32(len(b.origins))
	b.origins = append(b.origins, uint32(len(b.text)))
	b.text = append(binary.AppendUvarint(b.text, uint64(len(head))), head...)
	return ref
}

// Origin returns the origin of a ref. The result is valid until the index changes.
func (b *Index) Origin(ref uint32) []byte {
	d := Decoder(b.text[b.origins[ref&^NamedByUser]:])
	return d.Raw()
}

// Prefetch loads the slots of hashes into the processor's cache. Call it before you look these hashes up.
func (b *Index) Prefetch(id postID, hs []uint64) { b.tabs[id].young.prefetch(hs) }

// Get returns the ref of a hash.
func (b *Index) Get(id postID, h uint64) (ref uint32, ok bool) {
	p := &b.tabs[id]
	if ref, ok = p.young.get(h); ok {
		return ref, true
	}
	if p.elder.count == 0 {
		return 0, false
	}
	if ref, ok = p.elder.get(h); ok && id != PostPieces {
		ref = b.Put(id, h, ref)
	}
	return ref, ok
}

// Put maps a hash to an origin, which is the content in which the hash first occurred (see posting). If the origin with
// this ref is not in the current record, Put copies it there. It returns the ref of the copy.
func (b *Index) Put(id postID, h uint64, ref uint32) uint32 {
	g := b.posting(ref)
	ref = g.Ref | ref&NamedByUser
	list := listPhrases
	switch {
	case id == PostBands:
		list = listBands
	case id == PostCarriers && ref&NamedByUser != 0:
		list = listNamed
	case id == PostCarriers:
		list = listCarriers
	}
	g.lists[list] = append(g.lists[list], h)
	b.tabs[id].young.put(h, ref)
	return ref
}

// Replace maps a carrier to another origin. It first removes the carrier from the postings of the current record.
// Otherwise the carrier might be in two postings of one record. When the record is loaded, the last of the two counts,
// and this need not be the new one.
func (b *Index) Replace(h uint64, ref uint32) uint32 {
	for i := range b.postings {
		for _, list := range [...]int{listCarriers, listNamed} {
			hs := &b.postings[i].lists[list]
			*hs = slices.DeleteFunc(*hs, func(x uint64) bool { return x == h })
		}
	}
	return b.Put(PostCarriers, h, ref)
}

// posting returns the posting of an origin in the current record. If the origin is in an earlier record, it is copied,
// because the earlier record may be dropped before this one.
func (b *Index) posting(ref uint32) *posting {
	ref &^= NamedByUser
	for i := len(b.postings) - 1; i >= 0; i-- {
		if g := &b.postings[i]; g.Ref == ref || g.of == ref {
			return g
		}
	}
	return b.NewPosting(b.Origin(ref), ref)
}

// NewPosting adds a posting. head is its encoded origin. of is the ref of the origin of which it is a copy, or MaxRef.
func (b *Index) NewPosting(head []byte, of uint32) *posting {
	ref := b.addOrigin(head)
	if n := len(b.postings); n < cap(b.postings) {
		// Reuse the memory of the lists.
		b.postings = b.postings[:n+1]
		g := &b.postings[n]
		for i := range g.lists {
			g.lists[i] = g.lists[i][:0]
		}
		g.Ref, g.of, g.pieces = ref, of, g.pieces[:0]
	} else {
		b.postings = append(b.postings, posting{Ref: ref, of: of})
	}
	return &b.postings[len(b.postings)-1]
}

func stemOf(s string) uint32 {
	return uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3])
}

// Piece returns the ref of a piece. s must have at least MinPiece bytes, and h is its hash. If the index lacks the
// piece, ok is false.
func (b *Index) Piece(s string, h uint64) (ref uint32, ok bool) {
	p := &b.tabs[PostPieces]
	if ref, ok = p.young.get(h); ok || p.elder.count == 0 {
		return ref, ok
	}
	if ref, ok = p.elder.get(h); ok {
		ref = b.PutPiece(s, h, ref)
	}
	return ref, ok
}

// HasPieces reports whether there are any pieces.
func (b *Index) HasPieces() bool {
	return b.tabs[PostPieces].young.count+b.tabs[PostPieces].elder.count > 0
}

// HasPiece reports whether a piece is known.
func (b *Index) HasPiece(s string, h uint64) bool {
	_, ok := b.Piece(s, h)
	return ok
}

// PutPiece maps a piece to an origin, as Put maps a hash.
func (b *Index) PutPiece(s string, h uint64, ref uint32) uint32 {
	g := b.posting(ref)
	g.pieces = append(g.pieces, s)
	b.tabs[PostPieces].putPiece(true, s, h, g.Ref)
	return g.Ref
}

func (p *postingTable) putPiece(young bool, s string, h uint64, ref uint32) {
	gen, stems, sieve := &p.young, &p.youngStems, &p.youngSieve
	if !young {
		gen, stems, sieve = &p.elder, &p.elderStems, &p.elderSieve
	}
	gen.put(h, ref)
	sieve.add(intent.Hash(s))
	if *stems == nil {
		*stems = make(map[uint32]uint64)
	}
	(*stems)[stemOf(s)] |= PieceBit(len(s))
}

// Lengths returns, as bits, the possible lengths of those pieces with which v begins.
func (b *Index) Lengths(v string) uint64 {
	p := &b.tabs[PostPieces]
	some := p.youngStems[stemOf(v)] | p.elderStems[stemOf(v)]
	if some == 0 {
		return 0
	}
	out, h := uint64(0), uint32(intent.FNVBasis)
	for i := range min(len(v), MaxPiece) {
		h = (h ^ uint32(v[i])) * intent.FNVPrime
		if n := i + 1; n >= MinPiece && some&PieceBit(n) != 0 && (p.youngSieve.may(h) || p.elderSieve.may(h)) {
			out |= PieceBit(n)
		}
	}
	return out
}

// turn starts a new generation in each table whose younger generation is full. It must be called between two records.
func (b *Index) turn() {
	turned := false
	for i := range b.tabs {
		p := &b.tabs[i]
		if p.young.count < limits.Postings[i]/2 {
			continue
		}
		p.lost = p.lost || p.elder.count > 0
		p.elder, p.elderStems, p.elderSieve = p.young, p.youngStems, p.youngSieve
		p.young, p.youngStems, p.youngSieve = hashTable{}, nil, sieve{}
		p.from, p.since = p.since, b.next
		turned = true
	}
	turned = b.turnLinks() || turned
	b.dirty = b.dirty || turned
	b.compact()
}

// compact removes origins to which no hash is mapped, and numbers the others anew. It does so only if such origins may
// be half of all. Lookups give the same results after it. It is needed because one table may drop many generations
// while another one still needs the first record.
func (b *Index) compact() {
	if len(b.origins) < max(limits.Origins, 2*b.kept) {
		return
	}
	// At first, an element says whether the origin is used. Later, it is the origin's new number.
	refs := make([]uint32, len(b.origins))
	gens := make([]*hashTable, 0, 2*numPosts)
	for i := range b.tabs {
		gens = append(gens, &b.tabs[i].young, &b.tabs[i].elder)
	}
	for _, g := range gens {
		for i := range g.slots {
			if e := &g.slots[i]; e.used() {
				refs[e.ref&^NamedByUser] = 1
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
	b.origins, b.text, b.kept = make([]uint32, 0, heads+heads/2), make([]byte, 0, size+size/2), heads
	for ref := range refs {
		if refs[ref] == 0 {
			continue
		}
		refs[ref] = uint32(len(b.origins))
		b.origins = append(b.origins, uint32(len(b.text)))
		at := int(old.origins[ref])
		b.text = append(b.text, old.text[at:at+old.span(ref)]...)
	}
	for _, g := range gens {
		for i := range g.slots {
			if e := &g.slots[i]; e.used() {
				e.ref = refs[e.ref&^NamedByUser] | e.ref&NamedByUser
			}
		}
	}
}

// span returns the length in Index.text of an origin with its length prefix.
func (b *Index) span(ref int) int {
	end := len(b.text)
	if ref+1 < len(b.origins) {
		end = int(b.origins[ref+1])
	}
	return end - int(b.origins[ref])
}

// close writes the current record.
func (b *Index) close(t *Tables) error {
	st := t.St
	if b.dirty {
		b.dirty = false
		floor := b.next
		for i := range b.tabs {
			floor = min(floor, b.tabs[i].from)
		}
		for i := range b.links {
			if p := &b.links[i]; p.young.last.count+p.elder.last.count > 0 {
				floor = min(floor, p.from)
			}
		}
		if floor > b.floor {
			if err := st.DropRange(recordKey(nil, b.project, b.floor), recordKey(nil, b.project, floor)); err != nil {
				return err
			}
			b.floor = floor
		}
		var e Encoder
		e.Num(uint64(b.next))
		e.Num(uint64(b.floor))
		for _, g := range b.generations() {
			lost := uint64(0)
			if g.lost {
				lost = 1
			}
			e.Num(uint64(g.from))
			e.Num(uint64(g.since))
			e.Num(lost)
		}
		if err := st.Set(indexKey(nil, b.project), e); err != nil {
			return err
		}
	}
	if len(b.postings)+len(b.runs) == 0 {
		return nil
	}
	e := Encoder(t.Take())
	e.Num(uint64(len(b.postings)))
	for i := range b.postings {
		g := &b.postings[i]
		e.Bytes(b.Origin(g.Ref))
		for _, hs := range g.lists {
			e = e.longs(hs)
		}
		e.Num(uint64(len(g.pieces)))
		for _, s := range g.pieces {
			e.Str(s)
		}
	}
	b.postings = b.postings[:0]
	e = b.writeRuns(e)
	t.apart = recordKey(t.apart[:0], b.project, b.next)
	err := st.Set(t.apart, t.Give(e))
	b.next++
	return err
}

// size returns approximately how much memory the index takes, in bytes.
func (b *Index) size() int {
	n := cap(b.text) + 4*cap(b.origins)
	for i := range b.tabs {
		p := &b.tabs[i]
		n += 12*(len(p.young.slots)+len(p.elder.slots)) + 40*(len(p.youngStems)+len(p.elderStems)) + p.youngSieve.size() +
			p.elderSieve.size()
	}
	for i := range b.links {
		n += b.links[i].young.size() + b.links[i].elder.size()
	}
	return n
}

// account updates the size of the index in the cache. If the cache is too large, account removes the indexes that were
// not used for longest.
func (b *Index) account(st Store) {
	sh, ok := (*st.Memo()).(*cache)
	if !ok || sh.of(b.project) != b {
		return
	}
	n := b.size()
	sh.size += n - b.counted
	b.counted = n
	for sh.size > cacheSize && len(sh.indexes) > 1 {
		var least *Index
		for _, o := range sh.indexes {
			if o != b && (least == nil || o.used < least.used) {
				least = o
			}
		}
		sh.drop(least)
	}
	if len(b.origins) > MaxRef || len(b.text) > 1<<30 {
		sh.drop(b) // there are no more refs; when the index is loaded again, refs are numbered from zero
	}
}
