package signals

import (
	"slices"
	"unicode/utf8"

	"lazaret/pkg/intent"
)

// The words of texts and of calls are split and compared in the same way as in package intent.

func hash32(s string) uint32                { return intent.Hash(s) }
func notWord(r rune) bool                   { return intent.NotWord(r) }
func stem(w string) string                  { return intent.Stem(w) }
func stemHash(w string) uint32              { return intent.StemHash(w) }
func splitName(name string) []string        { return intent.SplitName(name) }
func distinct(hs []uint32) []uint32         { return intent.Distinct(hs) }
func sentenceHashes(ws []string) []uint32   { return intent.Words(ws) }
func wholeName(tool string) string          { return intent.WholeName(tool) }
func hasHash(words []uint32, h uint32) bool { return intent.Has(words, h) }
func count(words, of []uint32) int          { return intent.Count(words, of) }

// maxNames is the maximum number of identifiers that are stored for a text.
const maxNames = 64

// identifiers returns the hashes of those words in a text that look like names of tools, because they have a capital
// letter or an underscore inside. Each counts as one word.
func identifiers(s string) []uint32 {
	s = s[:min(len(s), 64<<10)]
	var out []uint32
	start, odd := -1, false // start is where the word begins; odd says whether the word may have several parts
	end := func(i int) {
		if w := s[max(start, 0):i]; start >= 0 && odd && len(w) >= 6 && len(w) <= 100 && len(out) < maxNames &&
			len(splitName(w)) >= 2 {
			if h := stemHash(wholeName(w)); !slices.Contains(out, h) {
				out = append(out, h)
			}
		}
		start, odd = -1, false
	}
	for i := 0; i < len(s); {
		size := 1
		class := nameByte[s[i]]
		if class == nameRune {
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			if class = nameOdd; notWord(r) {
				class = nameNone
			}
		}
		switch {
		case class == nameNone:
			if start >= 0 {
				end(i)
			}
		case start < 0:
			start = i
			fallthrough
		default:
			// A word of small letters has only one part, so it need not be split.
			odd = odd || class == nameOdd
		}
		i += size
	}
	end(len(s))
	return distinct(out)
}

// The class of a byte in a name: not part of a name, a small letter, another byte of a name, or the first byte of a
// rune that must be examined.
const (
	nameNone = iota
	nameSmall
	nameOdd
	nameRune
)

var nameByte = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= utf8.RuneSelf:
			t[c] = nameRune
		case c >= 'a' && c <= 'z':
			t[c] = nameSmall
		case !notWord(rune(c)) || c == '_' || c == '.' || c == '-':
			t[c] = nameOdd
		}
	}
	return t
}()
