package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The two markers are lines of the form
//
//	<<<lazaret-data 0123456789ab label>>>
//	<<<lazaret-end 0123456789ab>>>
//
// Both begin with the same delimiter, which no content keeps: one that reads
// as it is broken up.
const (
	markBrackets = "<<<"
	markWord     = "lazaret"
	delimiter    = markBrackets + markWord
	openMark     = delimiter + "-data "
	closeMark    = delimiter + "-end "
	markTail     = ">>>"
	brokenMark   = "·" + markWord // in the place of a delimiter in the content

	maxLabel = 80  // characters, the width of a terminal
	maxNote  = 300 // characters, some three lines of it
)

// Spotlight wraps text that nobody vouches for between two marker lines, so
// that a model can be told that nothing between them is an instruction. The
// idea is delimiting, from Hines et al., "Defending Against Indirect Prompt
// Injection Attacks With Spotlighting" (2024).
//
// The markers carry a tag, the first 12 hexadecimal digits of the SHA-256 of
// the content between them. The paper draws a random one, to make it hard to
// guess; here the same content must give the same text, and what makes a marker
// unforgeable is that its delimiter is broken up wherever the content has it,
// in look-alikes, in any case, with spaces or hidden characters inside. All
// other content stays as it is, byte for byte. The label, which may come from
// outside too, is reduced to one line of at most 80 characters without angle
// brackets.
//
// It marks and does not disarm: a model may still follow what it reads.
func Spotlight(s, label string) string {
	s = neutral(s)
	tag := shortDigest(s)
	label = cleanLabel(label)
	if label != "" {
		label = " " + label
	}
	return openMark + tag + label + markTail + "\n" + s + "\n" + closeMark + tag + markTail
}

// Unspotlight takes apart what [Spotlight] made and returns the content as it
// stands between the markers. It is not ok for anything else: markers of
// another form, a tag that is not that of the content, a delimiter inside. The
// tag has no key, so that ok says that the form is whole and not who made it.
func Unspotlight(s string) (content, label string, ok bool) {
	first, rest, ok := strings.Cut(s, "\n")
	last := strings.LastIndexByte(rest, '\n')
	tagEnd := len(openMark) + 12
	if !ok || last < 0 || len(first) < tagEnd+len(markTail) || !strings.HasSuffix(first, markTail) {
		return "", "", false
	}
	content = rest[:last]
	label = strings.TrimPrefix(first[tagEnd:len(first)-len(markTail)], " ")
	if Spotlight(content, label) != s {
		return "", "", false
	}
	return content, label, true
}

// Annotate puts a note before a text, on a line of its own. The note is reduced
// to one line of at most 300 characters without control or hidden characters,
// and cannot hold a marker of [Spotlight]. Without a note the text stays as it
// is.
func Annotate(s, note string) string {
	note = neutral(InertLine(note, maxNote))
	if note == "" {
		return s
	}
	return note + "\n" + s
}

func cleanLabel(label string) string {
	return InertLine(strings.Map(func(r rune) rune {
		switch seen := seenAs(r); {
		case strings.Contains(seen, "<"):
			return '('
		case strings.Contains(seen, ">"):
			return ')'
		}
		return r
	}, Inert(label)), maxLabel)
}

// neutral breaks up every delimiter in s: each stretch of it that reads as one
// becomes ·lazaret. The dot cannot be a part of a delimiter, nor, not being
// ASCII, of a terminal's control sequence that would swallow it; so what stands
// around it cannot make a new delimiter of it.
//
// A model reads a control sequence as it is written, and [Normalize] without
// it; there must be no delimiter either way.
func neutral(s string) string {
	if !strings.ContainsAny(s, "zZ") && plainASCII(s) {
		return s
	}
	s = breakDelimiters(s, func(string) int { return 1 })
	if strings.Contains(s, "\x1b[") {
		s = breakDelimiters(s, controlLen)
	}
	return s
}

// breakDelimiters is one reading of neutral; skip is the length of the control
// at the start of a text.
func breakDelimiters(s string, skip func(string) int) string {
	var b strings.Builder
	done := 0                      // bytes of s that are in b
	matched, starts := 0, [3]int{} // bytes of the delimiter that were read, and where the last brackets stand
	for i := 0; i < len(s); {
		from, seen := i, ""
		if c := s[i]; byteClass[c] == controlByte {
			i += skip(s[i:])
			continue
		} else if c < utf8.RuneSelf {
			i++
			if byteClass[c] == upperByte {
				c |= 0x20
			}
			if byteClass[c] == spaceByte {
				continue
			}
			matched = step(matched, c, from, &starts)
		} else {
			r, size := utf8.DecodeRuneInString(s[i:])
			i += size
			seen = seenAs(r)
			for k := range len(seen) {
				if matched = step(matched, seen[k], from, &starts); matched == len(delimiter) {
					break
				}
			}
		}
		if matched == len(delimiter) {
			b.WriteString(s[done:starts[0]])
			b.WriteString(brokenMark)
			done, matched = i, 0
		}
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// step reads one more byte at offset at, after n bytes of the delimiter, and
// returns how many of them it has then. starts are the offsets of the last
// three brackets: of more than three in a row, the delimiter has the last.
func step(n int, c byte, at int, starts *[3]int) int {
	switch {
	case c == '<' && n <= len(markBrackets):
		starts[0], starts[1], starts[2] = starts[1], starts[2], at
		return min(n+1, len(markBrackets))
	case c == '<':
		starts[2] = at
		return 1
	case n >= len(markBrackets) && c == delimiter[n]:
		return n + 1
	}
	return 0
}

// seenAs returns what a character reads as, in lower case; nothing for white
// space, marks and what is invisible.
func seenAs(r rune) string {
	if r >= utf8.RuneSelf && (invisible(r) || unicode.IsSpace(r)) {
		return ""
	}
	return strings.TrimSpace(Normalize(string(r)))
}
