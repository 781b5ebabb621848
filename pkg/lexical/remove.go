package lexical

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Add never merges the largest runs. A span is a range of segments for which each bucket has one such large run. When
// most documents of two neighboring spans were removed, Sweep joins the spans. So the number of runs depends on the
// documents that are left. A span that is not stored has the width of the widest run, and no document was removed from
// it.

// span is a range of segments. It ends at the next span.
type span struct {
	first uint32 // segment
	gone  uint32 // number of removed documents
}

// joinAt is a number of documents. Two neighboring spans are joined if at most this many documents are left in them.
const joinAt = widest * segment / 2

// spans returns the stored spans, in order. If no document was removed, there are none.
func (x *Index) spans() ([]span, error) {
	v, _, err := x.kv.Get(x.key(keySpans))
	if err != nil || len(v)%8 != 0 {
		return nil, cmp.Or(err, errBadRun)
	}
	out := make([]span, 0, len(v)/8)
	for ; len(v) > 0; v = v[8:] {
		out = append(out, span{binary.BigEndian.Uint32(v), binary.BigEndian.Uint32(v[4:])})
	}
	return out, nil
}

func (x *Index) putSpans(spans []span) error {
	v := make([]byte, 0, 8*len(spans))
	for _, s := range spans {
		v = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(v, s.first), s.gone)
	}
	return x.kv.Give(x.key(keySpans), v)
}

// endOf returns the first segment after the i-th span.
func endOf(spans []span, i int) uint32 {
	if i+1 < len(spans) {
		return spans[i+1].first
	}
	return spans[i].first + widest
}

// spanOf returns the index of the span that contains a segment. If the segment is after the last span, spanOf first
// appends spans until one contains it.
func spanOf(spans []span, seg uint32) ([]span, int) {
	for len(spans) == 0 || seg >= endOf(spans, len(spans)-1) {
		first := uint32(0)
		if n := len(spans); n > 0 {
			first = endOf(spans, n-1)
		}
		spans = append(spans, span{first: first})
	}
	i, found := slices.BinarySearchFunc(spans, seg, func(s span, seg uint32) int { return cmp.Compare(s.first, seg) })
	if !found {
		i--
	}
	return spans, i
}

// living returns the number of documents that were not removed.
func living(count uint32, spans []span) uint32 {
	for _, s := range spans {
		count -= s.gone
	}
	return count
}

// Living returns the number of documents that were not removed.
func (x *Index) Living() (uint32, error) {
	n, err := x.Len()
	if err != nil || n == 0 {
		return 0, err
	}
	spans, err := x.spans()
	return living(n, spans), err
}

// Remove removes the document with the number doc if its id is id. It reports whether it removed it. Searches no longer
// find it. Its postings still count in the ranking, until Sweep has removed them.
func (x *Index) Remove(doc uint32, id string) (bool, error) {
	key := x.key(keyID, uint64(doc))
	v, ok, err := x.kv.Get(key)
	if err != nil || !ok || string(v) != id {
		return false, err
	}
	count, err := x.Len()
	if err != nil {
		return false, err
	}
	spans, err := x.spans()
	if err != nil {
		return false, err
	}
	spans, i := spanOf(spans, doc/segment)
	spans[i].gone++
	if err := x.putSpans(spans); err != nil {
		return false, err
	}
	if err := x.kv.Delete(key); err != nil {
		return false, err
	}
	if doc/segment == count/segment {
		if x.memo != nil {
			delete(x.memo.open, string(x.prefix))
		}
		return true, x.kv.Give(x.key(keyForward, uint64(doc%segment)), []byte{})
	}
	dead, _, err := x.kv.Get(x.key(keyDead, uint64(doc/segment)))
	if err != nil {
		return false, err
	}
	bits := make([]byte, segment/8)
	copy(bits, dead)
	bits[doc%segment/8] |= 1 << (doc % 8)
	if err := x.kv.Give(x.key(keyDead, uint64(doc/segment)), bits); err != nil {
		return false, err
	}
	return true, x.kv.Give(x.key(keySweep), sweep{}.encode())
}

// Documents calls fn with the number and the id of each document, in order. It begins with document number from, and
// stops when fn returns false.
func (x *Index) Documents(from uint32, fn func(doc uint32, id string) (more bool)) error {
	return x.kv.ScanFrom(x.key(keyID), x.key(keyID, uint64(from)), func(k, v []byte) (bool, error) {
		return fn(binary.BigEndian.Uint32(k[len(k)-4:]), string(v)), nil
	})
}

// latest returns the latest documents, at most limit.
func (x *Index) latest(count uint32, limit int) (docs []uint32, err error) {
	for width := uint32(max(limit, 64)); count > 0 && len(docs) < limit; width *= 2 {
		from := count - min(count, width)
		var in []uint32
		err := x.Documents(from, func(doc uint32, _ string) bool {
			if doc < count {
				in = append(in, doc)
			}
			return doc+1 < count
		})
		if err != nil {
			return nil, err
		}
		slices.Reverse(in)
		docs, count = append(docs, in...), from
	}
	return docs[:min(len(docs), limit)], nil
}

// removed tells which documents were removed but still have postings, because Sweep has not reached them. The zero
// value has no such document.
type removed struct {
	x    *Index
	seg  uint32
	bits []byte // the segment's bitmap of removed documents; nil if it is not loaded
	have bool
	err  error
}

// unswept returns the documents that were removed but still have postings.
func (x *Index) unswept() (r removed, err error) {
	_, ok, err := x.kv.Get(x.key(keySweep))
	if ok {
		r.x = x
	}
	return r, err
}

func (r *removed) has(doc uint32) bool {
	if r == nil || r.x == nil || r.err != nil {
		return false
	}
	if seg := doc / segment; !r.have || r.seg != seg {
		v, _, err := r.x.kv.Get(r.x.key(keyDead, uint64(seg)))
		if r.seg, r.have, r.err = seg, true, err; err != nil {
			return false
		}
		r.bits = append(r.bits[:0], v...)
	}
	return deadIn(r.bits, doc)
}

func deadIn(bits []byte, doc uint32) bool {
	at := int(doc % segment / 8)
	return at < len(bits) && bits[at]>>(doc%8)&1 == 1
}

// sweep is the position at which Sweep continues: a bucket of the first span that has removed documents.
type sweep struct {
	bucket uint16
	join   bool // whether to join the span with the span before it; decided when bucket is 0
}

func (s sweep) encode() []byte {
	b := binary.BigEndian.AppendUint16(nil, s.bucket)
	if s.join {
		return append(b, 1)
	}
	return append(b, 0)
}

// Sweep removes the postings of removed documents. When it has finished, searches give the same results as in an index
// that never had the removed documents. room is the number of bytes that Sweep may read. It stops when it has read
// about so many, and returns how many are left. If it returns 0, it has not finished. Sweep does not read the texts of
// documents.
func (x *Index) Sweep(room int) (left int, err error) {
	for {
		v, ok, err := x.kv.Get(x.key(keySweep))
		if err != nil || !ok {
			return room, err
		}
		if room <= 0 {
			return 0, nil
		}
		if len(v) != 3 {
			return 0, errBadRun
		}
		at := sweep{binary.BigEndian.Uint16(v), v[2] == 1}
		if room, err = x.sweepSpan(at, room); err != nil {
			return 0, err
		}
	}
}

// sweepSpan continues the sweep of the first span with removed documents.
func (x *Index) sweepSpan(at sweep, room int) (left int, err error) {
	count, err := x.Len()
	if err != nil {
		return 0, err
	}
	spans, err := x.spans()
	if err != nil {
		return 0, err
	}
	d := dead{bits: make(map[uint32][]byte)}
	i := -1
	err = x.kv.ScanFrom(x.key(keyDead), x.key(keyDead), func(k, v []byte) (bool, error) {
		seg := binary.BigEndian.Uint32(k[len(k)-4:])
		if i < 0 {
			spans, i = spanOf(spans, seg)
		}
		if seg >= endOf(spans, i) {
			return false, nil
		}
		d.segs, d.bits[seg] = append(d.segs, seg), slices.Clone(v)
		room -= len(v)
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	if i < 0 {
		return room, x.kv.Delete(x.key(keySweep))
	}
	if at.bucket == 0 {
		at.join = joins(spans, i, count)
	}
	end := endOf(spans, i)
	for more := true; more; more = at.bucket < segment {
		n, err := x.sweepBucket(uint64(at.bucket), spans, i, count, &d, at.join)
		if err != nil {
			return 0, err
		}
		at.bucket++
		if room -= n; room <= 0 && at.bucket < segment {
			return 0, x.kv.Give(x.key(keySweep), at.encode())
		}
	}
	for _, seg := range d.segs {
		if err := x.kv.Delete(x.key(keyDead, uint64(seg))); err != nil {
			return 0, err
		}
	}
	if at.join {
		spans[i-1].gone += spans[i].gone
		// The end of the last span follows from its first segment, which would change. So the end is stored as the
		// beginning of another span.
		if i+1 == len(spans) {
			spans = append(spans, span{first: end})
		}
		if err := x.putSpans(slices.Delete(spans, i, i+1)); err != nil {
			return 0, err
		}
	}
	return max(room, 1), x.kv.Give(x.key(keySweep), sweep{}.encode())
}

// joins reports whether the i-th span is to be joined with the span before it. All buckets must have a large run for
// each of the two spans, and few documents may be left in them.
func joins(spans []span, i int, count uint32) bool {
	if i == 0 || endOf(spans, i) >= count/segment {
		return false
	}
	left := uint64(endOf(spans, i)-spans[i-1].first)*segment - uint64(spans[i-1].gone) - uint64(spans[i].gone)
	return left <= joinAt
}

// bucketCost is the cost of looking for the runs of a bucket, counted as bytes that were read.
const bucketCost = 256

// sweepBucket removes the documents in d from the runs of a bucket in the i-th span. If join is set, it joins the run
// with that of the span before. It returns the cost of this in bytes.
func (x *Index) sweepBucket(bucket uint64, spans []span, i int, count uint32, d *dead, join bool) (n int, err error) {
	begin, end := spans[i].first, endOf(spans, i)
	if join {
		begin = spans[i-1].first
	}
	firsts, larger := runsOf(bucket, count, spans)
	var apart []run
	if larger > 0 {
		if apart, err = x.commonOf(bucket, begin, end, nil); err != nil {
			return 0, err
		}
	}
	n = bucketCost
	var runs []run
	for k, first := range firsts {
		if first < begin || first >= end {
			continue
		}
		next := end
		if k+1 < len(firsts) {
			next = min(end, firsts[k+1])
		}
		if !join && !d.in(first, next) {
			continue
		}
		v, ok, err := x.kv.Get(x.key(keyRun, bucket, uint64(first)))
		if err != nil {
			return 0, err
		}
		if ok {
			runs = append(runs, run{first: first, data: slices.Clone(v)})
		}
		for _, r := range apart {
			if r.first == first {
				runs = append(runs, r)
			}
		}
		if join && next < end {
			continue
		}
		for _, r := range runs {
			n += len(r.data)
		}
		if join {
			first = begin
		}
		if err := x.rewrite(bucket, first, runs, k < larger, d); err != nil {
			return 0, err
		}
		runs = runs[:0]
	}
	return n, nil
}

// rewrite replaces runs of a bucket by one run that begins at segment begin. It leaves out the documents in d. wide is
// set if the new run is large, so that common terms in it have keys of their own.
func (x *Index) rewrite(bucket uint64, begin uint32, runs []run, wide bool, d *dead) error {
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
		if d != nil {
			if err := l.filter(begin*segment, d); err != nil || l.count == 0 {
				return err
			}
		}
		if !wide || l.count < common {
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

// dead has the removed documents of a span. It has a bitmap for each segment with a removed document.
type dead struct {
	segs []uint32
	bits map[uint32][]byte
}

// in reports whether documents were removed from the segments from first to before end.
func (d *dead) in(first, end uint32) bool {
	i, _ := slices.BinarySearch(d.segs, first)
	return i < len(d.segs) && d.segs[i] < end
}

// filter removes the documents in d from the list. Document 0 of the list is document base of the index.
func (l *list) filter(base uint32, d *dead) error {
	out := list{term: l.term, data: make([]byte, 0, len(l.data))}
	doc, seg := base, base/segment
	bits := d.bits[seg]
	for data := l.data; len(data) > 0; {
		behind, n := binary.Uvarint(data)
		if n <= 0 || n >= len(data) {
			return errBadRun
		}
		doc += uint32(behind)
		if doc/segment != seg {
			seg = doc / segment
			bits = d.bits[seg]
		}
		if !deadIn(bits, doc) {
			out.append(doc-base, data[n])
		}
		data = data[n+1:]
	}
	*l = out
	return nil
}
