package lexical

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"lazaret/pkg/text"
)

// pebbleKV is a state as a stage has it: an indexed batch over a Pebble database.
type pebbleKV struct {
	db    *pebble.DB
	batch *pebble.Batch
}

func newKV(t testing.TB) *pebbleKV {
	t.Helper()
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}
	kv := &pebbleKV{db, db.NewIndexedBatch()}
	t.Cleanup(func() { kv.batch.Close(); db.Close() })
	return kv
}

func (kv *pebbleKV) commit(t testing.TB) {
	t.Helper()
	if err := errors.Join(kv.batch.Commit(pebble.NoSync), kv.batch.Close()); err != nil {
		t.Fatal(err)
	}
	kv.batch = kv.db.NewIndexedBatch()
}

func (kv *pebbleKV) Get(key []byte) ([]byte, bool, error) {
	v, c, err := kv.batch.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return slices.Clone(v), true, c.Close()
}

func (kv *pebbleKV) Give(key, value []byte) error { return kv.batch.Set(key, value, nil) }
func (kv *pebbleKV) Delete(key []byte) error      { return kv.batch.Delete(key, nil) }

func (kv *pebbleKV) ScanFrom(prefix, from []byte, fn func(key, value []byte) (bool, error)) error {
	it, err := kv.batch.NewIter(&pebble.IterOptions{LowerBound: from})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok && bytes.HasPrefix(it.Key(), prefix); ok = it.Next() {
		if more, err := fn(it.Key(), it.Value()); err != nil || !more {
			return err
		}
	}
	return it.Error()
}

func (kv *pebbleKV) dump(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err := kv.ScanFrom(nil, nil, func(k, v []byte) (bool, error) {
		out[string(k)] = string(v)
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// document is a document of the reference, which compares a query with each document.
type document struct {
	id     string
	words  []text.Term
	labels []text.Term
}

// reference computes BM25 as described in the package comment, but without an index.
func reference(docs []document, q Query) []Hit {
	type scored struct {
		doc   int
		score uint32
	}
	postingsOf := make([][]posting, len(docs))
	for i, d := range docs {
		postingsOf[i] = postings(d.words, d.labels)
	}
	with := func(t text.Term) (out []int, impacts map[int]uint8) {
		impacts = map[int]uint8{}
		for i, ps := range postingsOf {
			if j := slices.IndexFunc(ps, func(p posting) bool { return p.term == t }); j >= 0 {
				out = append(out, i)
				impacts[i] = ps[j].impact
			}
		}
		return out, impacts
	}
	words := distinct(q.Words)
	words = words[:min(len(words), 4*MaxQuery)]
	type hits struct {
		docs    []int
		impacts map[int]uint8
	}
	var have []hits
	for _, w := range words {
		d, im := with(w)
		have = append(have, hits{d, im})
	}
	slices.SortStableFunc(have, func(a, b hits) int { return cmp.Compare(len(a.docs), len(b.docs)) })
	scores, best := map[int]uint32{}, uint32(0)
	for _, h := range have[:min(len(have), MaxQuery)] {
		best += rarity(uint32(len(h.docs)), uint32(len(docs))) * maxImpact
	}
	have = slices.DeleteFunc(have, func(h hits) bool { return len(h.docs) == 0 })
	for _, h := range have[:min(len(have), MaxQuery)] {
		r := rarity(uint32(len(h.docs)), uint32(len(docs)))
		for _, d := range h.docs[max(0, len(h.docs)-MaxPostings):] {
			scores[d] += r * uint32(h.impacts[d])
		}
	}
	var all []scored
	for i, d := range docs {
		if !slices.ContainsFunc(distinct(q.Labels), func(l text.Term) bool { return !slices.Contains(d.labels, l) }) &&
			(len(words) == 0 || scores[i] > 0) {
			all = append(all, scored{i, scores[i]})
		}
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.doc, a.doc)) })
	var out []Hit
	for _, s := range all[:min(len(all), q.Limit)] {
		h := Hit{doc: uint32(s.doc)}
		if best > 0 {
			h.Score = uint32(uint64(s.score) * 1000 / uint64(best))
		}
		out = append(out, h)
	}
	return out
}

// brute is the reference for many documents. It computes the postings of each document once and uses them for all
// queries.
type brute struct {
	docs  []document
	lists map[text.Term][]uint32 // numbers of documents, each with its weight in the low byte
}

func newBrute(docs []document) *brute {
	b := &brute{docs, map[text.Term][]uint32{}}
	for i, d := range docs {
		for _, p := range postings(d.words, d.labels) {
			b.lists[p.term] = append(b.lists[p.term], uint32(i)<<8|uint32(p.impact))
		}
	}
	return b
}

func (b *brute) search(q Query) []Hit {
	have := distinct(q.Words)
	slices.SortStableFunc(have, func(x, y text.Term) int { return cmp.Compare(len(b.lists[x]), len(b.lists[y])) })
	scores, best := make([]uint32, len(b.docs)), uint32(0)
	for _, t := range have {
		l := b.lists[t]
		r := rarity(uint32(len(l)), uint32(len(b.docs)))
		best += r * maxImpact
		for _, p := range l[max(0, len(l)-MaxPostings):] {
			scores[p>>8] += r * (p & 0xff)
		}
	}
	for _, label := range q.Labels {
		l := b.lists[label]
		l = l[max(0, len(l)-MaxPostings):]
		for i := range scores {
			if len(l) > 0 && l[0]>>8 == uint32(i) {
				l = l[1:]
			} else {
				scores[i] = 0
			}
		}
	}
	var all []uint64
	for i, s := range scores {
		if s > 0 {
			all = append(all, uint64(s)<<32|uint64(i))
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	var out []Hit
	for _, s := range all[:min(len(all), q.Limit)] {
		out = append(out, Hit{doc: uint32(s), Score: uint32(s >> 32 * 1000 / uint64(best))})
	}
	return out
}

// With hundreds of thousands of documents, a search must find the same documents as a comparison with each document.
// Some of the words that it searches for are rare in one large run and common in the next, some occur only in late
// documents, and one is in every document.
func TestASearchOfLargeRunsFindsWhatALookAtEveryDocumentFinds(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED in short mode: some hundred thousand documents")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	kv := newKV(t)
	x := Open(kv, []byte("x"))
	var docs []document
	words := make([]text.Term, 600)
	for i := range words {
		words[i] = text.Label("w", fmt.Sprint(i))
	}
	check := func() {
		t.Helper()
		b := newBrute(docs)
		for i := range 12 {
			q := Query{Limit: []int{1, 50, 200}[r.IntN(3)]}
			for range 1 + r.IntN(5) {
				q.Words = append(q.Words, words[r.IntN(len(words))])
			}
			if i%4 == 0 {
				q.Labels = append(q.Labels, text.Label("half", fmt.Sprint(r.IntN(2))))
			}
			q.Words = distinct(q.Words)
			want := b.search(q)
			if got, err := x.Search(q); err != nil || !slices.Equal(got, want) {
				t.Fatalf("%d documents, %d words, %d labels, limit %d, %v:\n got %v\nwant %v", len(docs), len(q.Words),
					len(q.Labels), q.Limit, err, clip(got), clip(want))
			}
		}
	}
	const n = widest*segment + large*segment + 3*segment + 77
	for i := range n {
		// A third of the words are in use only for a time: each of them is in documents of one part of the sequence.
		u := r.Float64()
		w := int(u * u * 400)
		if r.IntN(200) == 0 {
			w = 400 + (i/20_000*37+r.IntN(40))%200
		}
		d := document{fmt.Sprint(i), []text.Term{words[w], words[0]}, []text.Term{text.Label("half", fmt.Sprint(i%2))}}
		docs = append(docs, d)
		if err := x.Add(d.id, d.words, d.labels); err != nil {
			t.Fatal(err)
		}
		if i%2000 == 0 {
			kv.commit(t)
		}
		switch at := i + 1; at {
		// At some of these numbers of documents, some buckets are not merged yet. At the others, all are merged.
		case large*segment - 1, large*segment + 200, large*segment + segment, widest*segment + 1, widest*segment +
			300, widest*segment + segment:
			check()
		}
	}
	check()
	apart := 0
	for k := range kv.dump(t) {
		if len(k) == 1+1+6+4 && k[1] == keyCommon {
			apart++
		}
	}
	if apart < len(words)/2 {
		t.Errorf("%d lists lie apart: the test shows little of them", apart)
	}
}

// The test compares the runs in the state with those that runsOf computes from the number of documents alone. They must
// be the same.
func TestTheNumberOfDocumentsSaysWhichRunsThereAre(t *testing.T) {
	kv := newKV(t)
	x := Open(kv, []byte("x"))
	r := rand.New(rand.NewPCG(3, 3))
	for i := range 2*large*segment + 5*segment {
		// Many buckets have no postings of some segments.
		if err := x.Add("d", []text.Term{text.Label("w", fmt.Sprint(r.IntN(1+i%9*300)))}, nil); err != nil {
			t.Fatal(err)
		}
		if i%2000 == 0 {
			kv.commit(t)
		}
		// During merges of all widths.
		if at := i % (large * segment); i%17_777 != 0 && at != 300 && at != fanout*segment+100 && at != fanout*segment-1 {
			continue
		}
		for k := range kv.dump(t) {
			if len(k) != 1+1+2+4 || k[1] != keyRun {
				continue
			}
			bucket, first := uint64(binary.BigEndian.Uint16([]byte(k[2:]))), binary.BigEndian.Uint32([]byte(k[4:]))
			if firsts, _ := runsOf(bucket, uint32(i+1), nil); !slices.Contains(firsts, first) {
				t.Fatalf("after %d documents bucket %d has a run from segment %d, and is said to have %v", i+1, bucket, first,
					firsts)
			}
		}
	}
}

// made generates documents of words whose frequency falls with their rank, as in natural language.
func made(r *rand.Rand, n int) []document {
	word := func() text.Term {
		return text.Label("w", fmt.Sprint(int(math.Pow(2, 11*r.Float64()))))
	}
	docs := make([]document, n)
	for i := range docs {
		docs[i].id = fmt.Sprintf("b%06d", i)
		for range 1 + r.IntN(24) {
			docs[i].words = append(docs[i].words, word())
		}
		docs[i].labels = []text.Term{text.Label("agent", fmt.Sprint(r.IntN(3))),
			text.Label("session", fmt.Sprint(r.IntN(200)))}
	}
	return docs
}

func TestASearchFindsWhatALookAtEveryDocumentFinds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	spared := 0
	// The numbers are just below and above the size of a segment, and after two merges.
	for _, n := range []int{1, 511, 512, 513, 1300, 8*segment - 1, 8*segment + 300, 9*segment + 17} {
		kv, docs := newKV(t), made(r, n)
		x, memo := Open(kv, []byte("x")), NewMemo()
		if r.IntN(2) == 0 {
			x = x.With(memo)
		}
		for i, d := range docs {
			if err := x.Add(d.id, d.words, d.labels); err != nil {
				t.Fatal(err)
			}
			if i%500 == 499 {
				kv.commit(t)
			}
			// Now and then a search caches a part of the segment that is being filled.
			if r.IntN(300) == 0 {
				if _, err := Open(kv, []byte("x")).With(memo).Search(Query{Words: d.words, Limit: 1}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, err := x.Len(); err != nil || int(got) != n {
			t.Fatalf("%d documents, %v, want %d", got, err, n)
		}
		for range 12 {
			q := Query{Limit: []int{1, 10, 200, n + 1}[r.IntN(4)]}
			for range r.IntN(5) {
				q.Words = append(q.Words, text.Label("w", fmt.Sprint(int(math.Pow(2, 11*r.Float64())))))
			}
			if r.IntN(2) == 0 {
				q.Labels = append(q.Labels, text.Label("agent", fmt.Sprint(r.IntN(4))))
			}
			if r.IntN(3) == 0 {
				q.Labels = append(q.Labels, text.Label("session", fmt.Sprint(r.IntN(200))))
			}
			got, err := x.Search(q)
			if err != nil {
				t.Fatal(err)
			}
			for i, id := range ids(t, x, got) {
				if id != docs[got[i].doc].id {
					t.Fatalf("document %d has id %s, want %s", got[i].doc, id, docs[got[i].doc].id)
				}
			}
			if again, err := Open(kv, []byte("x")).With(memo).Search(q); err != nil || !slices.Equal(again, got) {
				t.Fatalf("%d documents: with a memo\n %v, %v, want\n %v", n, clip(again), err, clip(got))
			}
			if want := reference(docs, q); !slices.Equal(got, want) {
				t.Fatalf("%d documents, %d words, %d labels, limit %d:\n got %v\nwant %v", n, len(q.Words), len(q.Labels),
					q.Limit, clip(got), clip(want))
			}
		}
		spared += x.spared
	}
	if spared == 0 {
		t.Error("no search stopped looking for documents early: the test shows nothing of it")
	}
}

// ids returns the ids of the hits.
func ids(t *testing.T, x *Index, hits []Hit) []string {
	t.Helper()
	out := make([]string, len(hits))
	for i, h := range hits {
		var err error
		if out[i], err = x.ID(h); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func clip(h []Hit) []Hit { return h[:min(len(h), 8)] }

func TestTheLatestOfManyDocumentsCount(t *testing.T) {
	kv := newKV(t)
	x := Open(kv, []byte("x"))
	common, rare := text.Label("w", "common"), text.Label("w", "rare")
	const n = MaxPostings + 3*segment + 5
	for i := range n {
		words := []text.Term{common}
		if i < 2 {
			words = append(words, rare)
		}
		if err := x.Add(fmt.Sprint(i), words, nil); err != nil {
			t.Fatal(err)
		}
		if i%2000 == 0 {
			kv.commit(t)
		}
	}
	got, err := x.Search(Query{Words: []text.Term{common}, Limit: n})
	if err != nil || len(got) != MaxPostings || ids(t, x, got[:1])[0] != fmt.Sprint(n-1) ||
		ids(t, x, got[MaxPostings-1:])[0] != fmt.Sprint(n-MaxPostings) {
		t.Fatalf("%d hits, first %v, last %v, %v", len(got), got[0], got[len(got)-1], err)
	}
	// A rare term is found even though more than MaxPostings documents were added after it.
	got, err = x.Search(Query{Words: []text.Term{common, rare}, Limit: 2})
	if err != nil || !slices.Equal(ids(t, x, got), []string{"1", "0"}) {
		t.Fatalf("%v, %v", got, err)
	}
}

func TestTheSameDocumentsGiveTheSameState(t *testing.T) {
	docs := made(rand.New(rand.NewPCG(7, 7)), 8*segment+100)
	states := make([]map[string]string, 2)
	for i := range states {
		kv := newKV(t)
		x := Open(kv, []byte("x"))
		for j, d := range docs {
			// The second time the index has a cache, which is replaced by an empty one in between.
			if i == 1 && j%1333 == 700 {
				x = x.With(NewMemo())
			}
			if err := x.Add(d.id, d.words, d.labels); err != nil {
				t.Fatal(err)
			}
			// The writes are stored in batches of different sizes, as after a crash.
			if j%(400+300*i) == 0 {
				kv.commit(t)
			}
		}
		states[i] = kv.dump(t)
	}
	if len(states[0]) == 0 || len(states[0]) != len(states[1]) {
		t.Fatalf("%d and %d keys", len(states[0]), len(states[1]))
	}
	for k, v := range states[0] {
		if states[1][k] != v {
			t.Fatalf("key %x differs", k)
		}
	}
}

func TestIndexesBelowOtherPrefixesAreApart(t *testing.T) {
	kv := newKV(t)
	a, b := Open(kv, []byte("p\x00a")), Open(kv, []byte("p\x00b"))
	if err := a.Add("one", Words("the shoe size is 43"), nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Add("two", Words("shoe sizes differ"), nil); err != nil {
		t.Fatal(err)
	}
	got, err := a.Search(Query{Words: Words("SHOE sizes?"), Limit: 9})
	if err != nil || !slices.Equal(ids(t, a, got), []string{"one"}) {
		t.Fatalf("%v, %v", got, err)
	}
}

func TestRarityIsTheLogarithm(t *testing.T) {
	for _, c := range [][2]uint32{{1, 1}, {1, 1 << 20}, {3, 10}, {10, 10}, {0, 1000}, {65536, 1_000_000}} {
		want := math.Log2((float64(c[1]) + 1) / (float64(c[0]) + 0.5))
		if got := float64(rarity(c[0], c[1])) / 1024; math.Abs(got-want) > 0.002 {
			t.Errorf("rarity of %d in %d is %.4f, want %.4f", c[0], c[1], got, want)
		}
	}
}

func FuzzDamagedRunsAreErrors(f *testing.F) {
	l := list{term: 5}
	l.append(3, 9)
	l.append(700, 1)
	f.Add(l.encode(nil), uint64(5))
	f.Fuzz(func(t *testing.T, data []byte, term uint64) {
		found, ok, err := find(data, text.Term(term))
		if err == nil && ok && found.term != text.Term(term) {
			t.Fatal("found another term")
		}
		mergeRuns(0, []run{{0, data, false}, {4, data, false}}, func(*list) error { return nil })
	})
}

func TestPostingsHaveEachTermOnceWithTheWeightOfItsOccurrences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := func(name string, most int) []text.Term {
			all := rapid.SliceOfN(rapid.Uint64Range(1, 2*MaxTerms), 0, most).Draw(t, name)
			out := make([]text.Term, len(all))
			for i, v := range all {
				out[i] = text.Term(v << 38)
			}
			return out
		}
		words, labels := terms("words", 4*MaxTerms), terms("labels", 8)
		want, counts := make(map[text.Term]uint8), make(map[text.Term]int)
		for _, w := range words {
			if counts[w] > 0 || len(counts) < MaxTerms {
				counts[w]++
				want[w] = impact(counts[w], len(words))
			}
		}
		for _, l := range labels {
			if counts[l] == 0 {
				want[l] = 0
			}
		}
		got := make(map[text.Term]uint8)
		last := text.Term(0)
		for _, p := range postings(words, labels) {
			if p.term <= last {
				t.Fatalf("term %d follows %d", p.term, last)
			}
			got[p.term], last = p.impact, p.term
		}
		if !maps.Equal(got, want) {
			t.Fatalf("postings are %v, want %v", got, want)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	kv := newKV(b)
	x := Open(kv, []byte("x"))
	docs := made(rand.New(rand.NewPCG(1, 1)), 4096)
	i := 0
	for b.Loop() {
		d := docs[i%len(docs)]
		if err := x.Add(d.id, d.words, d.labels); err != nil {
			b.Fatal(err)
		}
		if i++; i%500 == 0 {
			kv.commit(b)
		}
	}
}

func TestASearchFindsWordsThatMeanTheSameBehindThoseThatAreTheSame(t *testing.T) {
	x := Open(newKV(t), []byte("x"))
	for _, s := range []string{"The physician visits on Mondays.", "Doctors are dear.", "Apples are ripe."} {
		if err := x.Add(s, Words(s), nil); err != nil {
			t.Fatal(err)
		}
	}
	words := Words("find a doctor")
	hits, err := x.Search(Query{Words: words, Near: Near(words), Limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range hits {
		id, err := x.ID(h)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, id)
	}
	if want := []string{"Doctors are dear.", "The physician visits on Mondays."}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestWordsMeetTheirOtherForms(t *testing.T) {
	for _, p := range [][2]string{{"cancellation", "cancelled"}, {"reserve", "reservations"}} {
		if a, b := Words(p[0]), Words(p[1]); !slices.Equal(a, b) {
			t.Errorf("%s and %s are different words", p[0], p[1])
		}
	}
}

func TestWordsThatNoDocumentHasTakeNoPlaceInASearch(t *testing.T) {
	x := Open(newKV(t), []byte("x"))
	for _, d := range []string{"the invoice of Acme is paid", "the boiler is mended"} {
		if err := x.Add(d, Words(d), nil); err != nil {
			t.Fatal(err)
		}
	}
	query := "boiler"
	for i := range 2 * MaxQuery {
		query = fmt.Sprintf("unheard%d ", i) + query
	}
	found, err := x.Search(Query{Words: Words(query), Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(t, x, found); !slices.Equal(got, []string{"the boiler is mended"}) {
		t.Errorf("found %q", got)
	}
}
