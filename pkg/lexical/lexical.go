package lexical

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"lazaret/pkg/text"
)

// Bounds.
const (
	// MaxTerms is how many different terms of a document are kept, the first.
	MaxTerms = 256
	// MaxQuery is how many different terms a search looks for: those that the
	// fewest documents have.
	MaxQuery = 16
	// MaxNear is the same of words that only mean something like them.
	MaxNear = 16
	// MaxPostings is how many documents count of those that have a term: the
	// latest.
	MaxPostings = 1 << 16

	segment   = 512 // documents, and buckets
	fanout    = 8
	maxLevel  = 3
	large     = fanout * fanout // segments: from here on common terms lie apart
	widest    = large * fanout  // segments of a run
	common    = 64              // documents of a large run
	maxImpact = 127
	pivot     = 32 // words: the length of a document that is neither short nor long
	readTerms = 4096
)

// KV is the state that an index is kept in. Values and keys that are handed to
// callbacks may be overwritten after they return.
type KV interface {
	Get(key []byte) ([]byte, bool, error)
	Give(key, value []byte) error // value is not changed afterwards
	Delete(key []byte) error
	ScanFrom(prefix, from []byte, fn func(key, value []byte) (bool, error)) error
}

// Index is an index below a prefix of a state's keys.
type Index struct {
	kv     KV
	prefix []byte
	memo   *Memo // may be nil
	spared int   // lists of which a search did not look at every document
}

// Open returns the index below a prefix. Opening costs nothing, and an index
// that nothing was added to is empty.
func Open(kv KV, prefix []byte) *Index { return &Index{kv: kv, prefix: slices.Clip(prefix)} }

// The keys of an index, by the byte after its prefix.
const (
	keyCount   = 'n' // → number of documents
	keyID      = 'd' // document → its id
	keyForward = 'f' // slot → terms and weights of a document of the open segment
	keyRun     = 'r' // bucket, first segment → run
	keyCommon  = 'c' // term, first segment → list of a term, which the run does not have
)

func (x *Index) key(kind byte, parts ...uint64) []byte {
	k := append(slices.Clip(x.prefix), kind)
	for i, p := range parts {
		if kind == keyRun && i == 0 || kind == keyForward {
			k = binary.BigEndian.AppendUint16(k, uint16(p))
		} else {
			k = binary.BigEndian.AppendUint32(k, uint32(p))
		}
	}
	return k
}

// Len is the number of documents.
func (x *Index) Len() (uint32, error) {
	v, ok, err := x.kv.Get(x.key(keyCount))
	if err != nil || !ok {
		return 0, err
	}
	if len(v) != 4 {
		return 0, fmt.Errorf("the index's count has %d bytes, want 4", len(v))
	}
	return binary.BigEndian.Uint32(v), nil
}

// posting is a term of a document with its weight, 0 for a label.
type posting struct {
	term   text.Term
	impact uint8
}

// postings are the terms of a document in order, with their weights. Of terms
// the first MaxTerms count, labels always.
func postings(words, labels []text.Term) []posting {
	counted := make([]text.Term, 0, min(len(words), MaxTerms))
	seen := make(map[text.Term]int, min(len(words), MaxTerms))
	for _, w := range words {
		n, ok := seen[w]
		if !ok {
			if len(counted) == MaxTerms {
				continue
			}
			counted = append(counted, w)
		}
		seen[w] = n + 1
	}
	out := make([]posting, 0, len(counted)+len(labels))
	for _, w := range counted {
		out = append(out, posting{w, impact(seen[w], len(words))})
	}
	for _, l := range labels {
		if _, ok := seen[l]; !ok {
			seen[l] = 0
			out = append(out, posting{l, 0})
		}
	}
	slices.SortFunc(out, func(a, b posting) int {
		if a.term < b.term {
			return -1
		}
		return 1
	})
	return out
}

// impact is BM25's part of a posting that does not depend on the term: n
// occurrences in a document of so many words, of maxImpact.
func impact(n, words int) uint8 {
	k := 300 + 900*words/pivot // k1·(1−b+b·words/pivot), in thousandths
	return uint8(max(1, (1000*n*maxImpact+(1000*n+k)/2)/(1000*n+k)))
}

// rarity is log2((N+1)/(n+½)) in 1/1024ths, for a term that n of N documents
// have: BM25's idf.
func rarity(n, all uint32) uint32 {
	num, den := 2*uint64(all)+2, 2*uint64(n)+1
	if num <= den {
		return 1
	}
	whole := bits.Len64(num) - bits.Len64(den)
	if den<<whole > num {
		whole--
	}
	m := (num << 24) / (den << whole) // in [1, 2), in 2^-24
	r := uint32(whole)
	for range 10 {
		m = m * m >> 24
		r <<= 1
		if m >= 2<<24 {
			m >>= 1
			r |= 1
		}
	}
	return max(r, 1)
}

// Words are the terms of a text, to be added or looked for: the first readTerms.
func Words(s string) []text.Term { return text.Terms(s, readTerms) }

// Add adds a document. Its id is what a search returns; labels are properties
// to filter by.
func (x *Index) Add(id string, words, labels []text.Term) error {
	n, err := x.Len()
	if err != nil {
		return err
	}
	if err := x.kv.Give(x.key(keyID, uint64(n)), []byte(id)); err != nil {
		return err
	}
	ps := postings(words, labels)
	v := make([]byte, 0, 7*len(ps))
	for _, p := range ps {
		v = appendTerm(v, p.term)
		v = append(v, p.impact)
	}
	if err := x.kv.Give(x.key(keyForward, uint64(n%segment)), v); err != nil {
		return err
	}
	if n%segment == segment-1 {
		if err := x.flush(n / segment); err != nil {
			return err
		}
	} else if x.memo != nil {
		x.memo.added(x, n, v)
	}
	if err := x.merge(uint64(n%segment), n/segment); err != nil {
		return err
	}
	return x.kv.Give(x.key(keyCount), binary.BigEndian.AppendUint32(nil, n+1))
}

func appendTerm(b []byte, t text.Term) []byte {
	return append(b, byte(t>>40), byte(t>>32), byte(t>>24), byte(t>>16), byte(t>>8), byte(t))
}

func termAt(b []byte) text.Term {
	_ = b[5]
	return text.Term(b[0])<<40 | text.Term(b[1])<<32 | text.Term(b[2])<<24 | text.Term(b[3])<<16 | text.Term(
		b[4])<<8 | text.Term(b[5])
}

// bucketOf spreads terms; they are hashes.
func bucketOf(t text.Term) uint64 { return uint64(t) >> (48 - 9) }

// forward calls fn for each document of the open segment with its postings.
func (x *Index) forward(count uint32, fn func(slot int, v []byte)) error {
	slots := int(count % segment)
	if slots == 0 {
		return nil
	}
	if x.memo != nil {
		open, err := x.memo.opened(x, count)
		for slot, v := range open {
			fn(slot, v)
		}
		return err
	}
	return x.kv.ScanFrom(x.key(keyForward), x.key(keyForward), func(k, v []byte) (bool, error) {
		slot := int(binary.BigEndian.Uint16(k[len(k)-2:]))
		if slot >= slots {
			return false, nil
		}
		if len(v)%7 != 0 {
			return false, fmt.Errorf("slot %d of the index has %d bytes", slot, len(v))
		}
		fn(slot, v)
		return true, nil
	})
}

// flush turns the open segment, which is full, into a run in each bucket.
func (x *Index) flush(seg uint32) error {
	// A posting in 64 bits: term, slot, weight.
	var all []uint64
	err := x.forward(seg*segment+segment-1, func(slot int, v []byte) {
		for ; len(v) > 0; v = v[7:] {
			all = append(all, uint64(termAt(v))<<16|uint64(slot)<<7|uint64(v[6]))
		}
	})
	if err != nil {
		return err
	}
	last, ok, err := x.kv.Get(x.key(keyForward, segment-1))
	if err != nil {
		return err
	}
	for v := last; ok && len(v) > 0; v = v[7:] {
		all = append(all, uint64(termAt(v))<<16|uint64(segment-1)<<7|uint64(v[6]))
	}
	slices.Sort(all)
	for len(all) > 0 {
		bucket := bucketOf(text.Term(all[0] >> 16))
		var run []byte
		for len(all) > 0 && bucketOf(text.Term(all[0]>>16)) == bucket {
			l := list{term: text.Term(all[0] >> 16)}
			for len(all) > 0 && text.Term(all[0]>>16) == l.term {
				l.append(uint32(all[0]>>7&(segment-1)), uint8(all[0]&maxImpact))
				all = all[1:]
			}
			run = l.encode(run)
		}
		if err := x.kv.Give(x.key(keyRun, bucket, uint64(seg)), run); err != nil {
			return err
		}
	}
	return nil
}

// merge makes one run of those of a bucket that are due, while segment seg is
// being filled. It is kept by the first of their segments, whether or not that
// had anything of the bucket, so that it follows from the number of documents
// which runs there are.
func (x *Index) merge(bucket uint64, seg uint32) error {
	width := uint32(1)
	for range maxLevel {
		if seg%(width*fanout) != 0 {
			break
		}
		width *= fanout
	}
	if seg == 0 || width == 1 {
		return nil
	}
	begin := seg - width
	// A look-up of each costs less than a scan, for which what is on its way into the
	// state has to be put in order.
	firsts, _ := runsOf(bucket, seg*segment+uint32(bucket))
	runs := make([]run, 0, len(firsts))
	for _, first := range firsts {
		if first < begin {
			continue
		}
		v, ok, err := x.kv.Get(x.key(keyRun, bucket, uint64(first)))
		if err != nil {
			return err
		}
		if ok {
			runs = append(runs, run{first: first, data: slices.Clone(v)})
		}
	}
	if width > large {
		var err error
		if runs, err = x.commonOf(bucket, begin, seg, runs); err != nil {
			return err
		}
	}
	if len(runs) == 0 {
		return nil
	}
	for _, r := range runs {
		k := x.key(keyRun, bucket, uint64(r.first))
		if r.common {
			k = x.commonKey(r.term(), r.first)
		}
		if err := x.kv.Delete(k); err != nil {
			return err
		}
	}
	var rest []byte
	err := mergeRuns(begin, runs, func(l *list) error {
		if width < large || l.count < common {
			rest = l.encode(rest)
			return nil
		}
		return x.kv.Give(x.commonKey(l.term, begin), l.encode(nil))
	})
	if err != nil || len(rest) == 0 {
		return err
	}
	return x.kv.Give(x.key(keyRun, bucket, uint64(begin)), rest)
}

// commonKey is where a large run has a term that many documents have.
func (x *Index) commonKey(t text.Term, first uint32) []byte {
	return binary.BigEndian.AppendUint32(appendTerm(x.key(keyCommon), t), first)
}

// commonOf adds the lists of a bucket that lie apart to runs, from segment begin
// to before end.
func (x *Index) commonOf(bucket uint64, begin, end uint32, runs []run) ([]run, error) {
	from := appendTerm(x.key(keyCommon), text.Term(bucket<<(48-9)))
	// Terms of a bucket begin with its nine bits, of which a prefix has eight.
	err := x.kv.ScanFrom(from[:len(from)-5], from, func(k, v []byte) (bool, error) {
		if bucketOf(termAt(k[len(k)-10:])) != bucket {
			return false, nil
		}
		if first := binary.BigEndian.Uint32(k[len(k)-4:]); begin <= first && first < end {
			runs = append(runs, run{first, slices.Clone(v), true})
		}
		return true, nil
	})
	// By segment, since documents of a list are joined in that order.
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	return runs, err
}

// runsOf returns the first segments of the runs that a bucket has anything in, at
// most, of an index with so many documents; and how many of them are large.
func runsOf(bucket uint64, count uint32) (firsts []uint32, larger int) {
	seg := count / segment
	merged := seg // what was merged by then, but for the segment before it
	if uint64(count%segment) <= bucket && seg > 0 {
		merged--
	}
	at := uint32(0)
	for width := uint32(widest); width > 0; width /= fanout {
		for ; merged-at >= width; at += width {
			firsts = append(firsts, at)
			if width >= large {
				larger++
			}
		}
	}
	if merged < seg {
		firsts = append(firsts, merged)
	}
	return firsts, larger
}
