package text

import porter2 "github.com/kljensen/snowball/english"

// Computing a stem takes microseconds and texts repeat words, so each scratch caches recent stems.
const (
	keptStems = 2048
	maxStem   = 24 // maximum length in bytes of a word that is stemmed
)

// keptStem is a cached word with the term of its stem.
type keptStem struct {
	word [maxStem]byte
	n    int
	term Term
}

// Stem returns the term of the words with this English stem, as [Terms] returns it.
func Stem(stem string) Term {
	h, _ := scanWord([]byte(stem), 0)
	return Term(h & mask48)
}

// stem returns the term of a folded word. It uses the Porter2 stemmer for words of English letters,
// and removes frequent English endings from others.
func (sc *scratch) stem(word []byte, hash uint64) Term {
	for _, c := range word {
		if c < 'a' || c > 'z' {
			h, _ := scanWord(withoutEnding(word), 0)
			return Term(h & mask48)
		}
	}
	if len(word) > maxStem {
		return Term(hash & mask48)
	}
	if sc.stems == nil {
		sc.stems = new([keptStems]keptStem)
	}
	k := &sc.stems[hash%keptStems]
	if k.n != len(word) || string(k.word[:k.n]) != string(word) {
		h, _ := scanWord([]byte(porter2.Stem(string(word), true)), 0)
		k.n, k.term = copy(k.word[:], word), Term(h&mask48)
	}
	return k.term
}
