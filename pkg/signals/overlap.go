package signals

import (
	"slices"
	"strings"

	"lazaret/pkg/text"
)

// asked has the stems of the words of a recall's query.
type asked struct {
	stems []string // a slice, because queries have few words
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
	n := len(a.stems)
	if n == 0 {
		return 0
	}
	wanted := slices.Clone(a.stems)
	for w := range strings.FieldsFuncSeq(text.Normalize(content), notWord) {
		if !a.may(w) {
			continue
		}
		s := stem(w)
		wanted = slices.DeleteFunc(wanted, func(q string) bool { return q == s })
		if len(wanted) == 0 {
			break
		}
	}
	return float64(n-len(wanted)) / float64(n)
}
