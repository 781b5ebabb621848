package text

import (
	"sync/atomic"

	porter2 "github.com/kljensen/snowball/english"
)

// maxStem is the maximum length in bytes of a word that is stemmed.
const maxStem = 24

// stems caches recent stems. Computing a stem takes microseconds, and texts have few different words.
var stems [1 << 14]atomic.Pointer[stemmed]

// stemmed is a word with the term of its stem.
type stemmed struct {
	word string
	term Term
}

// Stem returns the term of the words with this English stem, as [Terms] returns it.
func Stem(stem string) Term {
	h, _ := scanWord([]byte(stem), 0)
	return Term(h & mask48)
}

// stemTerm returns the term of the stem of a folded word. It uses the Porter2 stemmer for words of
// English letters, and removes frequent English endings from others.
func stemTerm(word []byte, hash uint64) Term {
	for _, c := range word {
		if c < 'a' || c > 'z' {
			h, _ := scanWord(withoutEnding(word), 0)
			return Term(h & mask48)
		}
	}
	if len(word) > maxStem {
		return Term(hash & mask48)
	}
	slot := &stems[hash%uint64(len(stems))]
	k := slot.Load()
	if k == nil || k.word != string(word) {
		w := string(word)
		h, _ := scanWord([]byte(porter2.Stem(w, true)), 0)
		k = &stemmed{w, Term(h & mask48)}
		slot.Store(k)
	}
	return k.term
}
