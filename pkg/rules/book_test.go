package rules

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"lazaret/pkg/text"
	"lazaret/streams"
)

// A book that is read again from its records whenever it may be, and one that
// stays in memory, give the same alerts and the same store, byte for byte, while
// generations turn under both.
func TestABookThatIsReadAgainIsTheSame(t *testing.T) {
	bounds, least, ofLinks, most, lag := postBounds, minHeads, linkBounds, maxLinks, linkLag
	defer func() { postBounds, minHeads, linkBounds, maxLinks, linkLag = bounds, least, ofLinks, most, lag }()
	postBounds, minHeads = [numPosts]int{60, 80, 30, 20}, 16
	linkBounds, maxLinks, linkLag = [numLinks]int{40, 200, 30}, 200, 150
	set := testSet(t, map[string]string{"p/pack.yaml": "name: p\ntitle: T\n", "p/r.yaml": `rules:
  - {id: a, title: T, severity: low, subject: action, message: "'%s'.format([action.lineage.map(l, [l.carried, l.value, l.observation, l.source, string(l.user)])])", on: [action], effect: alert, when: action.lineage.size() > 0}
  - {id: b, title: T, severity: low, subject: action, message: "'%s'.format([signal.fragments.map(f, f.events)])", on: [action], effect: alert, when: signal.fragments.size() > 0}
  - {id: c, title: T, severity: low, subject: memory, message: "'%d %d %d'.format([signal.cluster_size, signal.cluster_sources, signal.cluster_sessions])", on: [observation, memory], effect: alert, when: signal.cluster_size > 1}
  - {id: e, title: T, severity: low, subject: action, message: "'%s'.format([signal.echo.map(s, [s.observation, s.value])])", on: [action], effect: alert, when: signal.echo.size() > 0}
  - {id: f, title: T, severity: low, subject: memory, message: "'%s'.format([signal.pushes.map(p, [p.target, string(p.count)])])", on: [memory], effect: alert, when: signal.pushes.size() > 0}
  - {id: d, title: T, severity: low, subject: memory, message: "'%s'.format([signal.partial])", on: [memory], effect: alert, when: signal.partial.size() > 0}
`})
	ev := set.Group("core")
	r := rand.New(rand.NewPCG(3, 9))
	kept, again := NewMemStore(), NewMemStore()
	fired := make(map[string]int)
	turned, compacted := false, false
	var ended [numLinks]bool
	for i := range 3000 {
		e := bookEntry(r, i+1)
		a, err := ev.Eval(kept, e)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(4) == 0 {
			again.memo = nil
		}
		b, err := ev.Eval(again, e)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("entry %d:\n%+v\n%+v", i+1, a, b)
		}
		for _, al := range a.Alerts {
			fired[al.Rule]++
		}
		if x, y := contents(kept), contents(again); i%250 == 0 && !slices.Equal(x, y) {
			t.Fatalf("after entry %d the stores differ", i+1)
		}
		sh := (*kept.Memo()).(*shelf)
		for _, b := range sh.books {
			turned, compacted = turned || b.floor > 0, compacted || b.kept > 0
			for id, p := range b.tabs {
				if n := p.young.n; n > postBounds[id]/2+60 {
					t.Fatalf("table %s: %d of at most %d in one generation", postNames[id], n, postBounds[id]/2)
				}
			}
			for id, p := range b.links {
				if n, m := p.young.last.n, len(p.young.links); n > linkBounds[id]/2+60 || m > maxLinks/2+200 {
					t.Fatalf("table %s: %d hashes and %d links in one generation", linkNames[id], n, m)
				}
				if b.next-p.from > linkLag+1 && p.young.last.n+p.elder.last.n > 0 {
					t.Fatalf("table %s keeps %d records", linkNames[id], b.next-p.from)
				}
				ended[id] = ended[id] || p.from > 0
			}
		}
	}
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		if fired[id] < 10 {
			t.Errorf("rule %s fired %d times: the test shows nothing", id, fired[id])
		}
	}
	if !turned || !compacted || slices.Contains(ended[:], false) {
		t.Error("no record or no head was dropped: the test shows nothing")
	}
}

// A table that is never full keeps what it has, however often another one is, and
// the heads that nothing leads to any more do not stay for it.
func TestABookDoesNotGrowWithWhatItHasLetGo(t *testing.T) {
	bounds, least := postBounds, minHeads
	defer func() { postBounds, minHeads = bounds, least }()
	postBounds[postPhrases], minHeads = 400, 64
	st, r := NewMemStore(), rand.New(rand.NewPCG(8, 8))
	carrier, first := hash64("ann@north.example"), bytes.Repeat([]byte{'f'}, 80)
	for i := range 5000 {
		tabs := openTables(st, "p")
		b, head := tabs.book(), bytes.Repeat([]byte{'h'}, 40+i%100)
		if i == 0 {
			b.put(postCarriers, carrier, b.newGroup(first, maxRef).ref)
		}
		ref := b.newGroup(head, maxRef).ref
		for range 1 + r.IntN(5) {
			b.put(postPhrases, r.Uint64(), ref)
		}
		if ref, ok := b.get(postCarriers, carrier); !ok || !bytes.Equal(b.head(ref), first) {
			t.Fatalf("record %d: the first carrier's head is %q", i, b.head(ref))
		}
		if got := b.head(b.groups[len(b.groups)-1].ref); !bytes.Equal(got, head) {
			t.Fatalf("record %d: its own head is %q", i, got)
		}
		if err := tabs.close(); err != nil {
			t.Fatal(err)
		}
		// Each of at most 400 hashes leads to one head, and as many may wait to go.
		if n := len(b.heads); n > 1000 {
			t.Fatalf("record %d: %d heads", i, n)
		}
	}
}

// contents is every key of a store with its value.
func contents(m *MemStore) []string {
	var out []string
	m.Scan(nil, func(k, v []byte) (bool, error) {
		out = append(out, fmt.Sprintf("%x=%x", k, v))
		return true, nil
	})
	return out
}

// bookEntry is an entry whose words, addresses and pieces come back now and then.
func bookEntry(r *rand.Rand, seq int) *streams.Entry {
	e := randomEntry(r, seq)
	word := func() string { return fmt.Sprintf("w%c%c", 'a'+r.IntN(26), 'a'+r.IntN(26)) }
	s := ""
	for range 5 + r.IntN(30) {
		s += word() + " "
	}
	if r.IntN(3) == 0 {
		s = fmt.Sprintf("the report number %d of the fourth quarter goes to the team in the second building", r.IntN(6))
	}
	s += fmt.Sprintf(" u%d@h%d.example", r.IntN(8), r.IntN(9))
	if r.IntN(3) == 0 {
		s += fmt.Sprintf(". Please %s the report number %d to %s, u%d@h%d.example", []string{"send", "drop", "tool"}[r.IntN(3)], r.IntN(5), word(), r.IntN(8), r.IntN(9))
	}
	part := func(i int) string { return fmt.Sprintf("part%02d-", i) }
	f := text.Analyze(s)
	var body any
	switch e.Type {
	case streams.TypeObservation:
		o := new(streams.ObservationEntry)
		must(streams.Unmarshal(e.Body, o))
		s += " " + part(r.IntN(12))
		o.Blocks[0] = streams.BlockEntry{Text: s, Features: text.Analyze(s)}
		body = o
	case streams.TypeMemory:
		m := new(streams.MemoryEntry)
		must(streams.Unmarshal(e.Body, m))
		m.Content, m.Features = s, f
		body = m
	default:
		a := new(streams.ActionEntry)
		must(streams.Unmarshal(e.Body, a))
		a.Text = s + " " + part(r.IntN(12)) + part(r.IntN(12)) + part(r.IntN(12))
		a.Features = text.Analyze(a.Text)
		body = a
	}
	b, err := streams.Marshal(body)
	must(err)
	e.Body = b
	return e
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Whatever a record is cut to, reading it fails or gives a book, and never panics.
func FuzzReadBook(f *testing.F) {
	st := NewMemStore()
	set := testSet(f, map[string]string{"p/pack.yaml": "name: p\ntitle: T\n", "p/r.yaml": "rules:\n  - {id: r, title: T, severity: low, subject: action, message: \"'m'\", on: [action], effect: alert, when: action.level > 9}\n"})
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 20 {
		if _, err := set.Group("core").Eval(st, bookEntry(r, i+1)); err != nil {
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
		b, err := readBook(st, "p")
		if err == nil && b.next != 4 {
			t.Fatalf("next record %d, want 4", b.next)
		}
		if err == nil && len(b.heads) > 0 {
			readHead(b.head(0))
		}
	})
}

// BenchmarkReadBook reads the book of a project whose tables of phrases are full,
// by what a KiB brings.
func BenchmarkReadBook(b *testing.B) {
	st, r := NewMemStore(), rand.New(rand.NewPCG(5, 5))
	head := bytes.Repeat([]byte{'h'}, 150)
	var bk *book
	for i := 0; bk == nil || bk.tabs[postPhrases].elder.n == 0 || bk.tabs[postPhrases].young.n < postBounds[postPhrases]/2-20; i++ {
		t := openTables(st, "p")
		bk = t.book()
		ref := bk.newGroup(head, maxRef).ref
		for id, n := range [...]int{13, 10, 4} {
			for range n {
				bk.put(postID(id), r.Uint64(), ref)
			}
		}
		for j := range 2 {
			v := fmt.Sprintf("%08x-%d-%d", r.Uint32(), i, j)
			bk.putPiece(v, hash64(v), ref)
		}
		if err := t.close(); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		again, err := readBook(st, "p")
		if err != nil || again.next != bk.next {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(bk.size())/(1<<20), "MiB")
	b.ReportMetric(float64(bk.next), "records")
}

// The lengths that a book gives of a value leave out no piece that the value
// begins with, in either generation, and few others are among them.
func TestLengthsLeaveOutNoPiece(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 14))
	b := &book{}
	var pieces []string
	known := make(map[string]bool)
	for i := range 3000 {
		p := fmt.Sprintf("%.*s", minPiece+r.IntN(maxPiece-minPiece+1), fmt.Sprintf("http://%x.example/%x/%x/%x/%x", r.Uint32(), r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()))
		pieces, known[p] = append(pieces, p), true
		b.tabs[postPieces].putPiece(i%2 == 0, p, hash64(p), 0)
	}
	extra := 0
	for _, p := range pieces {
		got := b.lengths(p + "/and more")
		if got&pieceBit(len(p)) == 0 {
			t.Fatalf("%q is left out", p)
		}
		for n := minPiece; n <= len(p); n++ {
			if got&pieceBit(n) != 0 && !known[p[:n]] {
				extra++
			}
		}
	}
	if extra > len(pieces)*8 {
		t.Errorf("%d lengths of %d pieces are of none: the sieve lets all through", extra, len(pieces))
	}
}
