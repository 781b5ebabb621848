package lexical

import (
	_ "embed"
	"strings"
	"sync"

	"lazaret/pkg/text"
)

// synonyms has sets of English stems, one set per line. The words of a set have the same meaning in one of their more
// frequent senses. The sets are from WordNet 3.1, whose license is in synonyms.LICENSE.
//
//go:embed synonyms.txt
var synonyms string

// thesaurus has the sets of synonyms and, for each term, the indexes of the sets that contain it.
type thesaurus struct {
	sets [][]text.Term
	of   map[text.Term][]int32
}

var shipped = sync.OnceValue(func() *thesaurus {
	t := &thesaurus{of: make(map[text.Term][]int32, 24<<10)}
	for line := range strings.Lines(synonyms) {
		var set []text.Term
		for s := range strings.FieldsSeq(line) {
			x := text.Stem(s)
			set = append(set, x)
			t.of[x] = append(t.of[x], int32(len(t.sets)))
		}
		t.sets = append(t.sets, set)
	}
	return t
})

// Near returns the synonyms of words, in the order of words. The result is meant for Query.Near.
func Near(words []text.Term) []text.Term {
	t := shipped()
	var out []text.Term
	for _, w := range words {
		for _, i := range t.of[w] {
			for _, x := range t.sets[i] {
				if x != w {
					out = append(out, x)
				}
			}
		}
	}
	return out
}
