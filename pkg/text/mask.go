package text

import (
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maskText replaces removed text. Its brackets cannot be part of a token. So it does not form a new carrier together
// with the text around it.
const maskText = "[masked]"

// Mask replaces the spans of s, given as byte offsets, with [masked]. Spans that overlap or touch
// are merged. A span that begins or ends inside a character covers all of it. An empty span and a
// span outside s are ignored. Only Start and End of a span are used.
func Mask(s string, spans []Span) string {
	cuts := make([]Span, 0, len(spans))
	for _, c := range spans {
		if c.Start >= 0 && c.Start < c.End && c.End <= len(s) {
			cuts = append(cuts, Span{Start: charStart(s, c.Start), End: charEnd(s, c.End)})
		}
	}
	if len(cuts) == 0 {
		return s
	}
	slices.SortFunc(cuts, func(a, b Span) int { return a.Start - b.Start })
	var b strings.Builder
	b.Grow(len(s) + len(maskText))
	at := 0
	for i := 0; i < len(cuts); {
		start, end := cuts[i].Start, cuts[i].End
		for i++; i < len(cuts) && cuts[i].Start <= end; i++ {
			end = max(end, cuts[i].End)
		}
		b.WriteString(s[at:start])
		b.WriteString(maskText)
		at = end
	}
	b.WriteString(s[at:])
	return b.String()
}

// charStart returns the start of the character that contains byte i of s. Each byte that is not
// valid UTF-8 counts as a character.
func charStart(s string, i int) int {
	for k := 1; k < utf8.UTFMax && k <= i && i < len(s); k++ {
		if _, size := utf8.DecodeRuneInString(s[i-k:]); size > k {
			return i - k
		}
	}
	return i
}

func charEnd(s string, i int) int {
	start := charStart(s, i)
	if start == i {
		return i
	}
	_, size := utf8.DecodeRuneInString(s[start:])
	return start + size
}

// CarrierSpans returns the positions in s of the carriers of the given kinds, or of all carriers if
// no kind is given, in order of Start. The Kind of a span is the carrier's kind. Offsets are bytes
// of s, even if a carrier is only visible after hidden characters are removed.
//
// A span covers the whole token that contains the carrier. The span of a host covers the whole
// address, and the span of a private key in PEM covers its body up to the end mark (at most 16
// KiB). Unlike the list in [Features], the result has every occurrence, without a limit. Encoded
// text is not decoded.
func CarrierSpans(s string, kinds ...Kind) []Span {
	sc := newScratch()
	defer sc.free()
	clean, stretches := sc.align(s)
	var out []Span
	for _, m := range sc.marks(clean) {
		if len(kinds) > 0 && !slices.Contains(kinds, Kind(m.Kind)) {
			continue
		}
		m.Start, m.End = rawStart(stretches, m.Start), rawEnd(stretches, m.End)
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b Span) int { return a.Start - b.Start })
	return slices.CompactFunc(out, func(a, b Span) bool {
		return a.Kind == b.Kind && a.Start == b.Start && a.End == b.End
	})
}

// marks returns the positions of the carriers in a clean text.
func (sc *scratch) marks(clean string) []Span {
	sc.scanner.reset(clean, "", true) // the same settings as in Analyze, so that the same carriers are found
	sc.scanner.marking = true
	sc.scanner.scan(nil, Hidden{})
	marks := pairMarks(sc.scanner.marks)
	sc.scanner.marks = nil
	return marks
}

// stretch maps a part of a clean text to the part of the raw text that it was made from.
type stretch struct {
	clean, cleanEnd int
	raw, rawEnd     int
	same            bool // the two parts have the same bytes
}

// align returns the clean form of s and the mapping from its bytes back to s. It cleans one character with its marks at
// a time. It cuts only at boundaries across which NFKC changes nothing (UAX #15, section 9.1). One exception is a mark
// on an ASCII letter, which may be cut off from the letter. That does not affect carriers.
func (sc *scratch) align(s string) (string, []stretch) {
	if plainASCII(s) {
		return s, []stretch{{cleanEnd: len(s), rawEnd: len(s), same: true}}
	}
	var b strings.Builder
	b.Grow(len(s))
	var out []stretch
	var ignored Hidden
	for i := 0; i < len(s); {
		from := i
		for i < len(s) && byteClass[s[i]] < controlByte {
			i++
		}
		if i == from {
			i = charRun(s, i)
		}
		at, piece := b.Len(), sc.clean(s[from:i], &ignored)
		b.WriteString(piece)
		same := piece == s[from:i]
		if n := len(out) - 1; n >= 0 && same && out[n].same {
			out[n].cleanEnd, out[n].rawEnd = b.Len(), i
			continue
		}
		out = append(out, stretch{at, b.Len(), from, i, same})
	}
	return b.String(), out
}

// charRun returns the end of the character at byte i, including the marks and invisible characters
// that follow it.
func charRun(s string, i int) int {
	for first := true; i < len(s); first = false {
		c := s[i]
		switch {
		case byteClass[c] == controlByte:
			i += controlLen(s[i:])
			continue
		case c < utf8.RuneSelf:
			return i
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if !first && !invisible(r) && !isMark(r) && norm.NFKC.PropertiesString(s[i:]).BoundaryBefore() {
			return i
		}
		i += size
	}
	return i
}

func rawStart(stretches []stretch, i int) int {
	n := sort.Search(len(stretches), func(k int) bool { return stretches[k].cleanEnd > i })
	st := stretches[n]
	if st.same {
		return st.raw + i - st.clean
	}
	return st.raw
}

func rawEnd(stretches []stretch, i int) int {
	n := sort.Search(len(stretches), func(k int) bool { return stretches[k].cleanEnd >= i })
	st := stretches[n]
	if st.same {
		return st.raw + i - st.clean
	}
	return st.rawEnd
}
