package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// shortLine is a length in bytes. A shorter line was broken on purpose. A line that an editor wrapped is longer.
const shortLine = 45

// lines returns the normal form of a clean text, with a mark at each place where a clause may begin: at a line break
// (unless the line before it was only wrapped), a list mark, a dash, a symbol, and a capital letter after a full stop.
// Joined words that read as a phrase are split. The result is valid until the next call of lines or fold.
func (sc *scratch) lines(s string) []byte {
	buf := sc.marked[:0]
	changed := false
	line := 0 // start of the line
	skip := skipMarks(s)
	for i := skip; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			// half a character: drop it, as a model may, so that the two parts of the word are joined
			case r == utf8.RuneError:
			case partsClauses(r):
				buf, changed = append(buf, recordBreak), true
			default:
				buf = append(buf, s[i:i+size]...)
			}
			i += size
			continue
		}
		if byteClass[c] != spaceByte {
			var parted bool
			i, buf, parted = appendWord(buf, s, i)
			changed = changed || parted
			continue
		}
		next, breaks := i, false
		for next < len(s) && byteClass[s[next]] == spaceByte {
			breaks = breaks || s[next] != ' '
			next++
		}
		if !breaks || next == len(s) {
			buf = append(buf, ' ')
			i = next
			continue
		}
		marks := skipMarks(s[next:])
		if marks > 0 || i-line < shortLine || !continues(s[next:]) || strings.IndexByte(".!?:;", s[max(0, i-1)]) >= 0 {
			buf, changed = append(buf, recordBreak), true
		} else {
			buf = append(buf, ' ')
		}
		i = next + marks
		line = next
	}
	sc.marked = buf
	out := sc.fold(string(buf))
	if changed {
		for i, c := range out {
			if c == recordBreak {
				out[i] = clauseBreak
			}
		}
	}
	return out
}

// partsClauses reports whether r is a dash, a bullet, an arrow or another symbol, at which a clause may begin.
func partsClauses(r rune) bool {
	switch {
	case r == '·', r == '«', r == '»', r == '¶':
		return true
	case r < 0x2010, r >= 0x3041 && r <= 0x9fff, r >= 0xac00 && r <= 0xd7a3:
		return false // mostly letters
	}
	return unicode.In(r, unicode.Pd, unicode.Po, unicode.So, unicode.Sm)
}

// hasBreaks reports whether lines may return something else than the normal form of s. If not, lines need not be
// called.
func hasBreaks(s string) bool {
	inside := false // the previous byte is inside a word or ends a sentence
	for i := range len(s) {
		c := s[i]
		switch byteClass[c] {
		case highByte:
			return true
		case spaceByte:
			if c != ' ' {
				return true
			}
			inside = false
		case upperByte:
			if inside {
				return true
			}
			inside = true
		default:
			if inside && (c == '_' || c == '-' || c == '.' || c == '+') && i+1 < len(s) && isAlnum(s[i+1]) {
				return true
			}
			inside = inside || isAlnum(c)
		}
	}
	return skipMarks(s) > 0
}

// appendWord appends the byte or the joined word at byte i of s to buf. It returns the end of what it appended. parted
// is set if it appended a mark for the beginning of a clause.
func appendWord(buf []byte, s string, i int) (end int, to []byte, parted bool) {
	c := s[i]
	if !isAlnum(c) {
		return i + 1, append(buf, c), false
	}
	if beginsSentence(s, i) {
		buf, parted = append(buf, recordBreak), true
	}
	end = i + wordEnd(s[i:])
	for k := i + 1; k < end; k++ {
		if s[k-1] == '.' && beginsPhrase(s[k:end]) && !inAddress(s, i, end) {
			return k, append(append(buf, s[i:k]...), recordBreak), true // place.DeleteTheFile
		}
	}
	if spaced, ok := spread(buf, s[i:end], s[end:]); ok && !inAddress(s, i, end) {
		if end < len(s) && s[end] == ':' && nameFollows(s[end:]) && !isPhrase(s[i:end]) {
			end++ // deleteFile: budget.xlsx
		}
		return end, spaced, parted
	}
	// A sentence may begin after a full stop inside the word.
	for k := i + 1; k < end; k++ {
		if s[k-1] == '.' && beginsSentence(s, k) {
			return k, append(buf, s[i:k]...), parted
		}
	}
	return end, append(buf, s[i:end]...), parted
}

// continues reports whether the line s continues the sentence of the line before it.
func continues(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLower(r)
}

// skipMarks returns the length of the marks at the start of a line that make it a list item, a heading or a quotation.
func skipMarks(s string) int {
	i := 0
	for i < len(s) {
		rest := s[i:]
		switch c := rest[0]; {
		case c == ' ' || c == '\t':
			i++
		case strings.IndexByte("-*+#>|=~", c) >= 0:
			n := len(rest) - len(strings.TrimLeft(rest, string(c)))
			if n < len(rest) && rest[n] != ' ' && rest[n] != '\t' && (c != '-' && c != '*' && c != '>' ||
				tokenClass[rest[n]]&inUpper == 0) {
				return i
			}
			i += n
		case tokenClass[c] == inDigit:
			n := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
			if n > 3 || n+1 >= len(rest) || rest[n] != '.' && rest[n] != ')' || rest[n+1] != ' ' {
				return i
			}
			i += n + 2
		default:
			return i
		}
	}
	return i
}
