package command

import (
	"iter"
	"unicode"
	"unicode/utf8"
)

// Feature is one hashed property of a sentence.
type Feature struct {
	Hash       uint32 // below 1 << Bits
	Start, End int    // byte range of the text that it describes
}

const (
	minWords        = 3  // a shorter sentence has no features
	maxWords        = 40 // a longer sentence is cut
	featuresPerWord = 9
)

// Sentences returns the features of each sentence of a text. The yielded slice is valid until the
// next iteration.
func Sentences(text string) iter.Seq[[]Feature] {
	return func(yield func([]Feature) bool) {
		var out [maxWords * featuresPerWord]Feature
		for s := range sentences(text) {
			if !yield(features(out[:0], s)) {
				return
			}
		}
	}
}

// sentences returns the words of each sentence that is long enough to have features. The yielded
// slice is valid until the next iteration.
func sentences(text string) iter.Seq[[]word] {
	return func(yield func([]word) bool) {
		var words [maxWords]word
		n := 0
		for i := 0; i < len(text); {
			if text[i] == ' ' && i+1 < len(text) {
				i++
				continue
			}
			r, size := utf8.DecodeRuneInString(text[i:])
			end := false
			switch {
			case isLetter(r):
				words[n], i = scanWord(text, i)
				n++
				end = n == maxWords
			case r == '\\' && i+1 < len(text) && (text[i+1] == 'n' || text[i+1] == 'r' || text[i+1] == 't'):
				end = true // the two characters of an escaped line end, as in quoted text
				i += 2
			default:
				end = endsSentence(text, i, r)
				i += size
			}
			if end || i >= len(text) {
				if n >= minWords && !yield(words[:n]) {
					return
				}
				n = 0
			}
		}
	}
}

func isLetter(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// endsSentence reports whether the character r at i ends a sentence or a value
// of structured text.
func endsSentence(text string, i int, r rune) bool {
	var before, after byte
	if i > 0 {
		before = text[i-1]
	}
	if i+1 < len(text) {
		after = text[i+1]
	}
	switch r {
	case '\n', '!', '?', ';', '{', '}', '[', ']', '|', '<', '>', '。', '•':
		return true
	case '.', ':':
		return !isLetter(rune(after))
	case '"', '\'':
		return after == ',' || after == ':' || after == '}'
	case ',':
		return before == '"' || before == '\''
	}
	return false
}

// word is a word of a sentence. All e-mail addresses have the same hash. So have all URLs, all names of programs and
// files, and all numbers. The model thus learns that a sentence has an address, but not which address.
type word struct {
	hash       uint64
	stem       uint64 // hash of the first five letters; 0 for a shorter word
	class      class
	start, end int
}

const (
	hashBasis = 14695981039346656037 // FNV-1a
	hashPrime = 1099511628211
	stemRunes = 5
)

func hashString(s string) uint64 {
	h := uint64(hashBasis)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * hashPrime
	}
	return h
}

var (
	identHash  = hashString("\x00ident")
	emailHash  = hashString("\x00email")
	urlHash    = hashString("\x00url")
	numberHash = hashString("\x00number")
)

// scanWord reads the word that begins at byte i. It returns the word and its end.
func scanWord(text string, i int) (w word, next int) {
	w = word{hash: hashBasis, start: i}
	runes, digits := 0, 0
	var upper, ident, email, url bool
	for i < len(text) {
		if c := text[i] | 0x20; 'a' <= c && c <= 'z' { // most letters
			isUpper := c != text[i]
			ident = ident || isUpper && runes > 0 && !upper // camelCase
			upper = isUpper
			w.hash = (w.hash ^ uint64(c)) * hashPrime
			if runes++; runes == stemRunes {
				w.stem = w.hash
			}
			i++
			continue
		}
		if text[i] == ' ' {
			break
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if !isLetter(r) {
			after, _ := utf8.DecodeRuneInString(text[i+size:])
			if !joins(r, after, text[i-1], url || email) {
				break
			}
			email = email || r == '@'
			url = url || r == ':' && after == '/'
			ident = ident || r == '_' || r == '.'
			i += size
			continue
		}
		lower := unicode.ToLower(r)
		ident = ident || lower != r && runes > 0 && !upper
		upper = lower != r
		if '0' <= r && r <= '9' {
			digits++
		}
		w.hash = hashRune(w.hash, lower)
		if runes++; runes == stemRunes {
			w.stem = w.hash
		}
		i += size
	}
	w.end = i
	switch {
	case email:
		w.hash, w.stem = emailHash, 0
	case url:
		w.hash, w.stem = urlHash, 0
	case digits == runes:
		w.hash, w.stem = numberHash, 0
	case digits > 0 || ident:
		w.hash, w.stem = identHash, 0
	case runes <= stemRunes:
		w.stem = 0
	}
	w.class = classOf(w.hash)
	return w, i
}

// joins reports whether r, which is not a letter, is inside a word and does not end it. before and after are the
// neighbors of r. address is set if the word so far is an e-mail address or a URL.
func joins(r, after rune, before byte, address bool) bool {
	switch r {
	case '\'', '’', '@', '_', '.':
		return isLetter(after)
	case ':':
		return after == '/'
	case '/':
		return address || before == ':' || before == '/'
	case '-':
		return address && isLetter(after)
	}
	return false
}

func hashRune(h uint64, r rune) uint64 {
	if r < utf8.RuneSelf {
		return (h ^ uint64(r)) * hashPrime
	}
	var b [utf8.UTFMax]byte
	for _, c := range b[:utf8.EncodeRune(b[:], r)] {
		h = (h ^ uint64(c)) * hashPrime
	}
	return h
}

// The kinds of features. The numbers are arbitrary. They separate the hashes of the kinds.
const (
	wordKind = iota + 1
	stemKind
	pairKind
	gapKind        // two words with one word between them
	classKind      // the classes of two words
	classesKind    // the classes of three words
	afterClassKind // a class and a word
	openKind       // a word that is the first of its sentence or follows a word without a class
)

func hashFeature(kind, a, b uint64) uint32 {
	h := (a ^ (b<<31 | b>>33) + kind*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return uint32((h ^ h>>33) & (1<<Bits - 1))
}

// features appends the features of one sentence.
func features(out []Feature, s []word) []Feature {
	c1, c2, c3 := begin, begin, begin
	for i, w := range s {
		c1, c2, c3 = c2, c3, w.class
		add := func(kind, a, b uint64, first int) {
			out = append(out, Feature{hashFeature(kind, a, b), s[first].start, w.end})
		}
		add(wordKind, w.hash, 0, i)
		if w.stem != 0 {
			add(stemKind, w.stem, 0, i)
		}
		one, two := max(0, i-1), max(0, i-2)
		add(classKind, uint64(c2), uint64(c3), one)
		add(classesKind, uint64(c1)<<8|uint64(c2), uint64(c3), two)
		if c2 == begin || c2 == other {
			add(openKind, uint64(c2), w.hash, one)
		}
		if i > 0 {
			add(pairKind, s[one].hash, w.hash, one)
			add(afterClassKind, uint64(c2), w.hash, one)
		}
		if i > 1 {
			add(gapKind, s[two].hash, w.hash, two)
		}
	}
	return out
}
