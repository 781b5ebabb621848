package signals

import (
	"slices"
	"strings"

	"lazaret/pkg/text"
)

// asked has the stems of the words of a recall's query.
type asked struct {
	stems []string // sorted, each once; a query may have hundreds of thousands
	times []int    // by stem: how many of the query's words have it
	words int      // number of the query's words
	first [26]bool // first letters of the stems
}

func askedFor(query string) (a asked) {
	for w := range strings.FieldsFuncSeq(text.Normalize(query), notWord) {
		if len(w) < 3 {
			continue
		}
		a.stems = append(a.stems, stem(w))
		if i := w[0] - 'a'; i < 26 {
			a.first[i] = true
		}
	}
	a.words = len(a.stems)
	slices.Sort(a.stems)
	distinct := a.stems[:0]
	for _, s := range a.stems {
		if n := len(distinct); n > 0 && distinct[n-1] == s {
			a.times[n-1]++
			continue
		}
		distinct, a.times = append(distinct, s), append(a.times, 1)
	}
	a.stems = distinct
	return a
}

// may reports whether a word may have one of the stems. It compares only first letters: a stem begins with the same
// letter as its words.
func (a *asked) may(w string) bool {
	i := w[0] - 'a'
	return i >= 26 || a.first[i]
}

// overlap returns which share of the query's words occurs in a content, from 0 to 1.
func (a *asked) overlap(content string) float64 {
	if a.words == 0 {
		return 0
	}
	found, missing := make([]bool, len(a.stems)), a.words
	for w := range strings.FieldsFuncSeq(text.Normalize(content), notWord) {
		if !a.may(w) {
			continue
		}
		if i, ok := slices.BinarySearch(a.stems, stem(w)); ok && !found[i] {
			found[i] = true
			missing -= a.times[i]
		}
		if missing == 0 {
			break
		}
	}
	return float64(a.words-missing) / float64(a.words)
}
