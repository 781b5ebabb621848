package text

import (
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Segment is a stretch of a content that is read on its own: a string of a
// JSON, YAML or Python document, a cell of a table, the text of an element, or
// the plain text between those. A content without such notation is one segment.
type Segment struct {
	// Text is decoded and clean: escapes and character references are resolved,
	// tags and invisible characters are gone, line breaks are kept.
	Text string
	// Key names the member, column or element that the text is the value of.
	Key string
	// Record numbers objects, rows and elements. Segments that follow one another
	// with one number belong to one record.
	Record int
}

// Segments cuts a content where its notation does. Notations inside one another
// (JSON in a string of JSON) are followed to a depth of five. The reader is
// lenient, because a model is: broken, truncated and embedded documents are
// read as far as they go, and no text is left out. Time and size are linear in
// the content.
func Segments(content string) []Segment {
	sc := newScratch()
	defer sc.free()
	var h Hidden
	g := &sc.segmenter
	g.run(sc, sc.clean(content, &h))
	return slices.Clone(g.segs)
}

// Bounds of a segmenter.
const (
	maxNested   = 5
	maxSegments = 4096 // beyond, texts share the last segment
	maxTag      = 4096 // bytes of one tag
	maxKey      = 64   // bytes; a longer key is a text
)

// segmenter cuts one clean text into segments.
type segmenter struct {
	sc      *scratch
	segs    []Segment
	hidden  Hidden // characters that decoding brought out
	record  int
	decoded bool // a segment differs from the bytes that it stands for
	rest    strings.Builder
}

func (g *segmenter) run(sc *scratch, clean string) {
	*g = segmenter{sc: sc, segs: g.segs[:0]}
	g.read(clean, "", 0)
	if g.rest.Len() > 0 {
		g.segs = append(g.segs, Segment{Text: g.rest.String(), Record: g.record})
	}
}

// plain reports whether the text is one segment and that is the text itself.
func (g *segmenter) plain() bool { return !g.decoded && len(g.segs) <= 1 }

// join is the text of all segments.
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

// lines is what [View.Lines] holds of the segments.
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
		s = g.sc.clean(s, &g.hidden) // decoding may have brought something out
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

// Signs of notations.
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

// read cuts a text in any notation.
func (g *segmenter) read(s, key string, depth int) {
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

// text cuts a text without quoted strings.
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

// literals cuts a text at the quoted strings that stand where a document has
// them: after a brace, a comma or a colon, and before one. It reports whether
// there is any.
func (g *segmenter) literals(s, key string, depth int) bool {
	from, found := 0, false
	last := byte('{') // the last byte that is no space; at the start, as in a document
	tag := false      // inside a tag, quotes are those of attributes
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

// opensLiteral reports whether a quotation mark may open a string, by what
// stands before it.
func opensLiteral(s string, i int, last byte) bool {
	switch last {
	case '{', '[', '(', ',', ':', '=', ';', '|':
		return true
	case '-': // an item of YAML
		j := backOver(s, i) - 1
		j = backOver(s, j)
		return j == 0 || s[j-1] == '\n'
	}
	return i > 0 && s[i-1] == '\n' // a row of a table, a line of JSON lines
}

// backOver is where the spaces before byte i of s begin.
func backOver(s string, i int) int {
	for i > 0 && (s[i-1] == ' ' || s[i-1] == '\t') {
		i--
	}
	return i
}

// literalEnd finds the quotation mark that closes the string at byte i, and
// reports whether what follows it may follow a string.
func literalEnd(s string, i int) (int, bool) {
	q := s[i]
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case '\\':
			j++
		case q:
			if j+1 < len(s) && s[j+1] == q {
				j++ // a quotation mark that is written twice stands for one
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

// unquote resolves what stands between two quotation marks.
func unquote(raw string, q byte) string {
	if strings.IndexByte(raw, q) >= 0 && strings.Contains(raw, string([]byte{q, q})) {
		raw = strings.ReplaceAll(raw, string([]byte{q, q}), string([]byte{q}))
	}
	if strings.IndexByte(raw, '\\') >= 0 {
		raw = decodeEscapes(raw)
	}
	return raw
}

// between takes what stands between two strings: the notation's own signs,
// numbers, and plain text. It returns the name of a member if it ends in one,
// as in YAML.
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

// constants are the words of documents that are no text.
var constants = map[string]bool{"true": true, "false": true, "null": true, "True": true, "False": true, "None": true,
	"e": true, "E": true, "nan": true, "NaN": true}

func asciiLetter(c byte) bool { return tokenClass[c]&inLetters != 0 }

// bareEscapes reports whether a text that nobody quoted holds escapes: what was
// a string once. A path of Windows has backslashes too.
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
			// \nDelete, .\ndelete and \n are line breaks, C:\new is a path.
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

// table cuts a text with separated values into its cells: at least two lines
// with one separator equally often, and three lines where it is only once. It
// reports whether the text is one.
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

// shortLine is the length in bytes of a line that was broken on purpose: text
// that is wrapped has longer ones.
const shortLine = 45

// lines is the normal form of a clean text with the places kept where a clause
// may begin: line breaks, unless a wrapped line goes on, list marks, dashes,
// symbols, and capitals behind a full stop. Words that are a joined phrase are
// parted. It lives until the next call of lines or fold.
func (sc *scratch) lines(s string) []byte {
	buf := sc.marked[:0]
	changed := false
	line := 0 // where the line began
	skip := skipMarks(s)
	for i := skip; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError: // half a character: whoever drops it reads one word
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

// partsClauses reports whether r is a dash, a bullet, an arrow or another symbol.
func partsClauses(r rune) bool {
	switch {
	case r == '·', r == '«', r == '»', r == '¶':
		return true
	case r < 0x2010, r >= 0x3041 && r <= 0x9fff, r >= 0xac00 && r <= 0xd7a3:
		return false // letters, mostly
	}
	return unicode.In(r, unicode.Pd, unicode.Po, unicode.So, unicode.Sm)
}

// hasBreaks reports whether lines of a clean text may differ from its normal form.
func hasBreaks(s string) bool {
	inside := false // a byte before stands in a word, or ends a sentence
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

// appendWord adds what stands at byte i of s, a byte or a joined word, and returns where
// it ends. parted says that a clause break is among it.
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
	// A sentence may begin behind a full stop in the word.
	for k := i + 1; k < end; k++ {
		if s[k-1] == '.' && beginsSentence(s, k) {
			return k, append(buf, s[i:k]...), parted
		}
	}
	return end, append(buf, s[i:end]...), parted
}

// continues reports whether a line goes on with what the line before began.
func continues(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLower(r)
}

// skipMarks is the length of the marks of lists, headings and quotations at the
// start of a line.
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
