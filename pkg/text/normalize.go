package text

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxMarks is the maximum number of combining marks that are kept on one character. Real scripts use three or four at
// most. Further marks are decoration, or are meant to make the text unreadable.
const maxMarks = 4

// Hidden counts characters that a person does not see but a model reads. Joiners and selectors that
// a script or an emoji needs are not counted.
type Hidden struct {
	ZeroWidth int `json:"z,omitzero"` // zero-width and other format characters
	Bidi      int `json:"b,omitzero"` // embeddings, overrides and isolates
	Tags      int `json:"t,omitzero"` // tag characters (U+E0000) outside flag emoji
	Selectors int `json:"v,omitzero"` // consecutive variation selectors, which can encode bytes
	Controls  int `json:"c,omitzero"` // C0 and C1 controls except white space
	Marks     int `json:"m,omitzero"` // combining marks above four on one character
}

// Any reports whether there are hidden characters.
func (h Hidden) Any() bool { return h != Hidden{} }

// atLeast raises each count of h to the same count of o if that is higher.
func (h *Hidden) atLeast(o Hidden) {
	h.ZeroWidth, h.Bidi, h.Tags = max(h.ZeroWidth, o.ZeroWidth), max(h.Bidi, o.Bidi), max(h.Tags, o.Tags)
	h.Selectors, h.Controls, h.Marks = max(h.Selectors, o.Selectors), max(h.Controls, o.Controls), max(h.Marks, o.Marks)
}

// Normalize returns the form in which texts are compared: NFKC in lower case, without invisible
// characters, with look-alikes of ASCII and Latin letters with diacritics folded to ASCII, with
// white space collapsed to single spaces and trimmed. It is idempotent. Invalid UTF-8 becomes
// U+FFFD.
//
// Use the result for recognition only. Texts that differ only in a look-alike have the same form,
// so equal forms do not make a text trusted.
func Normalize(s string) string {
	sc := newScratch()
	defer sc.free()
	var h Hidden
	return string(sc.fold(sc.clean(s, &h)))
}

// Classes of bytes for the fast paths.
const (
	plainByte   = iota
	spaceByte   // \t \n \v \f \r and space
	upperByte   // A-Z
	controlByte // other C0 controls, DEL
	highByte    // ≥ 0x80
)

var byteClass = func() (t [256]byte) {
	for c := range t {
		switch {
		case c >= 0x80:
			t[c] = highByte
		case c == ' ' || c >= '\t' && c <= '\r':
			t[c] = spaceByte
		case c < ' ' || c == 0x7f:
			t[c] = controlByte
		case c >= 'A' && c <= 'Z':
			t[c] = upperByte
		}
	}
	return t
}()

// plainASCII reports whether clean would return s unchanged.
func plainASCII(s string) bool {
	for i := range len(s) {
		if byteClass[s[i]] >= controlByte {
			return false
		}
	}
	return true
}

// clean returns s in NFKC without invisible characters. It keeps case and white space. It
// counts the dropped characters in h. If nothing had to change, the result is s itself.
func (sc *scratch) clean(s string, h *Hidden) string {
	if plainASCII(s) {
		return s
	}
	out := sc.cleaned[:0]
	run := sc.run[:0]
	prev := rune(-1) // the last input rune, whether it was dropped or not
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if byteClass[c] == controlByte {
				h.Controls++
				i += controlLen(s[i:])
				prev = rune(c)
				continue
			}
			if len(run) > 0 {
				out = appendNFKC(out, run, h)
				run = run[:0]
			}
			out = append(out, c)
			prev = rune(c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if invisible(r) {
			next, _ := utf8.DecodeRuneInString(s[i+size:])
			h.count(r, prev, next)
		} else if r == 0xfdfa || r == 0xfdfb {
			// U+FDFA and U+FDFB are kept unchanged, because NFKC would make U+FDFA eleven times as long.
			if len(run) > 0 {
				out = appendNFKC(out, run, h)
				run = run[:0]
			}
			out = utf8.AppendRune(out, r)
		} else {
			run = utf8.AppendRune(run, r)
			if r == blackFlag {
				size += flagTags(s[i+size:])
			}
		}
		prev = r
		i += size
	}
	if len(run) > 0 {
		out = appendNFKC(out, run, h)
	}
	sc.cleaned, sc.run = out, run
	return string(out)
}

// controlLen returns the length of the control at the start of s. A control is one byte, or a whole ANSI control
// sequence, which a terminal does not show.
func controlLen(s string) int {
	if s[0] != 0x1b || len(s) < 2 || s[1] != '[' {
		return 1
	}
	for i := 2; i < len(s) && i < 32; i++ {
		if s[i] >= 0x40 && s[i] <= 0x7e {
			return i + 1
		}
		if s[i] < 0x20 || s[i] > 0x3f {
			break
		}
	}
	return 1
}

// appendNFKC appends the NFKC form of run. run must have no ASCII characters. appendNFKC drops characters that are
// invisible after normalization, and more than maxMarks marks on one character.
func appendNFKC(out, run []byte, h *Hidden) []byte {
	from := len(out)
	if norm.NFKC.IsNormal(run) {
		out = append(out, run...)
	} else {
		out = norm.NFKC.Append(out, run...)
	}
	marks, w := 0, from
	for i := from; i < len(out); {
		r, size := utf8.DecodeRune(out[i:])
		switch {
		case r < utf8.RuneSelf:
			marks = 0
		case invisible(r):
			i += size // skip U+034F, which NFKC inserts in long stacks of marks
			continue
		case isMark(r):
			if marks++; marks > maxMarks {
				h.Marks++
				i += size
				continue
			}
		default:
			marks = 0
		}
		w += copy(out[w:], out[i:i+size])
		i += size
	}
	return out[:w]
}

// fold returns the normal form of a clean text. The result is valid until the next call.
func (sc *scratch) fold(clean string) []byte {
	out := sc.folded[:0]
	space := true    // true drops white space at the start
	compose := false // a mark follows a letter that was made lower case, so the result may need NFKC again
	lowered := false
	for i := 0; i < len(clean); {
		c := clean[i]
		switch byteClass[c] {
		case plainByte, controlByte:
			out = append(out, c)
			space = false
			i++
		case upperByte:
			out = append(out, c|0x20)
			space = false
			i++
		case spaceByte:
			if !space {
				out = append(out, ' ')
				space = true
			}
			i++
		default:
			r, size := utf8.DecodeRuneInString(clean[i:])
			i += size
			if unicode.IsSpace(r) {
				if !space {
					out = append(out, ' ')
					space = true
				}
				continue
			}
			from := len(out)
			out = appendFolded(out, r)
			compose = compose || lowered && len(out) > from && isMark(r)
			lowered = len(out)-from != size || string(out[from:]) != clean[i-size:i] || lowered && isMark(r)
			space = len(out) == 0 || out[len(out)-1] == ' '
		}
	}
	if n := len(out); n > 0 && out[n-1] == ' ' {
		out = out[:n-1]
	}
	sc.folded = out
	if compose {
		if composed := norm.NFKC.Bytes(out); len(composed) != len(out) {
			return sc.fold(string(composed))
		}
	}
	return out
}

func appendFolded(out []byte, r rune) []byte {
	if s, ok := folds.lookup(r); ok {
		return append(out, s...)
	}
	if isMark(r) && unicode.In(r, unicode.Mn, unicode.Me) && (len(out) == 0 || out[len(out)-1] < utf8.RuneSelf) {
		return out // drops a diacritic on an ASCII letter
	}
	l := lower(r)
	if l != r {
		if s, ok := folds.lookup(l); ok {
			return append(out, s...)
		}
	}
	return utf8.AppendRune(out, l)
}

// isMark reports whether r is a combining mark. It first compares r with ranges that have the letters of the common
// scripts, because that is fast.
func isMark(r rune) bool {
	if r < 0x300 || r >= 0x370 && r < 0x483 || r >= 0x3041 && r < 0x3099 || r >= 0x30a0 && r < 0xa66f ||
		r >= 0xac00 && r < 0xfb1e {
		return false
	}
	return unicode.Is(unicode.M, r)
}

// invisible reports whether r has no glyph in ordinary text.
func invisible(r rune) bool {
	switch {
	case r < 0xa0:
		return r >= 0x80 && r != 0x85 // C1 controls except NEL
	case r == 0xad, r == 0x34f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5,
		r == 0x2800, r == 0x3164, r == 0xfeff, r == 0xffa0:
		return true
	case r >= 0x180b && r <= 0x180f, r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e,
		r >= 0x2060 && r <= 0x206f, r >= 0xfe00 && r <= 0xfe0f, r >= 0xfff0 && r <= 0xfffb,
		r >= 0xe0000 && r <= 0xe0fff:
		return true
	case r < 0x600:
		return false
	}
	return unicode.Is(unicode.Cf, r)
}

const (
	blackFlag = 0x1f3f4
	tagFirst  = 0xe0000
	tagCancel = 0xe007f
)

// flagTags returns the length of the tag sequence at the start of s. Such a sequence of at most five letters and
// U+E007F makes the black flag before it the flag of a region. flagTags returns 0 if s does not begin with one.
func flagTags(s string) int {
	for i, n := 0, 0; i < len(s) && n < 6; n++ {
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		switch {
		case r == tagCancel && n > 1:
			return i
		case r < tagFirst+'0' || r > tagFirst+'z':
			return 0
		}
	}
	return 0
}

func (h *Hidden) count(r, prev, next rune) {
	switch {
	case r == 0xfeff && prev == -1: // a byte order mark
	case r < 0xa0:
		h.Controls++
	case r == 0x200c || r == 0x200d:
		// A joiner is normal only between letters of scripts that need it, and between emoji. All of these are at or
		// above U+0590.
		if prev < 0x590 || next < 0x590 || invisible(next) {
			h.ZeroWidth++
		}
	case r == 0x200e || r == 0x200f || r == 0x61c || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
		h.Bidi++
	case r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef:
		if prev == -1 || unicode.IsLetter(prev) && prev < 0x590 || invisible(prev) && prev != 0x200d {
			h.Selectors++
		}
	case r >= 0xe0000 && r <= 0xe007f:
		h.Tags++
	default:
		h.ZeroWidth++
	}
}
