package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// VerbatimSpan reports whether text stands in within, word for word and from
// word boundary to word boundary, with at least one word. Case, the amount of
// white space and punctuation around text do not matter.
//
// Unlike views and fingerprints it may decide what counts as somebody's own
// words, so it does not fold look-alikes, and text with characters that a
// person does not see is never a span of anything. It says nothing of meaning:
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

// matchAtBoundaries is the search of Knuth, Morris and Pratt: an attacker
// chooses both texts, and looking again after each occurrence that is not at
// word boundaries would be quadratic.
func matchAtBoundaries(needle, hay string) bool {
	border := make([]int32, len(needle)) // longest proper border of needle[:i+1]
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

// wordBoundary reports whether no word goes on across byte i of s.
func wordBoundary(s string, i int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	after, _ := utf8.DecodeRuneInString(s[i:])
	return i == 0 || i == len(s) || notOfWord(before) || notOfWord(after)
}

// plain is the normal form without folding look-alikes.
func (sc *scratch) plain(s string, h *Hidden) string {
	return strings.ToLower(strings.Join(strings.Fields(sc.clean(s, h)), " "))
}

func notOfWord(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
}
