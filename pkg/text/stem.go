package text

import (
	"sync/atomic"

	porter2 "github.com/kljensen/snowball/english"
)

// maxStem is a length in bytes. Longer words are not stemmed.
const maxStem = 24

// stems caches recent stems, because computing one takes microseconds and texts have few different words. A word can be
// in one of two places, so two frequent words need not replace each other.
var stems [1 << 13][2]atomic.Pointer[stemmed]

// stemmed is a word with the term of its stem.
type stemmed struct {
	word string
	term Term
}

// Stem returns the term of all words with this English stem. It is the same term as in the result of [Terms].
func Stem(stem string) Term {
	h, _ := scanWord([]byte(stem), 0)
	return Term(h & mask48)
}

// stemTerm returns the term for the stem of a folded word. It uses the Porter2 stemmer for words that consist of
// English letters. From other words it only removes frequent English endings.
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
