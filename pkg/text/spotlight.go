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
// Both begin with the same delimiter, <<<lazaret. The content between the markers cannot contain the delimiter:
// Spotlight changes every text that reads as one.
const (
	markBrackets = "<<<"
	markWord     = "lazaret"
	delimiter    = markBrackets + markWord
	openMark     = delimiter + "-data "
	closeMark    = delimiter + "-end "
	markTail     = ">>>"
	brokenMark   = "·" + markWord // replaces a marker that occurs in the content

	maxLabel = 80  // characters, the width of a terminal
	maxNote  = 300 // characters; about three terminal lines
)

// Spotlight wraps untrusted text between two marker lines, so that a model can be told that nothing between them is an
// instruction. The technique is delimiting, from Hines et al., "Defending Against Indirect Prompt Injection Attacks
// With Spotlighting" (2024).
//
// The markers have a tag: the first 12 hexadecimal digits of the SHA-256 of the content. The paper uses a random tag
// instead, which is hard to guess. Here the tag is not random, because equal contents must give equal results. The
// content cannot contain a forged marker, because Spotlight changes every delimiter in it. It also finds a delimiter
// that is written with look-alikes, in other case, or with spaces or hidden characters. All other content is unchanged.
// The label may be untrusted too. It is reduced to one line of at most 80 characters without angle brackets.
//
// Spotlight marks text but does not make it harmless: a model may still follow it.
func Spotlight(s, label string) string {
	s = neutral(s)
	tag := shortDigest(s)
	label = cleanLabel(label)
	if label != "" {
		label = " " + label
	}
	return openMark + tag + label + markTail + "\n" + s + "\n" + closeMark + tag + markTail
}

// Unspotlight parses the output of [Spotlight] and returns the content between the markers. ok is false for any other
// text: markers of another form, a tag that does not match the content, a delimiter in the content. The tag has no key,
// so anybody can compute it. ok says that the form is intact, not who made it.
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

// Annotate puts a note before a text, on a separate line. The note is reduced to one line of at
// most 300 characters without control or hidden characters, and cannot contain a marker of
// [Spotlight]. If the note is empty, Annotate returns the text unchanged.
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

// neutral changes every part of s that reads as a delimiter: <<<lazaret becomes ·lazaret. The dot cannot be part of a
// delimiter. It is not ASCII, so it cannot be part of a terminal control sequence either. Therefore the text around it
// cannot form a new delimiter.
//
// A model reads the characters of a control sequence, and [Normalize] drops them. So there are two readings of s.
// neutral changes the delimiters of both.
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

// breakDelimiters changes the delimiters in one reading of s: with control sequences, or without them. skip returns the
// length of the control at the start of a text that this reading leaves out.
func breakDelimiters(s string, skip func(string) int) string {
	var b strings.Builder
	done := 0                      // bytes of s that were copied to b
	matched, starts := 0, [3]int{} // bytes of the delimiter matched so far, and offsets of the last three brackets
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

// step reads byte c at offset at, when n bytes of the delimiter have been matched, and returns the new number of
// matched bytes. starts has the offsets of the last three brackets. If more than three brackets follow each other, the
// last three belong to the delimiter.
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

// seenAs returns the normal form of a character, or "" for white space, marks and invisible
// characters.
func seenAs(r rune) string {
	if r >= utf8.RuneSelf && (invisible(r) || unicode.IsSpace(r)) {
		return ""
	}
	return strings.TrimSpace(Normalize(string(r)))
}
