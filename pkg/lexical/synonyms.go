package lexical

import (
	_ "embed"
	"strings"
	"sync"

	"lazaret/pkg/text"
)

// synonyms are sets of English stems that mean the same in one of their commoner
// senses, one set a line: from WordNet 3.1, whose licence is in synonyms.LICENSE.
//
//go:embed synonyms.txt
var synonyms string

// thesaurus has the sets, and of each term which ones it is in.
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

// Near are the terms that mean something like one of some words, in the order of the
// words: what Query.Near takes.
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
