package text

import porter2 "github.com/kljensen/snowball/english"

// A stem costs microseconds, and texts repeat their words: each scratch keeps the
// stems that it made last.
const (
	keptStems = 2048
	maxStem   = 24 // bytes of a word that has a stem
)

// keptStem is the term of a word's stem.
type keptStem struct {
	word [maxStem]byte
	n    int
	term Term
}

// Stem is the term of words with an English stem, as [Terms] has it.
func Stem(stem string) Term {
	h, _ := scanWord([]byte(stem), 0)
	return Term(h & mask48)
}

// stem is the term of a folded word: of English letters by the Porter2 stemmer, of
// others without the commonest English endings.
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
