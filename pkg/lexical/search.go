package lexical

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"lazaret/pkg/text"
)

// Query is what is looked for.
type Query struct {
	// Words rank: a document that has more of them, and rarer ones, comes
	// first. Without words the latest document comes first.
	Words []text.Term
	// Labels filter: a document has to have all of them.
	Labels []text.Term
	// Limit is how many hits there are at most.
	Limit int
}

// Hit is a document that was found; Index.ID says which.
type Hit struct {
	doc uint32
	// Score is of what a document that consists of the query's words would have
	// at most, in thousandths; 0 without words.
	Score uint32
}

// Search returns the documents that have a word of the query, if it has any, and
// all its labels, best first; of those that are as good, the latest first.
func (x *Index) Search(q Query) ([]Hit, error) {
	count, err := x.Len()
	if err != nil || count == 0 || q.Limit <= 0 {
		return nil, err
	}
	words, labels := distinct(q.Words), distinct(q.Labels)
	if len(words) > 4*MaxQuery {
		words = words[:4*MaxQuery] // in their order in the query
	}
	sc := scratches.Get().(*scratch)
	defer sc.free()
	sc.reset(count)
	lists, err := x.lists(sc, count, slices.Concat(words, labels))
	if err != nil {
		return nil, err
	}
	need, have := lists[len(words):], lists[:len(words)]
	slices.SortStableFunc(have, func(a, b found) int { return cmp.Compare(a.count, b.count) })
	have = have[:min(len(have), MaxQuery)]
	allowed, err := filter(need)
	if err != nil {
		return nil, err
	}
	// Rarest first, and once the words that are left cannot lift a document above
	// the worst of the best so far, they count for those that were found already
	// and are looked for in no others (MaxScore, Turtle and Flood 1995). The
	// answer is the same: scores only grow.
	best, rest, weights := uint32(0), uint64(0), make([]uint32, len(have))
	for i, l := range have {
		weights[i] = rarity(l.count, count)
		best += weights[i] * maxImpact
		if err := sc.decode(i, &l); err != nil {
			return nil, err
		}
		rest += uint64(weights[i]) * uint64(sc.most[i])
	}
	for i := range have {
		w := weights[i]
		docs, impacts := sc.docs[i], sc.impacts[i]
		if i > 0 && rest < uint64(sc.most0) && uint64(sc.worst(q.Limit)) > rest {
			x.spared++
			for j, doc := range docs {
				if sc.scores[doc] != 0 {
					sc.scores[doc] += w * uint32(impacts[j])
				}
			}
		} else {
			at := 0
			for j, doc := range docs {
				if impacts[j] == 0 {
					continue // a label that hashes like the word
				}
				if len(need) > 0 {
					for at < len(allowed) && allowed[at] < doc {
						at++
					}
					if at == len(allowed) {
						break
					}
					if allowed[at] != doc {
						continue
					}
				}
				if sc.scores[doc] == 0 {
					sc.touched = append(sc.touched, doc)
				}
				sc.scores[doc] += w * uint32(impacts[j])
				sc.most0 = max(sc.most0, sc.scores[doc])
			}
		}
		rest -= uint64(w) * uint64(sc.most[i])
	}
	var docs []uint32
	switch {
	case len(words) > 0:
		docs = sc.top(q.Limit)
	case len(need) > 0:
		docs = allowed
		slices.Reverse(docs)
		docs = docs[:min(len(docs), q.Limit)]
	default:
		for d := count; d > 0 && len(docs) < q.Limit; d-- {
			docs = append(docs, d-1)
		}
	}
	out := make([]Hit, 0, len(docs))
	for _, d := range docs {
		h := Hit{doc: d}
		if best > 0 {
			h.Score = uint32(uint64(sc.scores[d]) * 1000 / uint64(best))
		}
		out = append(out, h)
	}
	return out, nil
}

// ID is the id of a document that a search of the same index found. It costs a
// look-up, so that a search for many hits need not pay for those that nobody looks
// at.
func (x *Index) ID(h Hit) (string, error) {
	id, ok, err := x.kv.Get(x.IDKey(h))
	if err != nil {
		return "", err
	}
	if !ok {
		return "", errBadRun
	}
	return string(id), nil
}

// IDKey is where the state has the id of a hit, for who reads many at once.
func (x *Index) IDKey(h Hit) []byte { return x.key(keyID, uint64(h.doc)) }

// distinct returns each of them once, in order.
func distinct(ts []text.Term) []text.Term {
	seen := make(map[text.Term]bool, len(ts))
	var out []text.Term
	for _, t := range ts {
		if !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}

// found is where a term stands: lists in the order of their documents.
type found struct {
	count uint32
	parts []part
}

type part struct {
	base  uint32 // what documents are counted from
	count uint32
	data  []byte
}

// lists looks terms up. What it returns is valid until sc is reset.
func (x *Index) lists(sc *scratch, count uint32, terms []text.Term) ([]found, error) {
	out := make([]found, len(terms))
	byBucket := make(map[uint64][]int, len(terms))
	for i, t := range terms {
		byBucket[bucketOf(t)] = append(byBucket[bucketOf(t)], i)
	}
	for i, t := range terms {
		group := byBucket[bucketOf(t)]
		if group[0] != i {
			continue // read with the first of its bucket
		}
		prefix := x.key(keyRun, bucketOf(t))
		err := x.kv.ScanFrom(prefix, prefix, func(k, v []byte) (bool, error) {
			base := binary.BigEndian.Uint32(k[len(k)-4:]) * segment
			for _, j := range group {
				l, ok, err := find(v, terms[j])
				if err != nil {
					return false, err
				}
				if ok {
					out[j].count += l.count
					out[j].parts = append(out[j].parts, part{base, l.count, sc.keep(l.data)})
				}
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	// What is not in a run yet.
	open := make([]list, len(terms))
	err := x.forward(count, func(slot int, v []byte) {
		for i, t := range terms {
			if at, ok := findForward(v, t); ok {
				open[i].append(uint32(slot), v[7*at+6])
			}
		}
	})
	for i, l := range open {
		if l.count > 0 {
			out[i].count += l.count
			out[i].parts = append(out[i].parts, part{count / segment * segment, l.count, l.data})
		}
	}
	return out, err
}

// findForward looks a term up in what is kept of a document of the open segment.
func findForward(v []byte, t text.Term) (int, bool) {
	low, high := 0, len(v)/7
	for low < high {
		mid := (low + high) / 2
		switch at := termAt(v[7*mid:]); {
		case at == t:
			return mid, true
		case at < t:
			low = mid + 1
		default:
			high = mid
		}
	}
	return 0, false
}

// each calls fn for the documents that count, in order.
func (f *found) each(fn func(doc uint32, impact uint8)) error {
	skip := uint32(0)
	if f.count > MaxPostings {
		skip = f.count - MaxPostings
	}
	for _, p := range f.parts {
		if skip >= p.count {
			skip -= p.count
			continue
		}
		doc, data := p.base, p.data
		for len(data) > 0 {
			d, n := uint64(data[0]), 1
			if d >= 0x80 {
				if d, n = binary.Uvarint(data); n <= 0 {
					return errBadRun
				}
			}
			if len(data) < n+1 {
				return errBadRun
			}
			doc += uint32(d)
			if skip > 0 {
				skip--
			} else {
				fn(doc, data[n])
			}
			data = data[n+1:]
		}
	}
	return nil
}

// scratch is what a search adds up in. It is reused.
type scratch struct {
	scores  []uint32 // by document, zero between searches
	touched []uint32 // documents with a score
	most0   uint32   // the highest score
	// The lists of words: documents, their weights, and the highest weight.
	docs    [MaxQuery][]uint32
	impacts [MaxQuery][]uint8
	most    [MaxQuery]uint8
	heap    []uint32
	data    []byte // of lists
}

// keep copies what a scan shows until the scratch is reset.
func (sc *scratch) keep(b []byte) []byte {
	at := len(sc.data)
	sc.data = append(sc.data, b...)
	return sc.data[at:len(sc.data):len(sc.data)]
}

// decode reads a list.
func (sc *scratch) decode(i int, l *found) error {
	docs, impacts, most := sc.docs[i][:0], sc.impacts[i][:0], uint8(0)
	err := l.each(func(doc uint32, impact uint8) {
		docs, impacts, most = append(docs, doc), append(impacts, impact), max(most, impact)
	})
	sc.docs[i], sc.impacts[i], sc.most[i] = docs, impacts, most
	return err
}

// worst is the score of the last of the best documents so far, 0 if there are
// fewer than limit.
func (sc *scratch) worst(limit int) uint32 {
	if len(sc.touched) < limit {
		return 0
	}
	// A heap whose root is the least score.
	h := sc.heap[:0]
	down := func(i int) {
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
	for _, d := range sc.touched {
		s := sc.scores[d]
		if len(h) < limit {
			if h = append(h, s); len(h) == limit {
				for i := len(h)/2 - 1; i >= 0; i-- {
					down(i)
				}
			}
		} else if s > h[0] {
			h[0] = s
			down(0)
		}
	}
	sc.heap = h
	return h[0]
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (sc *scratch) reset(count uint32) {
	if len(sc.scores) < int(count) {
		sc.scores = make([]uint32, count+count/8)
	}
	sc.touched, sc.most0, sc.data = sc.touched[:0], 0, sc.data[:0]
}

func (sc *scratch) free() {
	for _, d := range sc.touched {
		sc.scores[d] = 0
	}
	scratches.Put(sc)
}

// filter returns the documents that are in all lists, in order.
func filter(lists []found) ([]uint32, error) {
	var docs []uint32
	slices.SortStableFunc(lists, func(a, b found) int { return cmp.Compare(a.count, b.count) })
	for i, l := range lists {
		var in []uint32
		at := 0
		err := l.each(func(doc uint32, _ uint8) {
			if i == 0 {
				in = append(in, doc)
				return
			}
			for at < len(docs) && docs[at] < doc {
				at++
			}
			if at < len(docs) && docs[at] == doc {
				in = append(in, doc)
			}
		})
		if err != nil {
			return nil, err
		}
		docs = in
	}
	return docs, nil
}

// top returns the best of the documents with a score.
func (sc *scratch) top(limit int) []uint32 {
	// A heap whose root is the worst that is kept.
	worse := func(a, b uint32) bool {
		if sc.scores[a] != sc.scores[b] {
			return sc.scores[a] < sc.scores[b]
		}
		return a < b
	}
	h := make([]uint32, 0, min(limit, len(sc.touched)))
	down := func(i int) {
		for {
			c := 2*i + 1
			if c >= len(h) {
				return
			}
			if c+1 < len(h) && worse(h[c+1], h[c]) {
				c++
			}
			if !worse(h[c], h[i]) {
				return
			}
			h[i], h[c] = h[c], h[i]
			i = c
		}
	}
	for _, d := range sc.touched {
		if len(h) < limit {
			h = append(h, d)
			if len(h) == limit {
				for i := len(h)/2 - 1; i >= 0; i-- {
					down(i)
				}
			}
			continue
		}
		if worse(h[0], d) {
			h[0] = d
			down(0)
		}
	}
	slices.SortFunc(h, func(a, b uint32) int {
		if worse(b, a) {
			return -1
		}
		return 1
	})
	return h
}
