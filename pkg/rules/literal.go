package rules

import "slices"

// literals finds which of many literals stand in a text, ignoring ASCII case,
// in one pass. A filter of a few KiB, which stays in the cache however many
// literals there are, says of nearly every position that no literal is there, and
// what is left is looked up and compared.
//
// Wherever a literal of eleven bytes or more stands, one of four neighbouring
// windows of it, each of eight bytes, begins at a multiple of four: long knows
// those windows and looks at every fourth position only. A shorter literal is
// known by its last four bytes, and compared with the eight that were read last.
//
// An Aho–Corasick automaton of ten thousand literals has some 200,000 states
// and misses the cache at every byte; see docs/decisions/0009.
type literals struct {
	long, short, three grams
	lits               []literal
}

const (
	stride  = 4
	minLong = 8 + stride - 1
)

type literal struct {
	text string // lower case
	atom int32
}

// grams is an index of windows of one size.
type grams struct {
	n      int
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

// place is where in a literal its window stands. tail is the literal's last
// bytes, up to eight, and mask says how many those are.
type place struct {
	lit, off   int32
	tail, mask uint64
}

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
	long, short, three := make(map[uint64][]place), make(map[uint64][]place), make(map[uint64][]place)
	use := make(map[uint64]int)
	for _, lit := range lits {
		for i := 0; i+8 <= len(lit.text); i++ {
			use[gramAt(lit.text, i, 8)]++
		}
	}
	for n, lit := range lits {
		size := min(len(lit.text), 8)
		p := place{lit: int32(n), tail: gramAt(lit.text, len(lit.text)-size, size), mask: ^uint64(0) >> (64 - 8*size)}
		switch {
		case len(lit.text) >= minLong:
			best, least := 0, -1
			for i := 0; i+minLong <= len(lit.text); i++ {
				sum := 0
				for j := range stride {
					sum += use[gramAt(lit.text, i+j, 8)]
				}
				if least < 0 || sum < least {
					best, least = i, sum
				}
			}
			for j := range stride {
				p.off = int32(best + j)
				g := gramAt(lit.text, best+j, 8)
				long[g] = append(long[g], p)
			}
		case len(lit.text) > 3:
			p.off = int32(len(lit.text) - 4)
			g := gramAt(lit.text, len(lit.text)-4, 4)
			short[g] = append(short[g], p)
		default:
			three[p.tail] = append(three[p.tail], p)
		}
	}
	l.long, l.short, l.three = newGrams(long), newGrams(short), newGrams(three)
	return l
}

func newGrams(m map[uint64][]place) grams {
	g := grams{n: len(m)}
	if g.n == 0 {
		return g
	}
	bits := uint(6)
	for 1<<bits < 4*len(m) {
		bits++
	}
	g.shift = 64 - bits
	g.slots = make([]gramSlot, 1<<bits)
	// Eight to sixteen bits a window, no less than 1 KiB.
	fbits := max(bits-5, 7)
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
	if l.long.n > 0 {
		l.scanLong(s, skip, hit)
	}
	if l.short.n > 0 {
		l.scanShort(&l.short, 4, s, skip, hit)
	}
	if l.three.n > 0 {
		l.scanShort(&l.three, 3, s, skip, hit)
	}
}

func (l *literals) scanLong(s string, skip func(atom int32) bool, hit func(atom int32)) {
	g := &l.long
	filter, shift := g.filter, g.fshift&63
	for i := 0; i+8 <= len(s); i += stride {
		w := lowerEight(s[i : i+8])
		h := w * gramHash
		if word := filter[h>>shift]; word>>(h>>20&63)&(word>>(h>>28&63))&1 == 0 {
			continue
		}
		for _, p := range g.find(w, h) {
			l.verify(s, i, p, skip, hit)
		}
	}
}

// scanShort looks at every position: at eight of them for each read of eight
// bytes, of which the windows are taken by shifting.
func (l *literals) scanShort(g *grams, size int, s string, skip func(atom int32) bool, hit func(atom int32)) {
	mask := uint64(1)<<(8*size) - 1
	filter, shift := g.filter, g.fshift&63
	var before uint64 // the eight bytes up to i, and no byte where there is none
	look := func(end int, w uint64) {
		for _, p := range g.find(w&mask, (w&mask)*gramHash) {
			if w&p.mask == p.tail {
				l.verify(s, end-size, p, skip, hit)
			}
		}
	}
	i := 0
	for ; i+8 <= len(s); i += 8 {
		next := lowerEight(s[i : i+8])
		for n := uint(8); n <= 64; n += 8 {
			w := before<<(n&63) | next>>(64-n)
			if n == 64 {
				w = next
			}
			h := (w & mask) * gramHash
			if word := filter[h>>shift]; word>>(h>>20&63)&(word>>(h>>28&63))&1 != 0 {
				look(i+int(n/8), w)
			}
		}
		before = next
	}
	for ; i < len(s); i++ {
		before = before<<8 | uint64(lowerByte[s[i]])
		h := (before & mask) * gramHash
		if word := filter[h>>shift]; word>>(h>>20&63)&(word>>(h>>28&63))&1 != 0 {
			look(i+1, before)
		}
	}
}

// lowerEight is eight bytes as gramAt reads them, in lower case.
func lowerEight(s string) uint64 {
	_ = s[7]
	x := uint64(s[7]) | uint64(s[6])<<8 | uint64(s[5])<<16 | uint64(s[4])<<24 | uint64(s[3])<<32 | uint64(s[2])<<40 | uint64(s[1])<<48 | uint64(s[0])<<56
	const ones = 0x0101010101010101
	low := x & (0x7f * ones)
	// The high bit of each byte from A on, and of each after Z.
	capital := (low + (0x80-'A')*ones) &^ (low + (0x80-'Z'-1)*ones) &^ x & (0x80 * ones)
	return x | capital>>2
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
