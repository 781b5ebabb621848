package lexical

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
)

// chunk is the number of documents that are ranked together. It is small, so that their scores stay
// in the processor's first-level cache.
const chunk = 1 << 12

// scratch has the buffers of a search. Later searches use the same buffers.
type scratch struct {
	data    []byte // copied lists
	terms   []term
	scores  [chunk]uint32 // scores of the documents of the current chunk; all zero when the next chunk begins
	touched [chunk]uint16 // documents of the chunk with a score
	allowed [chunk / 64]uint64
	// best has the best documents so far. The score is in the high bits of an element, the document in the low bits.
	// best is a heap whose root is the worst of these documents. Of documents with the same score, the latest is the
	// best.
	best []uint64
}

// term is the list of one word.
type term struct {
	docs    []uint32
	impacts []uint8
	weight  uint32
	most    uint64 // maximum contribution to a score
	at      int    // number of documents before the chunk
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// keep returns a copy of b. The copy is valid until the next search uses the scratch.
func (sc *scratch) keep(b []byte) []byte {
	at := len(sc.data)
	sc.data = append(sc.data, b...)
	return sc.data[at:len(sc.data):len(sc.data)]
}

// decode reads the postings of a word. If there are more than MaxPostings, it reads only the latest.
func (sc *scratch) decode(weight uint32, l *found) error {
	if len(sc.terms) < cap(sc.terms) {
		sc.terms = sc.terms[:len(sc.terms)+1]
	} else {
		sc.terms = append(sc.terms, term{})
	}
	t := &sc.terms[len(sc.terms)-1]
	t.docs, t.impacts, t.weight, t.at = t.docs[:0], t.impacts[:0], weight, 0
	skip := uint32(0)
	if l.count > MaxPostings {
		skip = l.count - MaxPostings
	}
	most := uint8(0)
	for _, p := range l.parts {
		if skip >= p.count {
			skip -= p.count
			continue
		}
		have := len(t.docs)
		all := have + int(p.count)
		if int(p.count) > len(p.data)/2 {
			return errBadRun
		}
		docs := slices.Grow(t.docs, int(p.count))[:all]
		impacts := slices.Grow(t.impacts, int(p.count))[:all]
		doc, data, n := p.base, p.data, have
		for at := 0; at < len(data); n++ {
			d := uint32(data[at])
			at++
			if d >= 0x80 {
				if at < len(data) && data[at] < 0x80 {
					d = d&0x7f | uint32(data[at])<<7
					at++
				} else if v, size := binary.Uvarint(data[at-1:]); size > 0 {
					d, at = uint32(v), at-1+size
				} else {
					return errBadRun
				}
			}
			if at >= len(data) || n >= all {
				return errBadRun
			}
			doc += d
			docs[n], impacts[n] = doc, data[at]
			most = max(most, data[at])
			at++
		}
		if n < all {
			return errBadRun
		}
		if s := int(skip); s > 0 {
			s = min(s, len(docs)-have)
			docs, impacts = slices.Delete(docs, have, have+s), slices.Delete(impacts, have, have+s)
			skip = 0
		}
		t.docs, t.impacts = docs, impacts
	}
	t.most = uint64(weight) * uint64(most)
	return nil
}

// rank sets sc.best to the best documents that have any of the terms. The terms must be ordered from rare to frequent.
// If filtered is set, only the documents in allowed count. Documents in dead never count. rank returns how often it
// skipped documents: the number of pairs of a list and a chunk.
//
// A list is skipped if its word and all later words together cannot lift a document above the worst of the best so far.
// Then they count only for documents that also have an earlier word (MaxScore, Turtle and Flood 1995). This does not
// change the result, because the scores of the best only grow.
func (sc *scratch) rank(limit int, allowed []uint32, filtered bool, dead *removed) (spared int) {
	sc.best = sc.best[:0]
	rest := make([]uint64, len(sc.terms)+1)
	for i := len(sc.terms) - 1; i >= 0; i-- {
		rest[i] = rest[i+1] + sc.terms[i].most
	}
	for {
		// Find the next chunk with a document that has any of the words.
		first, any := uint32(0), false
		for i := range sc.terms {
			if t := &sc.terms[i]; t.at < len(t.docs) && (!any || t.docs[t.at] < first) {
				first, any = t.docs[t.at], true
			}
		}
		if !any {
			break
		}
		first -= first % chunk
		if filtered {
			allowed = sc.allow(allowed, first)
		}
		worst := uint64(0)
		if len(sc.best) == limit {
			worst = sc.best[0] >> 32
		}
		touched := 0
		for i := range sc.terms {
			t := &sc.terms[i]
			docs, at, weight := t.docs, t.at, t.weight
			impacts := t.impacts[:len(docs)]
			if rest[i] < worst {
				for ; at < len(docs) && docs[at]-first < chunk; at++ {
					if s := &sc.scores[docs[at]-first]; *s != 0 {
						*s += weight * uint32(impacts[at])
					}
				}
				if at > t.at {
					spared++
				}
				t.at = at
				continue
			}
			for ; at < len(docs); at++ {
				off := docs[at] - first
				if off >= chunk {
					break
				}
				if impacts[at] == 0 {
					continue // the term is that of a label, whose hash happens to equal the word's
				}
				if filtered && sc.allowed[off/64]>>(off%64)&1 == 0 {
					continue
				}
				s := &sc.scores[off]
				if *s == 0 {
					sc.touched[touched] = uint16(off)
					touched++
				}
				*s += weight * uint32(impacts[at])
			}
			t.at = at
		}
		for _, at := range sc.touched[:touched] {
			d := uint64(sc.scores[at])<<32 | uint64(first) + uint64(at)
			sc.scores[at] = 0
			if (len(sc.best) < limit || d > sc.best[0]) && !dead.has(uint32(d)) {
				sc.offer(d, limit)
			}
		}
	}
	slices.SortFunc(sc.best, func(a, b uint64) int { return cmp.Compare(b, a) })
	return spared
}

// allow sets sc.allowed to those of docs that are in the chunk that begins at document first. It returns the elements
// of docs after the chunk.
func (sc *scratch) allow(docs []uint32, first uint32) []uint32 {
	clear(sc.allowed[:])
	for len(docs) > 0 && docs[0] < first {
		docs = docs[1:]
	}
	for len(docs) > 0 && docs[0]-first < chunk {
		at := docs[0] % chunk
		sc.allowed[at/64] |= 1 << (at % 64)
		docs = docs[1:]
	}
	return docs
}

// offer adds a document to sc.best if it is one of the best limit documents so far.
func (sc *scratch) offer(d uint64, limit int) {
	switch h := sc.best; {
	case len(h) < limit:
		sc.best = append(sc.best, d)
		if len(sc.best) < limit {
			return
		}
		for i := limit/2 - 1; i >= 0; i-- {
			sc.down(i)
		}
	case d > h[0]:
		h[0] = d
		sc.down(0)
	}
}

// down restores the order of the heap at index i, if only the element at i is out of order.
func (sc *scratch) down(i int) {
	h := sc.best
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if h[i] <= h[c] {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}
