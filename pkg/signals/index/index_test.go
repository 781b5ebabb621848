package index

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// One table is filled again and again, and another one is never full. The hash in the other table must stay. Origins
// that no table uses must still be dropped, so that the index does not grow.
func TestABookDoesNotGrowWithWhatItHasLetGo(t *testing.T) {
	before := limits
	defer func() { limits = before }()
	limits.Postings[PostPhrases], limits.Origins = 400, 64
	st, r := NewMemStore(), rand.New(rand.NewPCG(8, 8))
	carrier, first := Hash("ann@north.example"), bytes.Repeat([]byte{'f'}, 80)
	for i := range 5000 {
		tabs := Open(st, "p")
		b, head := tabs.Index(), bytes.Repeat([]byte{'h'}, 40+i%100)
		if i == 0 {
			b.Put(PostCarriers, carrier, b.NewPosting(first, MaxRef).Ref)
		}
		ref := b.NewPosting(head, MaxRef).Ref
		for range 1 + r.IntN(5) {
			b.Put(PostPhrases, r.Uint64(), ref)
		}
		if ref, ok := b.Get(PostCarriers, carrier); !ok || !bytes.Equal(b.Origin(ref), first) {
			t.Fatalf("record %d: the first carrier's origin is %q", i, b.Origin(ref))
		}
		if got := b.Origin(b.postings[len(b.postings)-1].Ref); !bytes.Equal(got, head) {
			t.Fatalf("record %d: the record's own origin is %q", i, got)
		}
		if err := tabs.Close(); err != nil {
			t.Fatal(err)
		}
		// At most 400 hashes are stored, each with one origin. At most as many origins may wait to be dropped.
		if n := len(b.origins); n > 1000 {
			t.Fatalf("record %d: the index has %d origins, want at most 1000", i, n)
		}
	}
}

// A carrier is in the elder generation. When it is replaced, it is first copied into the current record. After a
// restart, it must still be mapped to the replacing origin.
func TestAReplacedOriginIsTheSameAfterARestart(t *testing.T) {
	before := limits
	defer func() { limits = before }()
	limits.Postings[PostCarriers] = 2
	st, carrier := NewMemStore(), Hash("ann@north.example")
	tabs := Open(st, "p")
	b := tabs.Index()
	b.Put(PostCarriers, carrier, b.NewPosting([]byte("first"), MaxRef).Ref)
	if err := tabs.Close(); err != nil {
		t.Fatal(err)
	}
	tabs = Open(st, "p")
	b = tabs.Index()
	own := b.NewPosting([]byte("second"), MaxRef).Ref
	if _, ok := b.Get(PostCarriers, carrier); !ok || b.tabs[PostCarriers].elder.count == 0 {
		t.Fatal("the carrier is not in the elder generation")
	}
	b.Replace(carrier, own|NamedByUser)
	for range 2 {
		if ref, _ := b.Get(PostCarriers, carrier); string(b.Origin(ref)) != "second" || ref&NamedByUser == 0 {
			t.Errorf("the origin is %q, ref %x", b.Origin(ref), ref)
		}
		if err := tabs.Close(); err != nil {
			t.Fatal(err)
		}
		*st.Memo() = nil
		tabs = Open(st, "p")
		b = tabs.Index()
	}
}

// Reading a record that was truncated must return an error or an index. It must never panic.
func FuzzReadBook(f *testing.F) {
	st := NewMemStore()
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 20 {
		tabs := Open(st, "p")
		b := tabs.Index()
		ref := b.NewPosting(bytes.Repeat([]byte{'h'}, 40+i), MaxRef).Ref
		for id := range numPosts - 1 {
			b.Put(id, r.Uint64(), ref)
		}
		b.PutPiece("part-1", Hash("part-1"), ref)
		b.Link(LinkWords, r.Uint64(), uint32(i))
		if err := tabs.Close(); err != nil {
			f.Fatal(err)
		}
	}
	st.Scan([]byte("l"), func(_, v []byte) (bool, error) {
		f.Add(bytes.Clone(v))
		return true, nil
	})
	f.Fuzz(func(t *testing.T, v []byte) {
		st := NewMemStore()
		st.Set(recordKey(nil, "p", 3), v)
		b, err := loadIndex(st, "p")
		if err == nil && b.next != 4 {
			t.Fatalf("next record %d, want 4", b.next)
		}
		if err == nil && len(b.origins) > 0 {
			b.Origin(0)
		}
	})
}

// BenchmarkReadBook loads the index of a project whose tables are full. The hashes are of different kinds in the same
// proportions as in real content.
func BenchmarkReadBook(b *testing.B) {
	st, r := NewMemStore(), rand.New(rand.NewPCG(5, 5))
	head := bytes.Repeat([]byte{'h'}, 150)
	var bk *Index
	for i := 0; bk == nil || bk.tabs[PostPhrases].elder.count == 0 ||
		bk.tabs[PostPhrases].young.count < limits.Postings[PostPhrases]/2-20; i++ {
		t := Open(st, "p")
		bk = t.Index()
		ref := bk.NewPosting(head, MaxRef).Ref
		for id, n := range [...]int{13, 10, 4} {
			for range n {
				bk.Put(postID(id), r.Uint64(), ref)
			}
		}
		for j := range 2 {
			v := fmt.Sprintf("%08x-%d-%d", r.Uint32(), i, j)
			bk.PutPiece(v, Hash(v), ref)
		}
		if err := t.Close(); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		again, err := loadIndex(st, "p")
		if err != nil || again.next != bk.next {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(bk.size())/(1<<20), "MiB")
	b.ReportMetric(float64(bk.next), "records")
}

// For a value, Lengths must return the lengths of all pieces with which the value begins, whichever generation they are
// in. It must return few other lengths.
func TestLengthsLeaveOutNoPiece(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 14))
	b := &Index{}
	var pieces []string
	known := make(map[string]bool)
	for i := range 3000 {
		p := fmt.Sprintf("%.*s", MinPiece+r.IntN(MaxPiece-MinPiece+1), fmt.Sprintf("http://%x.example/%x/%x/%x/%x",
			r.Uint32(), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()))
		pieces, known[p] = append(pieces, p), true
		b.tabs[PostPieces].putPiece(i%2 == 0, p, Hash(p), 0)
	}
	extra := 0
	for _, p := range pieces {
		got := b.Lengths(p + "/and more")
		if got&PieceBit(len(p)) == 0 {
			t.Fatalf("%q is left out", p)
		}
		for n := MinPiece; n <= len(p); n++ {
			if got&PieceBit(n) != 0 && !known[p[:n]] {
				extra++
			}
		}
	}
	if extra > len(pieces)*8 {
		t.Errorf("%d lengths for %d pieces are of no piece: the filter excludes too few", extra, len(pieces))
	}
}
