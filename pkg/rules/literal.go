package rules

import "slices"

// literals finds which of many literals stand in a text, ignoring ASCII case,
// in one pass. Each literal is known by its rarest window of eight bytes (four or
// three for shorter ones): a filter of a few KiB, which stays in the cache however
// many literals there are, says of nearly every position that no literal is there,
// and what is left is looked up and compared. A window of eight bytes is nearly as
// rare in a text as the literal itself.
//
// An Aho–Corasick automaton of ten thousand literals has some 200,000 states
// and misses the cache at every byte; see docs/decisions/0009.
type literals struct {
	eight, four, three grams
	lits               []literal
}

type literal struct {
	text string // lower case
	atom int32
}

// grams is an index of windows of one size.
type grams struct {
	n      int
	mask   uint64     // of the bytes of a window
	shift  uint       // of a hash, to a slot
	fshift uint       // of a hash, to a word of the filter
	filter []uint64   // two bits of one word for each window
	slots  []gramSlot // open addressing, a power of two
	places []place    // by slot
}

type gramSlot struct {
	gram        uint64
	start, size int32 // in places; size 0: free
}

// place is where in a literal its window stands.
type place struct{ lit, off int32 }

const gramHash = 0x9E3779B97F4A7C15

var lowerByte = func() (t [256]byte) {
	for c := range t {
		t[c] = byte(c)
		if c >= 'A' && c <= 'Z' {
			t[c] = byte(c) + 'a' - 'A'
		}
	}
	return t
}()

func gramAt(s string, i, size int) (g uint64) {
	for _, c := range []byte(s[i : i+size]) {
		g = g<<8 | uint64(c)
	}
	return g
}

// newLiterals indexes literals of minLiteral bytes or more, in lower case.
func newLiterals(lits []literal) *literals {
	l := &literals{lits: lits}
	for _, by := range []struct {
		g           *grams
		size, least int
	}{{&l.eight, 8, 8}, {&l.four, 4, 4}, {&l.three, 3, minLiteral}} {
		use := make(map[uint64]int)
		for _, lit := range lits {
			for i := 0; i+by.size <= len(lit.text); i++ {
				use[gramAt(lit.text, i, by.size)]++
			}
		}
		places := make(map[uint64][]place)
		for n, lit := range lits {
			if len(lit.text) < by.least || by.size < 8 && len(lit.text) >= 2*by.least || by.size == 3 && len(lit.text) > 3 {
				continue
			}
			best := 0
			for i := 1; i+by.size <= len(lit.text); i++ {
				if use[gramAt(lit.text, i, by.size)] < use[gramAt(lit.text, best, by.size)] {
					best = i
				}
			}
			g := gramAt(lit.text, best, by.size)
			places[g] = append(places[g], place{int32(n), int32(best)})
		}
		*by.g = newGrams(places, by.size)
	}
	return l
}

func newGrams(m map[uint64][]place, size int) grams {
	g := grams{n: len(m), mask: 1<<(8*size) - 1}
	if size == 8 {
		g.mask = ^uint64(0)
	}
	if g.n == 0 {
		return g
	}
	bits := uint(6)
	for 1<<bits < 4*len(m) {
		bits++
	}
	g.shift = 64 - bits
	g.slots = make([]gramSlot, 1<<bits)
	// Sixteen to thirty-two bits a window, no less than 1 KiB.
	fbits := max(bits-4, 7)
	g.fshift = 64 - fbits
	g.filter = make([]uint64, 1<<fbits)
	var keys []uint64
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		h := k * gramHash
		i := h >> g.shift
		for g.slots[i].size > 0 {
			i = (i + 1) & uint64(len(g.slots)-1)
		}
		g.slots[i] = gramSlot{k, int32(len(g.places)), int32(len(m[k]))}
		g.places = append(g.places, m[k]...)
		g.filter[h>>g.fshift] |= twoBits(h)
	}
	return g
}

// twoBits are the bits of a window in its word of the filter, from bits of the
// hash that do not choose the word.
func twoBits(h uint64) uint64 { return 1<<(h>>20&63) | 1<<(h>>28&63) }

// find looks up a window that the filter let through.
func (g *grams) find(gram, h uint64) []place {
	for i := h >> g.shift; g.slots[i].size > 0; i = (i + 1) & uint64(len(g.slots)-1) {
		if s := &g.slots[i]; s.gram == gram {
			return g.places[s.start : s.start+s.size]
		}
	}
	return nil
}

// scan calls hit for the atom of each literal in the text, perhaps repeatedly.
// skip says which need no second look.
func (l *literals) scan(s string, skip func(atom int32) bool, hit func(atom int32)) {
	for _, by := range []struct {
		g    *grams
		size int
	}{{&l.eight, 8}, {&l.four, 4}, {&l.three, 3}} {
		if by.g.n > 0 && len(s) >= by.size {
			l.scanFor(by.g, by.size, s, skip, hit)
		}
	}
}

func (l *literals) scanFor(g *grams, size int, s string, skip func(atom int32) bool, hit func(atom int32)) {
	var w uint64
	for i := range size - 1 {
		w = w<<8 | uint64(lowerByte[s[i]])
	}
	filter, shift, mask := g.filter, g.fshift&63, g.mask
	for i := size - 1; i < len(s); i++ {
		w = w<<8 | uint64(lowerByte[s[i]])
		h := (w & mask) * gramHash
		if b := twoBits(h); filter[h>>shift]&b != b {
			continue
		}
		for _, p := range g.find(w&mask, h) {
			l.verify(s, i-size+1, p, skip, hit)
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
