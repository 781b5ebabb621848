package rules

import "slices"

// literals finds which of many literals stand in a text, ignoring ASCII case,
// in one pass. Each literal is known by its rarest window of four bytes (three
// for the shortest): a bitmap of a few KiB, which stays in the cache however
// many literals there are, says of nearly every position that no literal is
// there, and what is left is looked up and compared.
//
// An Aho–Corasick automaton of ten thousand literals has some 200,000 states
// and misses the cache at every byte; see docs/decisions/0009.
type literals struct {
	four, three grams
	lits        []literal
}

type literal struct {
	text string // lower case
	atom int32
}

// grams is an index of windows of one size.
type grams struct {
	shift  uint
	bits   []uint64
	slots  []gramSlot // open addressing, a power of two
	places []place    // by slot
	n      int
}

type gramSlot struct {
	gram        uint32
	start, size int32 // in places; size 0: free
}

// place is where in a literal its window stands.
type place struct{ lit, off int32 }

const gramHash = 0x9E3779B1

func (g *grams) slot(gram uint32) uint32 { return gram * gramHash >> g.shift }

var lowerByte = func() (t [256]byte) {
	for c := range t {
		t[c] = byte(c)
		if c >= 'A' && c <= 'Z' {
			t[c] = byte(c) + 'a' - 'A'
		}
	}
	return t
}()

func gramAt(s string, i, size int) (g uint32) {
	for _, c := range []byte(s[i : i+size]) {
		g = g<<8 | uint32(c)
	}
	return g
}

// newLiterals indexes literals of minLiteral bytes or more, in lower case.
func newLiterals(lits []literal) *literals {
	l := &literals{lits: lits}
	use := make(map[uint32]int)
	for _, lit := range lits {
		for i := 0; i+4 <= len(lit.text); i++ {
			use[gramAt(lit.text, i, 4)]++
		}
	}
	four, three := make(map[uint32][]place), make(map[uint32][]place)
	for n, lit := range lits {
		if len(lit.text) < 4 {
			g := gramAt(lit.text, 0, 3)
			three[g] = append(three[g], place{int32(n), 0})
			continue
		}
		best := 0
		for i := 1; i+4 <= len(lit.text); i++ {
			if use[gramAt(lit.text, i, 4)] < use[gramAt(lit.text, best, 4)] {
				best = i
			}
		}
		g := gramAt(lit.text, best, 4)
		four[g] = append(four[g], place{int32(n), int32(best)})
	}
	l.four, l.three = newGrams(four), newGrams(three)
	return l
}

func newGrams(m map[uint32][]place) grams {
	g := grams{n: len(m)}
	if g.n == 0 {
		return g
	}
	size := uint(6)
	for 1<<size < 4*len(m) {
		size++
	}
	g.shift = 32 - size
	g.slots = make([]gramSlot, 1<<size)
	// Eight bits a window in the bitmap, no less than 4 KiB.
	g.bits = make([]uint64, max(512, len(g.slots)/32))
	var keys []uint32
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		i := g.slot(k)
		for g.slots[i].size > 0 {
			i = (i + 1) & uint32(len(g.slots)-1)
		}
		g.slots[i] = gramSlot{k, int32(len(g.places)), int32(len(m[k]))}
		g.places = append(g.places, m[k]...)
		b := g.bit(k)
		g.bits[b>>6] |= 1 << (b & 63)
	}
	return g
}

// bit is the place of a window in the bitmap.
func (g *grams) bit(gram uint32) uint32 {
	return (gram * 0x85EBCA6B >> 7) & uint32(len(g.bits)*64-1)
}

func (g *grams) find(gram uint32) []place {
	b := g.bit(gram)
	if g.bits[b>>6]&(1<<(b&63)) == 0 {
		return nil
	}
	for i := g.slot(gram); g.slots[i].size > 0; i = (i + 1) & uint32(len(g.slots)-1) {
		if s := g.slots[i]; s.gram == gram {
			return g.places[s.start : s.start+s.size]
		}
	}
	return nil
}

// scan calls hit for the atom of each literal in the text, perhaps repeatedly.
// skip says which need no second look.
func (l *literals) scan(s string, skip func(atom int32) bool, hit func(atom int32)) {
	var w uint32
	four, three := l.four.n > 0, l.three.n > 0
	for i := range len(s) {
		w = w<<8 | uint32(lowerByte[s[i]])
		if four && i >= 3 {
			for _, p := range l.four.find(w) {
				l.verify(s, i-3, p, skip, hit)
			}
		}
		if three && i >= 2 {
			for _, p := range l.three.find(w & 0xFFFFFF) {
				l.verify(s, i-2, p, skip, hit)
			}
		}
	}
}

func (l *literals) verify(s string, at int, p place, skip func(int32) bool, hit func(int32)) {
	lit := &l.lits[p.lit]
	start := at - int(p.off)
	if start < 0 || start+len(lit.text) > len(s) || skip(lit.atom) {
		return
	}
	for i := range len(lit.text) {
		if lowerByte[s[start+i]] != lit.text[i] {
			return
		}
	}
	hit(lit.atom)
}
