package text

import (
	"sync/atomic"

	porter2 "github.com/kljensen/snowball/english"
)

// maxStem is the maximum length in bytes of a word that is stemmed.
const maxStem = 24

// stems caches recent stems. Computing a stem takes microseconds, and texts have few different words.
// A word is in one of two places, so that two frequent words do not replace each other.
var stems [1 << 13][2]atomic.Pointer[stemmed]

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
	slots := &stems[hash%uint64(len(stems))]
	last := slots[0].Load()
	if last != nil && last.word == string(word) {
		return last.term
	}
	if k := slots[1].Load(); k != nil && k.word == string(word) {
		return k.term
	}
	w := string(word)
	h, _ := scanWord([]byte(porter2.Stem(w, true)), 0)
	k := &stemmed{w, Term(h & mask48)}
	slots[1].Store(last)
	slots[0].Store(k)
	return k.term
}
