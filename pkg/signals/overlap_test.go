package signals

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lazaret/pkg/text"
)

func TestOverlapCountsTheQuerysWords(t *testing.T) {
	word := rapid.SampledFrom([]string{"invoice", "invoices", "pay", "paid", "to", "bank", "Größe", "日本語", "12"})
	words := rapid.SliceOfN(word, 0, 12)
	rapid.Check(t, func(rt *rapid.T) {
		query, content := words.Draw(rt, "query"), words.Draw(rt, "content")
		n, hit := 0, 0
		for _, q := range query {
			if q = text.Normalize(q); len(q) < 3 {
				continue
			}
			n++
			if slices.ContainsFunc(content, func(w string) bool { return stem(text.Normalize(w)) == stem(q) }) {
				hit++
			}
		}
		want := 0.0
		if n > 0 {
			want = float64(hit) / float64(n)
		}
		a := askedFor(strings.Join(query, " "))
		if got := a.overlap(strings.Join(content, " ")); got != want {
			rt.Errorf("%q in %q: %v, not %v", query, content, got, want)
		}
	})
}

// An agent may ask with a query of 1 MiB, and its recalls are judged in the same loop as the actions of others.
func TestALargeQueryTakesNoQuadraticTime(t *testing.T) {
	var query, content strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&query, "a%04x ", i)
		if i < 10_000 {
			fmt.Fprintf(&content, "b%04x ", i)
		}
	}
	query.WriteString("bank")
	began := time.Now()
	a := askedFor(query.String())
	for range 5 {
		if got := a.overlap(content.String()); got != 0 {
			t.Fatalf("the overlap is %v", got)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}
