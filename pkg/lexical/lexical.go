package lexical

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"lazaret/pkg/text"
)

// Limits.
const (
	// MaxTerms is the maximum number of different terms that are indexed for a document. The terms after these are
	// ignored.
	MaxTerms = 256
	// MaxQuery is the maximum number of different terms that a search uses. If the query has more, the search uses
	// those that the fewest documents have.
	MaxQuery = 24
	// MaxNear is the maximum number of synonyms that a search uses.
	MaxNear = 16
	// MaxPostings is the maximum number of documents that a search considers for one term. If more documents have the
	// term, it considers the latest.
	MaxPostings = 1 << 16
	// MaxDocuments is the maximum number of documents that an index can have, including removed ones: a document keeps
	// its number of 32 bits after it was removed. It is a multiple of the size of a segment.
	MaxDocuments = 1<<32 - segment

	segment  = 512 // number of documents in a segment, and number of buckets
	fanout   = 8
	maxLevel = 3
	// segments in a large run; in runs of this size or more, a common term has a key of its own
	large     = fanout * fanout
	widest    = large * fanout // segments in the largest runs
	common    = 64             // a term is common if at least this many documents of a large run have it
	maxImpact = 127
	pivot     = 32 // words; the assumed average length of documents
	readTerms = 4096
)

// KV is the state that stores an index. Keys and values that are passed to callbacks are valid only
// during the call.
type KV interface {
	Get(key []byte) ([]byte, bool, error)
	Give(key, value []byte) error // the caller does not modify value afterwards
	Delete(key []byte) error
	ScanFrom(prefix, from []byte, fn func(key, value []byte) (bool, error)) error
}

// Index is an inverted index. All its keys in the state begin with the same prefix.
type Index struct {
	kv     KV
	prefix []byte
	memo   *Memo // optional cache
	spared int   // number of posting lists in which a search skipped documents
}

// Open returns the index whose keys begin with prefix. It does not read the state. If the state has no such keys, the
// index is empty.
func Open(kv KV, prefix []byte) *Index { return &Index{kv: kv, prefix: slices.Clip(prefix)} }

// The keys of an index, by the byte after the prefix.
const (
	keyCount   = 'n' // → number of documents
	keyID      = 'd' // document → id
	keyForward = 'f' // slot → terms and weights of a document in the segment that is being filled
	keyRun     = 'r' // bucket, first segment → run
	keyCommon  = 'c' // term, first segment → list of a common term; the run does not have it
	keySpans   = 's' // → spans, once a document was removed
	keyDead    = 'x' // segment → bitmap of the removed documents whose postings are still in runs
	keySweep   = 'w' // → position of Sweep; exists as long as a bitmap exists
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

// Len returns the number of documents, including those that were removed.
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

// posting is a term of a document with its weight. The weight of a label is 0.
type posting struct {
	term   text.Term
	impact uint8
}

// postings returns the terms of a document in order, with their weights. It uses the first MaxTerms
// words and all labels.
func postings(words, labels []text.Term) []posting {
	// Each number has a term in its upper bits, and a last bit that is 1 for a label.
	all := make([]uint64, 0, len(words)+len(labels))
	for _, w := range firstTerms(words) {
		all = append(all, uint64(w)<<1)
	}
	for _, l := range labels {
		all = append(all, uint64(l)<<1|1)
	}
	slices.Sort(all)
	out := make([]posting, 0, len(all))
	for i := 0; i < len(all); {
		p, n := posting{term: text.Term(all[i] >> 1)}, 0
		for ; i < len(all) && text.Term(all[i]>>1) == p.term; i++ {
			n += int(1 - all[i]&1)
		}
		if n > 0 {
			p.impact = impact(n, len(words))
		}
		out = append(out, p)
	}
	return out
}

// firstTerms returns the words that are among the first MaxTerms different ones.
func firstTerms(words []text.Term) []text.Term {
	if len(words) <= MaxTerms {
		return words
	}
	first := make(map[text.Term]bool, MaxTerms)
	for _, w := range words {
		if len(first) == MaxTerms {
			break
		}
		first[w] = true
	}
	return slices.DeleteFunc(slices.Clone(words), func(w text.Term) bool { return !first[w] })
}

// impact returns the part of a posting's BM25 weight that does not depend on the term. It is from 1 to maxImpact. n is
// the number of occurrences of the term in the document, and words is the number of words of the document.
func impact(n, words int) uint8 {
	k := 300 + 900*words/pivot // k1·(1−b+b·words/pivot), in thousandths
	return uint8(max(1, (1000*n*maxImpact+(1000*n+k)/2)/(1000*n+k)))
}

// rarity returns the BM25 idf of a term that n of all documents have: log2((N+1)/(n+½)) in units of
// 1/1024.
func rarity(n, all uint32) uint32 {
	num, den := 2*uint64(all)+2, 2*uint64(n)+1
	if num <= den {
		return 1
	}
	whole := bits.Len64(num) - bits.Len64(den)
	if den<<whole > num {
		whole--
	}
	m := (num << 24) / (den << whole) // in [1, 2), in units of 2^-24
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

// Words returns the terms of a text for Add or Search, at most readTerms.
func Words(s string) []text.Term { return text.Terms(s, readTerms) }

// Add adds a document. A search returns its id. Labels are properties to filter by. It returns an error if the index
// already has MaxDocuments documents.
func (x *Index) Add(id string, words, labels []text.Term) error {
	n, err := x.Len()
	if err != nil {
		return err
	}
	if n >= MaxDocuments {
		return fmt.Errorf("the index is full: it has numbered %d documents; add %s to another index", n, id)
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

// bucketOf returns the bucket of a term. Terms are hashes, so they are spread evenly.
func bucketOf(t text.Term) uint64 { return uint64(t) >> (48 - 9) }

// forward calls fn for each document in the segment that is being filled, with its postings.
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
			return false, fmt.Errorf("slot %d of the index is damaged: it has %d bytes, which is no multiple of 7",
				slot, len(v))
		}
		fn(slot, v)
		return true, nil
	})
}

// flush writes the postings of a full segment as runs, one for each bucket.
func (x *Index) flush(seg uint32) error {
	// Each posting is 64 bits: term, slot, weight.
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

// merge merges those runs of a bucket that are to be merged while segment seg is filled. The key of the new run has the
// number of the first merged segment, even if that segment had no postings in the bucket. So the number of documents
// alone determines which runs exist.
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
	// Looking up each key is cheaper than a scan. A scan would first sort the state's writes that are not yet stored.
	firsts, _ := runsOf(bucket, seg*segment+uint32(bucket), nil)
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
	return x.rewrite(bucket, begin, runs, width >= large, nil)
}

// commonKey returns the key of a common term's list in a large run.
func (x *Index) commonKey(t text.Term, first uint32) []byte {
	return binary.BigEndian.AppendUint32(appendTerm(x.key(keyCommon), t), first)
}

// commonOf appends to runs the lists of common terms of a bucket that have keys of their own, for the segments from
// begin to before end.
func (x *Index) commonOf(bucket uint64, begin, end uint32, runs []run) ([]run, error) {
	from := appendTerm(x.key(keyCommon), text.Term(bucket<<(48-9)))
	// The terms of a bucket share their first nine bits. The scan needs a prefix of whole bytes, so it stops at the
	// first term of another bucket.
	err := x.kv.ScanFrom(from[:len(from)-5], from, func(k, v []byte) (bool, error) {
		if bucketOf(termAt(k[len(k)-10:])) != bucket {
			return false, nil
		}
		if first := binary.BigEndian.Uint32(k[len(k)-4:]); begin <= first && first < end {
			runs = append(runs, run{first, slices.Clone(v), true})
		}
		return true, nil
	})
	// The lists of one term must be joined in the order of their segments.
	slices.SortStableFunc(runs, func(a, b run) int { return cmp.Compare(a.first, b.first) })
	return runs, err
}

// runsOf returns the numbers of the first segments of the runs that a bucket may have when the index has count
// documents. larger is the number of those runs that are large.
func runsOf(bucket uint64, count uint32, spans []span) (firsts []uint32, larger int) {
	seg := count / segment
	merged := seg // number of segments whose merge is done; that of the last one may come later
	if uint64(count%segment) <= bucket && seg > 0 {
		merged--
	}
	at := uint32(0)
	for i := range spans {
		end := endOf(spans, i)
		if end > merged {
			break
		}
		firsts, at = append(firsts, spans[i].first), end
		larger++
	}
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
