package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Inert returns untrusted text in a form that is safe to print on a terminal. Line breaks and tabs
// stay. Every other control, format or invisible character becomes an escape such as \x1b or
// \u202e, and invalid UTF-8 becomes \xff. The result cannot move the cursor or change the order or
// color of the text around it.
func Inert(s string) string {
	i := 0
	for i < len(s) && (byteClass[s[i]] < controlByte) && s[i] != '\r' && s[i] != '\v' && s[i] != '\f' {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:i])
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			writeEscape(&b, rune(s[i]))
		case r == '\n' || r == '\t':
			b.WriteByte(byte(r))
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"):
		case unsafeToPrint(r):
			writeEscape(&b, r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// InertLine returns [Inert] of s on one line. It replaces each run of white space with one
// space. It cuts a text of more than n characters after n-1 of them and appends "…". If n is
// below 1, there is no limit.
func InertLine(s string, n int) string {
	var b strings.Builder
	count, cut := 0, 0 // characters written; and the length of b after n-1 characters, where a longer text is cut
	space := true
	for _, r := range Inert(s) {
		if unicode.IsSpace(r) {
			if space {
				continue
			}
			space, r = true, ' '
		} else {
			space = false
		}
		if count == n-1 {
			cut = b.Len()
		}
		if n >= 1 && count == n {
			if r == ' ' {
				continue // a space at the end is dropped, so it is no reason to cut
			}
			return strings.TrimRight(b.String()[:cut], " ") + "…"
		}
		b.WriteRune(r)
		count++
	}
	return strings.TrimRight(b.String(), " ")
}

func unsafeToPrint(r rune) bool {
	return r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 || invisible(r) ||
		!unicode.IsPrint(r) && !unicode.IsSpace(r)
}

const hexDigits = "0123456789abcdef"

func writeEscape(b *strings.Builder, r rune) {
	digits := 2
	switch {
	case r > 0xffff:
		b.WriteString(`\U`)
		digits = 8
	case r > 0xff:
		b.WriteString(`\u`)
		digits = 4
	default:
		b.WriteString(`\x`)
	}
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		b.WriteByte(hexDigits[r>>shift&0xf])
	}
}
