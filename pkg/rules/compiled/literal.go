package compiled

import (
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"lazaret/pkg/intent"
)

// literals finds which of many literals are in a text, ignoring ASCII case, in one pass. At nearly every position, a
// filter tells that no literal is there. The filter has a few KiB, so it fits into the processor's cache for any number
// of literals. The remaining positions are looked up and compared.
//
// In a literal of eleven bytes or more, one of four adjacent windows of eight bytes begins at a multiple of four,
// wherever the literal is in the text. The index long has these windows and is checked at every fourth position only.
// Shorter literals have windows of three to five bytes, which are checked at as many positions as the shortest literal
// requires.
//
// An Aho–Corasick automaton of ten thousand literals has about 200,000 states and misses the cache at every byte. See
// docs/decisions/0009.
type literals struct {
	long, short, three grams
	lits               []literal
	marks              []mark // the mark of each literal, if there are few literals
}

// mark is a byte of a literal that is rare in texts, and its position in the literal.
type mark struct {
	b  byte
	at int
}

// literal is a text to find in the fields of an event.
type literal struct {
	text string // lower case
	// For a field of the content: atoms by field; for another field, only the first element is used.
	atoms [contentFields]int32
}

// grams is an index of windows of the literals. A window is a part of a literal. All windows of a grams have the same
// size.
type grams struct {
	n      int
	size   int  // size of a window in bytes
	stride int  // a text is checked at positions that are multiples of stride
	cut    uint // shift that extracts a window from eight bytes
	shift  uint // shift from a hash to a slot
	filter filter
	// beside has the hashes of windows together with the two bytes behind or before them in their literals. It rules
	// out most windows of a text that occur in a literal by chance. If some window has no two bytes behind or before
	// it, beside is empty.
	beside filter
	// quick has a bit for each window, if windows have four bytes, are few and are checked at every position. It tests
	// eight windows of a text at once.
	quick *quickFilter
	// slots is a hash table with open addressing over known, small enough for the CPU's caches. The lowest bits of a
	// slot are the number of a window in known, from 1. The other bits are a part of the window's hash. A slot with 0
	// is free.
	slots  []uint32
	number uint // how many bits of a slot are the window's number
	known  []window
	places []place
}

// window is a window of a literal. Most windows occur in only one literal, so the first place is stored inline. A
// window takes half a cache line.
type window struct {
	gram uint64
	place
}

// place is the position of a window in a literal.
type place struct {
	tail           uint64 // the literal's last bytes, up to eight
	lit, off, size int32  // size 0: no place
	next           int32  // index in places, plus one, of another literal with the same window; 0: none
}

const gramHash = 0x9E3779B97F4A7C15

// filter is a Bloom filter of hashes. Each hash sets three bits of one word. The bits of the hash that choose the word
// are not used to choose these three bits.
type filter struct {
	words []uint64
	shift uint // shift from a hash to a word
}

// newFilter returns a filter with 11 to 21 bits for each of n hashes, but at least 1 KiB.
func newFilter(n int) filter {
	width := uint(7)
	for 64<<width < 11*n {
		width++
	}
	return filter{make([]uint64, 1<<width), 64 - width}
}

func (f *filter) add(h uint64) { f.words[h>>f.shift] |= 1<<(h>>20&63) | 1<<(h>>28&63) | 1<<(h>>36&63) }

func (f *filter) passes(h uint64) bool {
	word := f.words[h>>(f.shift&63)]
	return word>>(h>>20&63)&(word>>(h>>28&63))&(word>>(h>>36&63))&1 != 0
}

// quickFilter has one bit for each of at most quickMost hashes.
type quickFilter [256]uint64

const quickMost = 256

func (q *quickFilter) add(h uint64) { q[h>>56] |= 1 << (h >> 50 & 63) }

func (q *quickFilter) has(w uint32) bool {
	h := uint64(w) * gramHash
	return q[h>>56]&(1<<(h>>50&63)) != 0
}

// hasAny reports whether one of the eight windows of four bytes that begin in the first half of a or of b may be in the
// filter.
func (q *quickFilter) hasAny(a, b uint64) bool {
	return q.has(uint32(a>>32)) || q.has(uint32(a>>24)) || q.has(uint32(a>>16)) || q.has(uint32(a>>8)) ||
		q.has(uint32(b>>32)) || q.has(uint32(b>>24)) || q.has(uint32(b>>16)) || q.has(uint32(b>>8))
}

// besideHash returns the hash of a window with two adjacent bytes: those after it if behind is set,
// otherwise those before it.
func besideHash(h uint64, a, b byte, behind bool) uint64 {
	x := uint64(a)<<8 | uint64(b)
	if behind {
		x |= 1 << 16
	}
	return (h ^ h>>32 ^ x<<40) * gramHash
}

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

// newLiterals makes an index of literals. They must be in lower case and have at least MinLiteral bytes.
func newLiterals(lits []literal) *literals {
	l := &literals{lits: lits}
	if len(lits) <= fewLiterals {
		for _, lit := range lits {
			if m, ok := markOf(lit.text); ok {
				l.marks = append(l.marks, m)
			}
		}
	}
	var long, short, three []int
	least := 10
	for n, lit := range lits {
		switch size := len(lit.text); {
		case size >= 11:
			long = append(long, n)
		case size >= 4:
			short = append(short, n)
			least = min(least, size)
		default:
			three = append(three, n)
		}
	}
	l.long, l.three = newGrams(lits, long, 8, 4), newGrams(lits, three, 3, 1)
	size, stride := 4, 4
	switch {
	case least >= 8:
		size = 5
	case least == 4:
		stride = 1
	case least < 7:
		stride = 2
	}
	l.short = newGrams(lits, short, size, stride)
	return l
}

// fewLiterals is a number of literals. At most that many are searched one by one, by their marks.
const fewLiterals = 2

// markOf returns the mark of a literal: a punctuation character or, if there is none, a digit. So a mark is the same in
// upper and lower case.
func markOf(text string) (m mark, ok bool) {
	for i := range len(text) {
		switch c := text[i]; {
		case strings.IndexByte(`-_@#$%&*+=<>[]{}|~^/\`, c) >= 0:
			return mark{c, i}, true
		case c >= '0' && c <= '9' && !ok:
			m, ok = mark{c, i}, true
		}
	}
	return m, ok
}

// newGrams indexes the literals with the numbers in some by windows of size bytes. For each literal, it indexes stride
// adjacent windows. It chooses those that the fewest other literals have too. If there is a choice, it takes windows
// that span two words, because these are rare in texts.
func newGrams(lits []literal, some []int, size, stride int) grams {
	g := grams{size: size, stride: stride, cut: uint(64 - 8*size)}
	use, m := make(map[uint64]int), make(map[uint64][]place)
	for _, n := range some {
		for i := 0; i+size <= len(lits[n].text); i++ {
			use[gramAt(lits[n].text, i, size)]++
		}
	}
	for _, n := range some {
		text := lits[n].text
		best, least, most := 0, -1, 0
		for i := 0; i+size+stride-1 <= len(text); i++ {
			sum, joins := 0, 0
			for j := range stride {
				sum += use[gramAt(text, i+j, size)]
				joins += joined(text[i+j : i+j+size])
			}
			if least < 0 || sum < least || sum == least && joins > most {
				best, least, most = i, sum, joins
			}
		}
		last := min(len(text), 8)
		for j := range stride {
			w := gramAt(text, best+j, size)
			m[w] = append(
				m[w],
				place{
					lit:  int32(n),
					off:  int32(best + j),
					size: int32(len(text)),
					tail: gramAt(text, len(text)-last, last),
				},
			)
		}
	}
	g.n = len(m)
	if g.n == 0 {
		return g
	}
	width := uint(6)
	for 2<<width < 3*len(m) {
		width++
	}
	g.shift, g.number = 64-width, uint(bits.Len(uint(len(m))))
	g.slots, g.filter, g.beside = make([]uint32, 1<<width), newFilter(len(m)), newFilter(stride*len(some))
	if size == 4 && stride == 1 && len(m) <= quickMost {
		g.quick = new(quickFilter)
	}
	var keys []uint64
	bare := false
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		h := k * gramHash
		i := h >> g.shift
		for g.slots[i] > 0 {
			i = (i + 1) & uint64(len(g.slots)-1)
		}
		next := int32(0)
		for _, p := range m[k][1:] {
			p.next = next
			g.places = append(g.places, p)
			next = int32(len(g.places))
		}
		g.known = append(g.known, window{k, m[k][0]})
		g.known[len(g.known)-1].next = next
		g.slots[i] = uint32(h)<<g.number | uint32(len(g.known))
		g.filter.add(h)
		if g.quick != nil {
			g.quick.add(h)
		}
		for _, p := range m[k] {
			text, end := lits[p.lit].text, int(p.off)+size
			switch {
			case end+2 <= len(text):
				g.beside.add(besideHash(h, text[end], text[end+1], true))
			case p.off >= 2:
				g.beside.add(besideHash(h, text[p.off-2], text[p.off-1], false))
			default:
				bare = true
			}
		}
	}
	if bare {
		g.beside = filter{}
	}
	return g
}

// joined says how well a window spans two words. It looks at each character that separates two words, and counts the
// bytes of the window on the shorter side of it. It returns the largest count.
func joined(w string) (n int) {
	for i := range len(w) {
		if c := w[i]; c < utf8.RuneSelf && intent.NotWord(rune(c)) {
			n = max(n, min(i, len(w)-1-i))
		}
	}
	return n
}

// inside reports whether the window at a position of a text may be part of a literal, given the two bytes behind it or
// before it. It may wrongly return true, but never wrongly false.
func (g *grams) inside(s string, at int, h uint64) bool {
	end := at + g.size
	switch {
	case at < 0 || end > len(s):
		return false
	case g.beside.words == nil:
		return true
	}
	return end+2 <= len(s) && g.beside.passes(besideHash(h, lowerByte[s[end]], lowerByte[s[end+1]], true)) ||
		at >= 2 && g.beside.passes(besideHash(h, lowerByte[s[at-2]], lowerByte[s[at-1]], false))
}

// find looks up a window in the hash table, after the filter has found that it may be there. It returns nil if it is
// not.
func (g *grams) find(gram, h uint64) *place {
	for i := h >> (g.shift & 63); ; i++ {
		s := g.slots[i&uint64(len(g.slots)-1)]
		if s == 0 {
			return nil
		}
		if (s^uint32(h)<<g.number)>>g.number == 0 {
			if w := &g.known[s&(1<<g.number-1)-1]; w.gram == gram {
				return &w.place
			}
		}
	}
}

// scan calls hit for each literal in the text, with its position, possibly several times. skip reports whether a
// literal need not be searched any more.
//
// It reads the text eight bytes at a time. Windows are extracted by shifting from these eight bytes and the eight
// before: those that begin in the last four bytes of the earlier half or the first four of the later. The text is
// treated as surrounded by zeros.
func (l *literals) scan(s string, skip func(*literal) bool, hit func(*literal, int)) {
	if l.few() && l.scanMarks(s, skip, hit) {
		return
	}
	var before uint64
	for i := 0; i < len(s)+4; i += 8 {
		var next uint64
		if i+8 <= len(s) {
			next = lowerEight(s[i : i+8])
		} else {
			for j := range 8 {
				next <<= 8
				if i+j < len(s) {
					next |= uint64(lowerByte[s[i+j]])
				}
			}
		}
		half := before<<32 | next>>32
		if g := &l.long; g.n > 0 {
			if h := half * gramHash; g.filter.passes(h) {
				l.look(g, s, i-4, half, h, skip, hit)
			}
			if h := next * gramHash; g.filter.passes(h) {
				l.look(g, s, i, next, h, skip, hit)
			}
		}
		if g := &l.short; g.n > 0 && (g.quick == nil || g.quick.hasAny(half, next)) {
			l.every(&l.short, s, i, half, next, skip, hit)
		}
		if l.three.n > 0 {
			l.every(&l.three, s, i, half, next, skip, hit)
		}
		before = next
	}
}

// few reports whether there are so few literals that each is searched by its mark.
func (l *literals) few() bool { return len(l.marks) == len(l.lits) }

// scanMarks is like scan, but searches few literals by their marks. If the text has unusually many marks, it stops and
// returns false, and the caller must scan the text in the other way.
func (l *literals) scanMarks(s string, skip func(*literal) bool, hit func(*literal, int)) bool {
	left := 16 + len(s)/64
	for i, m := range l.marks {
		lit := &l.lits[i]
		for from := 0; ; {
			n := strings.IndexByte(s[from:], m.b)
			if n < 0 {
				break
			}
			if left--; left < 0 {
				return false
			}
			start := from + n - m.at
			if end := start + len(lit.text); start >= 0 && end <= len(s) && lowerIs(s[start:end], lit.text) {
				if hit(lit, start); skip(lit) {
					break
				}
			}
			from += n + 1
		}
	}
	return true
}

// every checks each window of at most five bytes that begins at one of the eight bytes from i-4.
func (l *literals) every(
	g *grams,
	s string,
	i int,
	half, next uint64,
	skip func(*literal) bool,
	hit func(*literal, int),
) {
	cut := g.cut & 63
	for j := 0; j < 4; j += g.stride {
		v, w := half<<(8*j&63)>>cut, next<<(8*j&63)>>cut
		if h := v * gramHash; g.filter.passes(h) {
			l.look(g, s, i-4+j, v, h, skip, hit)
		}
		if h := w * gramHash; g.filter.passes(h) {
			l.look(g, s, i+j, w, h, skip, hit)
		}
	}
}

// lowerEight is like eight, in lower case.
func lowerEight(s string) uint64 {
	x := eight(s)
	const ones = 0x0101010101010101
	low := x & (0x7f * ones)
	// In capital, the high bit is set for each byte that is a capital letter.
	capital := (low + (0x80-'A')*ones) &^ (low + (0x80-'Z'-1)*ones) &^ x & (0x80 * ones)
	return x | capital>>2
}

// eight returns the first eight bytes of s as a big-endian integer, the form in which gramAt returns them.
func eight(s string) uint64 {
	_ = s[7]
	return uint64(s[7]) | uint64(s[6])<<8 | uint64(s[5])<<16 | uint64(s[4])<<24 |
		uint64(s[3])<<32 | uint64(s[2])<<40 | uint64(s[1])<<48 | uint64(s[0])<<56
}

// look compares the text with each literal that has window w. at is the window's position in the text.
func (l *literals) look(g *grams, s string, at int, w, h uint64, skip func(*literal) bool, hit func(*literal, int)) {
	if !g.inside(s, at, h) {
		return
	}
	for p := g.find(w, h); p != nil; p = g.after(p) {
		start := at - int(p.off)
		end := start + int(p.size)
		if start < 0 || end > len(s) {
			continue
		}
		// First compare the last bytes of the literal, which are stored in p. The whole literal is in memory that is
		// probably not in the processor's cache.
		if end >= 8 && (lowerEight(s[end-8:end])^p.tail)<<(64-8*min(p.size, 8)) != 0 {
			continue
		}
		lit := &l.lits[p.lit]
		if !skip(lit) && lowerIs(s[start:end], lit.text) {
			hit(lit, start)
		}
	}
}

func (g *grams) after(p *place) *place {
	if p.next == 0 {
		return nil
	}
	return &g.places[p.next-1]
}

// lowerIs reports whether s, converted to lower case, equals lower. Both must have the same length.
func lowerIs(s, lower string) bool {
	for i := range len(s) {
		if lowerByte[s[i]] != lower[i] {
			return false
		}
	}
	return true
}
