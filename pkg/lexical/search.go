package lexical

import (
	"cmp"
	"encoding/binary"
	"slices"

	"lazaret/pkg/text"
)

// Query describes the documents to find.
type Query struct {
	// Words rank the hits: documents with more of the words, and with rarer ones, come first. If there are no words,
	// the latest documents come first.
	Words []text.Term
	// Near are synonyms of Words. A synonym has a third of the weight of a word. A search uses at most MaxNear of them:
	// those that the fewest documents have.
	Near []text.Term
	// Labels filter the hits: a document must have all of them.
	Labels []text.Term
	// Limit is the maximum number of hits.
	Limit int
}

// Hit is a found document. Index.ID returns its id.
type Hit struct {
	doc uint32
	// Score compares the document with one that would have all words of the query at the highest weight. It is the
	// document's share of that score in thousandths. It is 0 if the query has no words.
	Score uint32
}

// Search returns the documents that have all labels of the query and, if the query has words, at least one of the
// words. The best come first. Of equally good documents the latest comes first.
func (x *Index) Search(q Query) ([]Hit, error) {
	count, err := x.Len()
	if err != nil || count == 0 || q.Limit <= 0 {
		return nil, err
	}
	spans, err := x.spans()
	if err != nil {
		return nil, err
	}
	var dead removed
	if len(spans) > 0 {
		if dead, err = x.unswept(); err != nil {
			return nil, err
		}
	}
	all := living(count, spans)
	words, labels := distinct(q.Words), distinct(q.Labels)
	if len(words) > 4*MaxQuery {
		words = words[:4*MaxQuery] // keeps the query's first words
	}
	sc := scratches.Get().(*scratch)
	defer scratches.Put(sc)
	sc.data = sc.data[:0]
	near := slices.DeleteFunc(distinct(q.Near), func(t text.Term) bool { return slices.Contains(words, t) })
	near = near[:min(len(near), 16*MaxNear)]
	lists, err := x.lists(sc, count, spans, slices.Concat(words, labels, near))
	if err != nil {
		return nil, err
	}
	have, need, like := lists[:len(words)], lists[len(words):len(words)+len(labels)], lists[len(words)+len(labels):]
	like = slices.DeleteFunc(like, func(l found) bool { return l.count == 0 })
	slices.SortStableFunc(like, func(a, b found) int { return cmp.Compare(a.count, b.count) })
	like = like[:min(len(like), MaxNear)]
	slices.SortStableFunc(have, func(a, b found) int { return cmp.Compare(a.count, b.count) })
	best := uint32(0)
	for _, l := range have[:min(len(have), MaxQuery)] {
		best += rarity(l.count, all) * maxImpact
	}
	// A word that no document has is left out, so that it is not one of the MaxQuery words for which the index is
	// searched.
	known := slices.IndexFunc(have, func(l found) bool { return l.count > 0 })
	if known < 0 {
		known = len(have)
	}
	have = have[known:min(len(have), known+MaxQuery)]
	allowed, err := sc.filter(need)
	if err != nil {
		return nil, err
	}
	sc.terms = sc.terms[:0]
	for _, l := range have {
		if err := sc.decode(rarity(l.count, all), &l); err != nil {
			return nil, err
		}
	}
	for _, l := range like {
		if err := sc.decode(rarity(l.count, all)/3, &l); err != nil {
			return nil, err
		}
	}
	if len(words) > 0 {
		x.spared += sc.rank(q.Limit, allowed, len(need) > 0, &dead)
		out := make([]Hit, 0, len(sc.best))
		for _, b := range sc.best {
			out = append(out, Hit{doc: uint32(b), Score: uint32(b >> 32 * 1000 / uint64(max(best, 1)))})
		}
		return out, dead.err
	}
	var docs []uint32
	switch {
	case len(need) > 0:
		for _, d := range slices.Backward(allowed) {
			if len(docs) == q.Limit {
				break
			}
			if !dead.has(d) {
				docs = append(docs, d)
			}
		}
	case len(spans) > 0:
		if docs, err = x.latest(count, q.Limit); err != nil {
			return nil, err
		}
	default:
		for d := count; d > 0 && len(docs) < q.Limit; d-- {
			docs = append(docs, d-1)
		}
	}
	out := make([]Hit, 0, len(docs))
	for _, d := range docs {
		out = append(out, Hit{doc: d})
	}
	return out, dead.err
}

// ID returns the id of a hit of this index. Search does not look up the ids, so that a search with many hits costs
// nothing for hits that the caller ignores.
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

// IDKey returns the key in the state under which the id of a hit is stored. A caller can use it to read many ids at
// once.
func (x *Index) IDKey(h Hit) []byte { return x.key(keyID, uint64(h.doc)) }

// distinct returns ts without repetitions, in order.
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

// found has the postings of a term. They are in several lists, in the order of their documents.
type found struct {
	count uint32
	parts []part
}

type part struct {
	base  uint32 // documents are numbered from this one
	count uint32
	data  []byte
}

// lists returns the postings of each term. The result is valid until the next search uses sc.
func (x *Index) lists(sc *scratch, count uint32, spans []span, terms []text.Term) ([]found, error) {
	out := make([]found, len(terms))
	for i, t := range terms {
		var err error
		if out[i], err = x.inRuns(sc, count, spans, t); err != nil {
			return nil, err
		}
	}
	// The postings of the segment that is being filled are in no run.
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

// inRuns looks a term up in the runs of its bucket. In a large run, the term may have a key of its own; if not, inRuns
// searches the bucket's list. It reads all smaller runs in one scan.
func (x *Index) inRuns(sc *scratch, count uint32, spans []span, t text.Term) (f found, err error) {
	bucket := bucketOf(t)
	firsts, larger := runsOf(bucket, count, spans)
	if len(firsts) == 0 {
		return f, nil
	}
	add := func(first uint32, l list) {
		f.count += l.count
		f.parts = append(f.parts, part{first * segment, l.count, sc.keep(l.data)})
	}
	look := func(first uint32, v []byte) error {
		l, ok, err := find(v, t)
		if ok {
			add(first, l)
		}
		return err
	}
	apart := 0 // number of large runs in which the term has a key of its own
	if larger > 0 {
		prefix := x.commonKey(t, 0)
		prefix = prefix[:len(prefix)-4]
		err := x.kv.ScanFrom(prefix, prefix, func(k, v []byte) (bool, error) {
			l, _, err := next(v)
			if err == nil {
				apart++
				add(binary.BigEndian.Uint32(k[len(k)-4:]), l)
			}
			return true, err
		})
		if err != nil {
			return f, err
		}
	}
	if apart < larger {
		for _, first := range firsts[:larger] {
			if slices.ContainsFunc(f.parts[:apart], func(p part) bool { return p.base == first*segment }) {
				continue
			}
			v, ok, err := x.kv.Get(x.key(keyRun, bucket, uint64(first)))
			if err == nil && ok {
				err = look(first, v)
			}
			if err != nil {
				return f, err
			}
		}
		slices.SortFunc(f.parts, func(a, b part) int { return cmp.Compare(a.base, b.base) })
	}
	if larger == len(firsts) {
		return f, nil
	}
	return f, x.kv.ScanFrom(x.key(keyRun, bucket), x.key(keyRun, bucket, uint64(firsts[larger])),
		func(k, v []byte) (bool, error) {
			return true, look(binary.BigEndian.Uint32(k[len(k)-4:]), v)
		})
}

// findForward looks a term up in the postings of one document in the segment that is being filled. It returns the
// number of the posting in v.
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

// filter returns the documents that are in all lists, in order.
func (sc *scratch) filter(lists []found) ([]uint32, error) {
	slices.SortStableFunc(lists, func(a, b found) int { return cmp.Compare(a.count, b.count) })
	var docs []uint32
	for i := range lists {
		sc.terms = sc.terms[:0]
		if err := sc.decode(0, &lists[i]); err != nil {
			return nil, err
		}
		if in := sc.terms[0].docs; i == 0 {
			docs = append(docs, in...)
		} else {
			docs = intersect(docs, in)
		}
	}
	sc.terms = sc.terms[:0]
	return docs, nil
}

// intersect returns the elements of docs that are also in others. Both must be sorted. The result uses the memory of
// docs.
func intersect(docs, others []uint32) []uint32 {
	in := docs[:0]
	for _, doc := range others {
		for len(docs) > 0 && docs[0] < doc {
			docs = docs[1:]
		}
		if len(docs) > 0 && docs[0] == doc {
			in, docs = append(in, doc), docs[1:]
		}
	}
	return in
}
