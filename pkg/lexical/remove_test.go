package lexical

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lazaret/pkg/text"
)

// twins are an index from which documents were removed, and a list of the documents that are left.
type twins struct {
	t    testing.TB
	r    *rand.Rand
	kv   *pebbleKV
	x    *Index
	left []document
	doc  map[string]uint32
	n    uint32
}

func newTwins(t testing.TB) *twins {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	kv := newKV(t)
	return &twins{t: t, r: rand.New(rand.NewPCG(seed, 1)), kv: kv, x: Open(kv, []byte("x")).With(NewMemo()),
		doc: make(map[string]uint32)}
}

func (w *twins) add(d document) {
	w.t.Helper()
	if err := w.x.Add(d.id, d.words, d.labels); err != nil {
		w.t.Fatal(err)
	}
	w.left = append(w.left, d)
	w.doc[d.id] = w.n
	if w.n++; w.n%2000 == 0 {
		w.kv.commit(w.t)
	}
}

// remove removes the documents for which gone returns true.
func (w *twins) remove(gone func(i int) bool) {
	w.t.Helper()
	var left []document
	for i, d := range w.left {
		if !gone(i) {
			left = append(left, d)
			continue
		}
		if ok, err := w.x.Remove(w.doc[d.id], "another"); ok || err != nil {
			w.t.Fatalf("a document is removed under another's id: %v, %v", ok, err)
		}
		if ok, err := w.x.Remove(w.doc[d.id], d.id); !ok || err != nil {
			w.t.Fatalf("%s was not removed: %v", d.id, err)
		}
		if ok, err := w.x.Remove(w.doc[d.id], d.id); ok || err != nil {
			w.t.Fatalf("%s was removed twice: %v", d.id, err)
		}
	}
	w.left = left
	w.kv.commit(w.t)
}

// sweep calls Sweep with the given room until it has finished, and calls between after each call.
func (w *twins) sweep(room int, between func()) (steps int) {
	w.t.Helper()
	for {
		left, err := w.x.Sweep(room)
		if err != nil {
			w.t.Fatal(err)
		}
		if steps++; left > 0 {
			return steps
		}
		if steps > 1_000_000 {
			w.t.Fatal("a sweep does not end")
		}
		between()
	}
}

func (w *twins) query() Query {
	q := Query{Limit: []int{1, 10, 200}[w.r.IntN(3)]}
	d := w.left[w.r.IntN(len(w.left))]
	for range w.r.IntN(5) {
		q.Words = append(q.Words, d.words[w.r.IntN(len(d.words))])
	}
	if w.r.IntN(3) == 0 {
		q.Labels = append(q.Labels, d.labels[w.r.IntN(len(d.labels))])
	}
	if w.r.IntN(3) == 0 {
		q.Near = w.left[w.r.IntN(len(w.left))].words
	}
	return q
}

type idScore struct {
	id    string
	score uint32
}

func (w *twins) search(x *Index, q Query) (out []idScore) {
	w.t.Helper()
	hits, err := x.Search(q)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range hits {
		id, err := x.ID(h)
		if err != nil {
			w.t.Fatalf("a search finds document %d, which has no id: %v", h.doc, err)
		}
		out = append(out, idScore{id, h.Score})
	}
	return out
}

// find checks that a search finds a document that is left, and that no search finds a removed one.
func (w *twins) find() {
	w.t.Helper()
	there := make(map[string]bool, len(w.left))
	for _, d := range w.left {
		there[d.id] = true
	}
	for range 20 {
		q := w.query()
		q.Near = nil
		for _, h := range w.search(w.x, q) {
			if !there[h.id] {
				w.t.Fatalf("%s is found, which was removed", h.id)
			}
		}
		d := w.left[w.r.IntN(len(w.left))]
		if got := w.search(w.x, Query{Labels: []text.Term{text.Label("id", d.id)}, Limit: 2}); len(got) != 1 ||
			got[0].id != d.id {
			w.t.Fatalf("%s is not found: %v", d.id, got)
		}
	}
}

// same checks that the index gives the same results as an index to which only the documents that are left were added.
func (w *twins) same() {
	w.t.Helper()
	kv := newKV(w.t)
	fresh := Open(kv, []byte("x"))
	for i, d := range w.left {
		if err := fresh.Add(d.id, d.words, d.labels); err != nil {
			w.t.Fatal(err)
		}
		if i%2000 == 0 {
			kv.commit(w.t)
		}
	}
	if n, err := w.x.Living(); int(n) != len(w.left) || err != nil {
		w.t.Fatalf("the index has %d documents, want %d: %v", n, len(w.left), err)
	}
	for range 100 {
		q := w.query()
		if got, want := w.search(w.x, q), w.search(fresh, q); !slices.Equal(got, want) {
			w.t.Fatalf("%+v:\n got %v\nwant %v", q, got[:min(len(got), 8)], want[:min(len(want), 8)])
		}
	}
	for k := range w.kv.dump(w.t) {
		if k[1] == keyDead || k[1] == keySweep {
			w.t.Fatalf("the index has key %q after a sweep", k)
		}
	}
}

// Documents are removed, and the index is swept in steps of any size while other documents are added. Then searches
// must give the same results as in an index to which only the documents that are left were added.
func TestASweptIndexGivesTheResultsOfAnIndexOfTheDocumentsThatAreLeft(t *testing.T) {
	w := newTwins(t)
	more := func(n int) {
		for _, d := range made(w.r, n) {
			d.id = fmt.Sprint("d", w.n)
			d.labels = append(d.labels, text.Label("id", d.id))
			w.add(d)
		}
	}
	sizes := []int{700, 5_000, 3, 2_000}
	if !testing.Short() {
		sizes = append(sizes, large*segment+700, 3, 5_000, 700, 2_000)
	}
	first := w.r.IntN(4)
	for round, n := range sizes {
		more(n)
		switch (first + round) % 4 {
		case 0: // the oldest
			at := w.r.IntN(len(w.left))
			w.remove(func(i int) bool { return i < at })
		case 1: // the latest documents, also those in the segment that is being filled
			at := w.r.IntN(len(w.left)) + 1
			w.remove(func(i int) bool { return i >= at })
		case 2:
			w.remove(func(i int) bool { return w.r.IntN(3) > 0 && i > 0 })
		default:
			w.remove(func(i int) bool { return w.r.IntN(200) == 0 && i > 0 })
		}
		w.find()
		n = 0
		w.sweep(1+w.r.IntN(200_000), func() {
			if n++; n%7 == 1 && n < 100 {
				more(w.r.IntN(40))
				w.find()
			}
			if n == 20 { // a removal begins a sweep again
				w.remove(func(i int) bool { return i > 0 && i%50 == 0 })
			}
		})
		w.same()
	}
}

// Two spans of the largest runs must be joined when few of their documents are left. So the number of runs does not
// grow with the number of documents that were ever added.
func TestLargeRunsOfWhichLittleIsLeftAreJoined(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED in short mode: half a million documents")
	}
	w := newTwins(t)
	more := func(n int) {
		for range n {
			id := fmt.Sprint("d", w.n)
			u := w.r.Float64()
			w.add(document{id, []text.Term{text.Label("w", fmt.Sprint(int(u*u*900)))},
				[]text.Term{text.Label("id", id), text.Label("half", fmt.Sprint(w.n%2))}})
		}
	}
	more(2*widest*segment + 2*segment)
	// Of the first documents, remove all except every thousandth.
	w.remove(func(i int) bool { return i < 400_000 && i%1000 > 0 })
	n := 0
	w.sweep(1<<20, func() {
		if n++; n == 5 {
			more(30)
			w.remove(func(i int) bool { return i > 0 && i%1000 == 0 })
		}
		if n%20 == 5 {
			w.find()
		}
	})
	w.remove(func(i int) bool { return i < len(w.left)-20_000 })
	w.sweep(1<<20, func() {})
	w.same()
	spans, err := w.x.spans()
	if err != nil {
		t.Fatal(err)
	}
	if len(spans) != 2 {
		t.Errorf("there are %d spans, want 2: %v", len(spans), spans)
	}
}
