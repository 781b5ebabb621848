package text

import (
	"html"
	"slices"
	"strings"
	"unicode/utf8"
)

// Segment is a part of a content that is read separately. It is a string of a JSON, YAML or Python document, a cell of
// a table, the text of an HTML or XML element, or the plain text between such parts. A content without any of these
// notations is one segment.
type Segment struct {
	// Text is decoded and clean: escapes and character references are resolved, tags and invisible
	// characters are removed, line breaks are kept.
	Text string
	// Key is the name of the member, column or element that contains the text.
	Key string
	// Record is the number of the object, row or element that contains the text. Adjacent segments with the same number
	// belong to the same record.
	Record int
}

// Segments splits a content at its notation. It also splits a string that has a notation itself (JSON in a string of
// JSON), to a depth of five. The parser is lenient, as models are. It reads broken, truncated and embedded documents as
// far as possible and leaves no text out. Time and size are linear in the content.
func Segments(content string) []Segment {
	sc := newScratch()
	defer sc.free()
	var h Hidden
	g := &sc.segmenter
	g.run(sc, sc.clean(content, &h))
	return slices.Clone(g.segs)
}

// Limits of a segmenter.
const (
	maxNested   = 5
	maxSegments = 4096 // the texts of further segments are appended to the last one
	maxTag      = 4096 // bytes of one tag
	maxKey      = 64   // bytes; a longer key is treated as text
)

// segmenter splits one clean text into segments.
type segmenter struct {
	sc      *scratch
	segs    []Segment
	split   []string // the decoded strings inside a document that were split into more than one segment
	hidden  Hidden   // hidden characters that decoding revealed
	record  int
	decoded bool // the text of a segment differs from the bytes that it was read from
	rest    strings.Builder
}

func (g *segmenter) run(sc *scratch, clean string) {
	*g = segmenter{sc: sc, segs: g.segs[:0], split: g.split[:0]}
	g.read(clean, "", 0)
	if g.rest.Len() > 0 {
		g.segs = append(g.segs, Segment{Text: g.rest.String(), Record: g.record})
	}
}

// plain reports whether the whole text is one unchanged segment.
func (g *segmenter) plain() bool { return !g.decoded && len(g.segs) <= 1 }

// join returns the texts of all segments, one per line.
func (g *segmenter) join() string {
	n := 0
	for i := range g.segs {
		n += len(g.segs[i].Text) + 1
	}
	var b strings.Builder
	b.Grow(n)
	for i := range g.segs {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(g.segs[i].Text)
	}
	return b.String()
}

// Separators in [View.Lines].
const (
	clauseBreak  = '\n'
	segmentBreak = '\x1f'
	recordBreak  = '\x1e'
)

// linesOf returns [View.Lines] for the clean text that g has read. normal is the normal form of this text.
func (g *segmenter) linesOf(clean, normal string) string {
	switch {
	case !g.plain():
		return g.lines()
	case hasBreaks(clean):
		return string(g.sc.lines(clean))
	}
	return normal
}

// whole returns the normal form of the strings that were split, one after the other.
func (g *segmenter) whole() string {
	var out []byte
	for i, s := range g.split {
		if i > 0 {
			out = append(out, recordBreak)
		}
		var h Hidden // the segments of the string have been counted
		out = append(out, g.sc.fold(g.sc.clean(s, &h))...)
	}
	return string(out)
}

// lines returns the lines of the segments.
func (g *segmenter) lines() string {
	var out []byte
	for i := range g.segs {
		switch {
		case i == 0:
		case g.segs[i].Record != g.segs[i-1].Record:
			out = append(out, recordBreak)
		default:
			out = append(out, segmentBreak)
		}
		out = append(out, g.sc.lines(g.segs[i].Text)...)
	}
	return string(out)
}

func (g *segmenter) add(s, key string, depth int) {
	if depth > 0 {
		s = g.sc.clean(s, &g.hidden) // decoding may have revealed hidden characters
	}
	if s = strings.TrimSpace(s); s == "" {
		return
	}
	if len(g.segs) >= maxSegments {
		g.rest.WriteString(s)
		g.rest.WriteByte('\n')
		return
	}
	g.segs = append(g.segs, Segment{Text: s, Key: key, Record: g.record})
}

// One bit for each character that a notation needs. A text without the character does not have the notation.
const (
	signQuote = 1 << iota
	signTag
	signEntity
	signEscape
	signLine
	signComma
)

var signs = [256]uint8{'"': signQuote, '\'': signQuote, '<': signTag, '&': signEntity, '\\': signEscape, '\n': signLine,
	',': signComma, ';': signComma, '|': signComma, '\t': signComma}

func signsOf(s string) (m uint8) {
	for i := range len(s) {
		m |= signs[s[i]]
	}
	return m
}

// read splits a text in any notation.
func (g *segmenter) read(s, key string, depth int) {
	before := len(g.segs)
	g.readNotation(s, key, depth)
	if depth > 0 && len(g.segs) > before+1 {
		g.split = append(g.split, s)
	}
}

func (g *segmenter) readNotation(s, key string, depth int) {
	m := signsOf(s)
	if m == 0 || depth == maxNested {
		g.add(s, key, depth)
		return
	}
	first := strings.TrimLeft(s, " \t\r\n\ufeff")
	if m&signQuote != 0 && !strings.HasPrefix(first, "<") && g.literals(s, key, depth) {
		return
	}
	g.text(s, key, m, depth)
}

// text splits a text without quoted strings.
func (g *segmenter) text(s, key string, m uint8, depth int) {
	if depth == maxNested {
		g.add(s, key, depth)
		return
	}
	if m&signTag != 0 && g.markup(s, key, depth) {
		return
	}
	if m&signEntity != 0 {
		if u := html.UnescapeString(s); u != s {
			g.decoded = true
			g.read(u, key, depth+1)
			return
		}
	}
	if m&signEscape != 0 && bareEscapes(s) {
		g.decoded = true
		g.read(decodeEscapes(s), key, depth+1)
		return
	}
	if m&(signLine|signComma) == signLine|signComma && g.table(s, depth) {
		return
	}
	g.add(s, key, depth)
}

// literals splits a text at its quoted strings. A quoted string counts only where a document has one: after a brace,
// comma or colon, and before one of these. literals reports whether the text has such a string.
func (g *segmenter) literals(s, key string, depth int) bool {
	from, found := 0, false
	last := byte('{') // the last byte that is not a space; the start of the text counts as after a brace
	tag := false      // inside a tag, quotes belong to attributes
	name := ""
	document := strings.IndexByte("{[\"'", strings.TrimLeft(s, " \t\r\n\ufeff")[0]) >= 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c != '"' && c != '\'') || tag || !opensLiteral(s, i, last) {
			if byteClass[c] != spaceByte {
				tag = c == '<' && i+1 < len(s) && asciiLetter(s[i+1]) || tag && c != '>'
				last = c
			}
			continue
		}
		end, ok := literalEnd(s, i)
		if !ok && document && end == len(s) {
			ok = true // the document is cut off
		}
		if !ok {
			last = c
			continue
		}
		found = true
		if k := g.between(s[from:i], depth); k != "" {
			name = k
		}
		raw := s[i+1 : end]
		u := unquote(raw, c)
		g.decoded = g.decoded || u != raw
		i, from = end, min(end+1, len(s))
		last = c
		next := strings.TrimLeft(s[from:], " \t\r\n")
		switch isKey := strings.HasPrefix(next, ":"); {
		case isKey && len(u) <= maxKey && u == raw && strings.Count(u, " ") < 2 && !isPhrase(u):
			name = u
		case isKey:
			g.read(u, "", depth+1)
			name = cutText(u, maxKey)
		default:
			g.read(u, name, depth+1)
			if !isPhrase(name) && isCommand(name, " "+u) {
				g.read(name+" "+u, "", depth+1) // "deleteFile":"budget.xlsx"
			}
			if !strings.HasPrefix(next, ",") {
				name = ""
			}
		}
	}
	if found {
		g.between(s[from:], depth)
	}
	return found
}

// opensLiteral reports whether a quotation mark may open a string, given the byte before it.
func opensLiteral(s string, i int, last byte) bool {
	switch last {
	case '{', '[', '(', ',', ':', '=', ';', '|':
		return true
	case '-': // a YAML list item
		j := backOver(s, i) - 1
		j = backOver(s, j)
		return j == 0 || s[j-1] == '\n'
	}
	return i > 0 && s[i-1] == '\n' // a row of a table, or a line of JSON Lines
}

// backOver returns the start of the spaces before byte i of s.
func backOver(s string, i int) int {
	for i > 0 && (s[i-1] == ' ' || s[i-1] == '\t') {
		i--
	}
	return i
}

// literalEnd returns the position of the quotation mark that closes the string at byte i. It also reports whether the
// text after this mark is one that may follow a string.
func literalEnd(s string, i int) (int, bool) {
	q := s[i]
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case '\\':
			j++
		case q:
			if j+1 < len(s) && s[j+1] == q {
				j++ // a doubled quotation mark stands for one
				continue
			}
			return j, closesLiteral(s[j+1:])
		}
	}
	return len(s), false
}

func closesLiteral(after string) bool {
	for k := range len(after) {
		switch after[k] {
		case ' ', '\t', '\r':
		case ',', ':', '}', ']', ')', ';', '|', '\n':
			return true
		default:
			return false
		}
	}
	return true
}

// unquote decodes the text between two quotation marks.
func unquote(raw string, q byte) string {
	if strings.IndexByte(raw, q) >= 0 && strings.Contains(raw, string([]byte{q, q})) {
		raw = strings.ReplaceAll(raw, string([]byte{q, q}), string([]byte{q}))
	}
	if strings.IndexByte(raw, '\\') >= 0 {
		raw = decodeEscapes(raw)
	}
	return raw
}

// between handles the text between two strings: punctuation, numbers and plain text. If it ends in
// the name of a member, as in YAML, between returns the name.
func (g *segmenter) between(s string, depth int) (name string) {
	words, last := false, byte('"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '{' || c == '}':
			g.record++
			last = c
		case c == '\n':
			if last != ',' && last != ':' && last != '[' && last != '{' {
				g.record++ // a row
			}
			last = ','
		case c == ' ' || c == '\t' || c == '\r':
		case asciiLetter(c) || c >= utf8.RuneSelf:
			end := i + 1
			for end < len(s) && (asciiLetter(s[end]) || s[end] >= utf8.RuneSelf) {
				end++
			}
			words = words || !constants[s[i:end]]
			i, last = end-1, c
		default:
			last = c
		}
	}
	if !words {
		return ""
	}
	s = strings.Trim(s, " \t\r\n,{}[]()")
	if k := len(s) - 1; k > 0 && (s[k] == ':' || s[k] == '=') {
		from := strings.LastIndexAny(s[:k], " \t\n,;({[") + 1
		line := strings.TrimLeft(s[strings.LastIndexByte(s[:k], '\n')+1:], "- \t")
		if len(line) == len(s)-from || s[k] == '=' {
			name, s = cutText(s[from:k], maxKey), s[:from]
		}
	}
	if s != "" {
		g.text(s, "", signsOf(s), depth)
	}
	return name
}

// constants are words of JSON, YAML and Python documents that are values, not text.
var constants = map[string]bool{"true": true, "false": true, "null": true, "True": true, "False": true, "None": true,
	"e": true, "E": true, "nan": true, "NaN": true}

func asciiLetter(c byte) bool { return tokenClass[c]&inLetters != 0 }

// bareEscapes reports whether a text without quotation marks contains escapes, which shows that it was once a string.
// The backslashes of a Windows path do not count.
func bareEscapes(s string) bool {
	for i := strings.IndexByte(s, '\\'); i >= 0 && i+1 < len(s); {
		switch s[i+1] {
		case 'u':
			if isHexPair(s, i+2) && isHexPair(s, i+4) {
				return true
			}
		case 'x':
			if isHexPair(s, i+2) {
				return true
			}
		case 'n', 'r', 't':
			// \n is a line break in "\nDelete", in ".\ndelete" and at the end. In C:\new it is a part of a path.
			next := byte(' ')
			if i+2 < len(s) {
				next = s[i+2]
			}
			before := byte(' ')
			if i > 0 {
				before = s[i-1]
			}
			if tokenClass[next]&inLower == 0 || tokenClass[before] == inDot || strings.IndexByte(" !?;,)\"'", before) >= 0 {
				return true
			}
		case '"', '/':
			return true
		}
		next := strings.IndexByte(s[i+2:], '\\')
		if next < 0 {
			return false
		}
		i += 2 + next
	}
	return false
}

// table splits a text with separated values into its cells, and reports whether the text is a table. In a table, all
// lines have the same number of one separator. A table has at least two lines, or three if each line has only one
// separator and the separator is not a tab.
func (g *segmenter) table(s string, depth int) bool {
	body := strings.Trim(s, "\r\n")
	for _, sep := range []byte{'\t', '|', ';', ','} {
		if strings.IndexByte(body, sep) < 0 {
			continue
		}
		lines, count := 0, 0
		for line := range strings.Lines(body) {
			if n := strings.Count(line, string(sep)); lines == 0 {
				count = n
			} else if n != count {
				lines = -1
				break
			}
			lines++
		}
		if count == 0 || lines < 2 || lines == 2 && count == 1 && sep != '\t' {
			continue
		}
		var names []string
		row := 0
		for line := range strings.Lines(body) {
			g.record++
			column := 0
			for cell := range strings.SplitSeq(strings.TrimRight(line, "\r\n"), string(sep)) {
				key := ""
				if column < len(names) {
					key = names[column]
				}
				if row == 0 {
					names = append(names, cutText(strings.TrimSpace(cell), maxKey))
				}
				g.add(cell, key, depth)
				column++
			}
			row++
		}
		return true
	}
	return false
}
