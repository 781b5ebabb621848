package lexical

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"lazaret/pkg/text"
)

// zipfian generates n documents of about twenty words each. The frequency of a word falls with its rank, as in natural
// language. Each document also has one word that no other document has. The labels are like those that ingest gives to
// a text that was read.
func zipfian(r *rand.Rand, n int, fn func(i int, words, labels []text.Term)) {
	vocabulary := make([]text.Term, 2300)
	for i := range vocabulary {
		vocabulary[i] = Words(fmt.Sprintf("word%cx%d", 'a'+i%26, i))[0]
	}
	for i := range n {
		words := make([]text.Term, 0, 32)
		for range 12 + r.IntN(16) {
			u := r.Float64()
			words = append(words, vocabulary[int(u*u*float64(len(vocabulary)))])
		}
		words = append(words, Words(fmt.Sprintf("number%d", i))...)
		labels := []text.Term{text.Label("sum", fmt.Sprint(i)), text.Label("kind", "content"),
			text.Label("origin", "document"), text.Label("event", fmt.Sprint(i)),
			text.Label("agent", "a"), text.Label("session", fmt.Sprint(i/100)), text.Label("source", fmt.Sprint(i%5000))}
		fn(i, words, labels)
	}
}

// BenchmarkSearch searches for three to seven words in an index on disk. LAZARET_BENCH_DOCS is the number of documents,
// 50,000 by default.
func BenchmarkSearch(b *testing.B) {
	n := 50_000
	if s := os.Getenv("LAZARET_BENCH_DOCS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	cache := pebble.NewCache(24 << 20)
	defer cache.Unref()
	db, err := pebble.Open(b.TempDir(), &pebble.Options{Cache: cache, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		b.Fatal(err)
	}
	kv := &pebbleKV{db, db.NewIndexedBatch()}
	b.Cleanup(func() { kv.batch.Close(); db.Close() })
	x := Open(kv, []byte("x"))
	r := rand.New(rand.NewPCG(1, 1))
	zipfian(r, n, func(i int, words, labels []text.Term) {
		if err := x.Add(strconv.Itoa(i), words, labels); err != nil {
			b.Fatal(err)
		}
		if i%2000 == 0 {
			kv.commit(b)
		}
	})
	kv.commit(b)
	var queries [][]text.Term
	zipfian(r, 200, func(_ int, words, _ []text.Term) { queries = append(queries, words[:3+r.IntN(5)]) })
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := x.Search(Query{Words: queries[i%len(queries)], Limit: 50}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
