package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// VerbatimSpan reports whether within contains text word for word, from word boundary to word
// boundary. text must have at least one word. Case, the amount of white space, and punctuation
// around text do not matter.
//
// The result may decide whether text counts as the user's own words. Therefore look-alikes are not
// folded, and a text with hidden characters never matches. The result says nothing about meaning:
// "pay him" is a span of "do not pay him".
func VerbatimSpan(text, within string) bool {
	sc := newScratch()
	defer sc.free()
	var h, ignored Hidden
	needle := sc.plain(text, &h)
	if h.Any() {
		return false
	}
	needle = strings.TrimFunc(needle, notOfWord)
	if needle == "" {
		return false
	}
	hay := sc.plain(within, &ignored)
	if len(needle) > len(hay) || !strings.Contains(hay, needle) {
		return false
	}
	return matchAtBoundaries(needle, hay)
}

// matchAtBoundaries uses the Knuth-Morris-Pratt search, because an attacker may choose both texts. A search that
// restarts after each occurrence that is not at word boundaries could take quadratic time.
func matchAtBoundaries(needle, hay string) bool {
	border := make([]int32, len(needle)) // length of the longest proper border of needle[:i+1]
	for i, k := 1, int32(0); i < len(needle); i++ {
		for k > 0 && needle[i] != needle[k] {
			k = border[k-1]
		}
		if needle[i] == needle[k] {
			k++
		}
		border[i] = k
	}
	matched := int32(0)
	for i := range len(hay) {
		for matched > 0 && hay[i] != needle[matched] {
			matched = border[matched-1]
		}
		if hay[i] == needle[matched] {
			matched++
		}
		if int(matched) < len(needle) {
			continue
		}
		if wordBoundary(hay, i+1-len(needle)) && wordBoundary(hay, i+1) {
			return true
		}
		matched = border[matched-1]
	}
	return false
}

// wordBoundary reports whether byte i of s is a word boundary.
func wordBoundary(s string, i int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	after, _ := utf8.DecodeRuneInString(s[i:])
	return i == 0 || i == len(s) || notOfWord(before) || notOfWord(after)
}

// plain returns the normal form of s, except that look-alikes are not folded.
func (sc *scratch) plain(s string, h *Hidden) string {
	return strings.ToLower(strings.Join(strings.Fields(sc.clean(s, h)), " "))
}

func notOfWord(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
}
