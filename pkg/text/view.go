package text

import (
	"encoding/base64"
	"encoding/hex"
	"html"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// View is one form of a content, normalized as by [Normalize].
type View struct {
	// Name is "normalized" for the content itself and "decoded:KIND" for a decoded part. Nested
	// encodings are joined by plus signs, as in "decoded:base64+url".
	Name string
	Text string
	// Lines is the text in which rules look for sentences: the segments, each decoded and
	// normalized. '\n' begins a clause, '\x1f' a segment, and '\x1e' a segment of another record.
	// It equals Text if there are no breaks. It is empty in the view of decoded strings, whose
	// lines are in the view before it.
	Lines string
	// Whole has the strings of a document that Lines has in more than one segment, such as a JSON string that contains
	// a table. Each is decoded and normalized as a whole. '\x1e' is between two of them.
	Whole string
	// Cells has the sentences that are split over short strings of a document, such as a list of words. The strings of
	// a sentence are joined by spaces and normalized. '\x1e' is before each sentence. A sentence may occur twice.
	Cells string
}

// Span is an encoded part of a clean text.
type Span struct {
	Kind  string `json:"k"`           // base64, hex, url, html, escape, spaced, tags, selectors or strings
	Start int    `json:"a,omitzero"`  // byte offsets in the clean text;
	End   int    `json:"b,omitzero"`  // Start and End are both zero if the whole text is decoded
	In    []Span `json:"i,omitempty"` // spans in the decoded text
}

// The kinds of encodings.
const (
	encBase64    = "base64"
	encHex       = "hex"
	encURL       = "url"    // %69
	encHTML      = "html"   // &#105; and named entities
	encEscape    = "escape" // \u0069 and \x69
	encSpaced    = "spaced" // i g n o r e
	encTags      = "tags"   // Unicode tag characters
	encSelectors = "selectors"
	encStrings   = "strings" // all segments of the text together, if a segment had escapes or came from markup
)

// Limits of decoding. An encoding inside another one is decoded, a third level is not.
const (
	maxDepth       = 2
	maxSpans       = 24
	maxPerEncoding = 4        // spans of one kind in one text; many decoys of one kind cannot displace spans of another
	maxDecoded     = 64 << 10 // bytes, in all views of a content together
)

func decodeBudget(n int) int { return min(4*n, maxDecoded) }

// spanLimit returns how many bytes of the budget one span may use. A span at the outer level leaves half of the budget
// for the spans inside it and for later spans.
func spanLimit(budget, depth int) int {
	if depth == 0 && budget > 8<<10 {
		return budget / 2
	}
	return budget
}

// Views returns the normalized content, and a view of each encoded part that was found in it. content must be the
// content for which f was computed. For another content the views have no meaning, but their number and size stay
// within the limits.
func (f Features) Views(content string) []View {
	sc := newScratch()
	defer sc.free()
	views := make([]View, 0, 1+len(f.Spans))
	budget := decodeBudget(len(content))
	var walk func(raw, name string, spans []Span, depth int, read bool)
	walk = func(raw, name string, spans []Span, depth int, read bool) {
		var h Hidden
		clean := sc.clean(raw, &h)
		v := newView(name, sc.fold(clean))
		joined := ""
		if !read {
			g := &sc.segmenter
			g.run(sc, clean)
			v.Whole, v.Cells = g.whole(), g.cells()
			if v.Lines = g.linesOf(clean, v.Text); !g.plain() {
				joined = g.join()
			}
		}
		views = append(views, v)
		for _, s := range spans {
			switch {
			case len(views) > maxSpans:
				return
			case s.Kind == encStrings:
				if joined != "" {
					walk(joined, viewName(name, s.Kind), s.In, depth, true)
				}
				continue
			case budget <= 0 || depth == maxDepth:
				return
			}
			if decoded, _ := s.decode(raw, clean, spanLimit(budget, depth)); decoded != "" {
				budget -= len(decoded)
				walk(decoded, viewName(name, s.Kind), s.In, depth+1, false)
			}
		}
	}
	walk(content, "", f.Spans, 0, false)
	return views
}

// newView returns the view of a normalized text without Lines.
func newView(name string, normal []byte) View {
	if name == "" {
		name = "normalized"
	}
	return View{Name: name, Text: string(normal)}
}

func viewName(outer, kind string) string {
	if outer == "" {
		return "decoded:" + kind
	}
	return outer + "+" + kind
}

// decode returns the decoded text of the span, or "" if the result is not readable text. If the result is longer than
// limit bytes, it is cut and cut is true.
func (s Span) decode(raw, clean string, limit int) (out string, cut bool) {
	if s.Start < 0 || s.End < s.Start || s.End > len(clean) {
		return "", false
	}
	in := clean[s.Start:s.End]
	switch s.Kind {
	case encBase64:
		out = decodeBase64(in)
	case encHex:
		out = decodeHex(in)
	case encURL:
		out = decodePercent(in)
	case encHTML:
		out = html.UnescapeString(in)
	case encEscape:
		out = decodeEscapes(in)
	case encSpaced:
		out = joinSpaced(in)
	case encTags:
		out = decodeTags(raw)
	case encSelectors:
		out = decodeSelectors(raw)
	}
	if len(out) > limit {
		for limit > 0 && !utf8.RuneStart(out[limit]) {
			limit--
		}
		return out[:limit], true
	}
	return out, false
}

// minDecoded is the minimum length of a decoded text in the result of DecodeWords, in bytes.
const minDecoded = 4

// DecodeWords returns s with each word of base64 or hex decoded. It also decodes words that are too short for Views.
// Many ordinary words can be read as base64, so use the result only to look for values that you know already. The
// result is empty if no word of s decodes to text.
func DecodeWords(s string) string {
	var b strings.Builder
	found := false
	write := func(w string) bool {
		decoded := ""
		if isHex(w) {
			decoded = decodeHex(w)
		}
		if decoded == "" {
			decoded = decodeBase64(w)
		}
		if len(decoded) < minDecoded {
			return false
		}
		b.WriteString(decoded)
		b.WriteByte(' ')
		found = true
		return true
	}
	for run := range strings.FieldsFuncSeq(s, func(r rune) bool { return r >= utf8.RuneSelf || !base64Byte(byte(r)) }) {
		apart := func(r rune) bool { return !isAlnum(byte(r)) }
		if write(run) && !strings.ContainsFunc(run, apart) {
			continue
		}
		for w := range strings.FieldsFuncSeq(run, apart) {
			if !write(w) {
				b.WriteString(w)
				b.WriteByte(' ')
			}
		}
	}
	if !found {
		return ""
	}
	return b.String()
}

// decodeBase64 accepts the standard and the URL alphabet, missing padding and wrapped lines.
func decodeBase64(in string) string { return readable(unpackBase64(packBase64(in))) }

// packBase64 returns the characters of in, converted to the standard alphabet, without padding and line breaks.
func packBase64(in string) []byte {
	packed := make([]byte, 0, len(in))
	for i := range len(in) {
		switch c := in[i]; c {
		case '-':
			packed = append(packed, '+')
		case '_':
			packed = append(packed, '/')
		case '=', '\n', '\r', ' ', '\t':
		default:
			packed = append(packed, c)
		}
	}
	return packed
}

// unpackBase64 decodes the result of packBase64. It returns nil if a character is not of base64.
func unpackBase64(packed []byte) []byte {
	if len(packed)%4 == 1 {
		packed = packed[:len(packed)-1]
	}
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(packed)))
	n, err := base64.RawStdEncoding.Decode(out, packed)
	if err != nil {
		return nil
	}
	return out[:n]
}

func decodeHex(in string) string {
	out, err := hex.DecodeString(in[:len(in)&^1])
	if err != nil {
		return ""
	}
	return readable(out)
}

// readable returns b as text, or "" if it is not text. It also accepts UTF-16.
func readable(b []byte) string {
	if s := fromUTF16(b); s != "" {
		b = []byte(s)
	}
	b = wholeRunes(b)
	if len(b) == 0 || !utf8.Valid(b) {
		return ""
	}
	balance := 0
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		i += size
		n, printable := weight(r)
		if !printable {
			return ""
		}
		balance += n
	}
	if balance < 0 {
		return ""
	}
	return string(b)
}

// wholeRunes returns b without an incomplete character at its end.
func wholeRunes(b []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut < len(b) && !utf8.Valid(b); cut++ {
		if r := b[len(b)-cut]; utf8.RuneStart(r) && r >= utf8.RuneSelf {
			b = b[:len(b)-cut]
		}
	}
	return b
}

// weight is positive for letters, digits and spaces, and negative for other characters. Decoded bytes whose weights
// have a negative sum are not text: random bytes decode mostly to punctuation. printable is false if r occurs in no
// text.
func weight(r rune) (n int, printable bool) {
	if unicode.IsLetter(r) || unicode.IsDigit(r) || r == ' ' {
		return 1, true
	}
	return -1, r == '\n' || r == '\r' || r == '\t' || invisible(r) || unicode.IsPrint(r)
}

// fromUTF16 decodes ASCII text in little-endian UTF-16, the form of encoded PowerShell commands.
func fromUTF16(b []byte) string {
	if len(b) < 8 || len(b)%2 != 0 {
		return ""
	}
	out := make([]byte, 0, len(b)/2)
	for i := 0; i < len(b); i += 2 {
		if b[i+1] != 0 || b[i] >= utf8.RuneSelf {
			return ""
		}
		out = append(out, b[i])
	}
	return string(out)
}

func decodePercent(in string) string {
	var b strings.Builder
	for i := 0; i < len(in); i++ {
		switch c := in[i]; {
		case c == '%' && isHexPair(in, i+1):
			b.WriteByte(unhex(in[i+1])<<4 | unhex(in[i+2]))
			i += 2
		case c == '+':
			b.WriteByte(' ')
		default:
			b.WriteByte(c)
		}
	}
	return strings.ToValidUTF8(b.String(), "\ufffd")
}

func isHexPair(s string, i int) bool {
	return i+1 < len(s) && isHexDigit(s[i]) && isHexDigit(s[i+1])
}

// isHexRune reports whether s has the eight hex digits of a character at byte i.
func isHexRune(s string, i int) bool {
	return isHexPair(s, i) && s[i:i+2] == "00" && isHexPair(s, i+2) && isHexPair(s, i+4) && isHexPair(s, i+6)
}

func isHexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// simpleEscapes are the one-letter escapes of JSON, YAML and Python. Controls without a meaning
// become a space.
var simpleEscapes = [256]byte{'n': '\n', 'r': '\n', 't': '\t', 'v': '\n', 'f': '\n', 'N': '\n', 'L': '\n', 'P': '\n',
	'\n': ' ', '_': ' ', ' ': ' ',
	'a': ' ', 'b': ' ', 'e': ' ', '0': ' ', '"': '"', '\'': '\'', '\\': '\\', '/': '/'}

func decodeEscapes(in string) string {
	var b strings.Builder
	for i := 0; i < len(in); {
		if in[i] != '\\' || i+1 == len(in) {
			b.WriteByte(in[i])
			i++
			continue
		}
		switch c := in[i+1]; {
		case c == 'x' && isHexPair(in, i+2):
			b.WriteByte(unhex(in[i+2])<<4 | unhex(in[i+3]))
			i += 4
		case c == 'u' && isHexPair(in, i+2) && isHexPair(in, i+4):
			r, size := escapedRune(in[i:])
			b.WriteRune(r)
			i += size
		case c == 'U' && isHexRune(in, i+2):
			n, _ := strconv.ParseUint(in[i+2:i+10], 16, 32)
			b.WriteRune(rune(n))
			i += 10
		case simpleEscapes[c] != 0:
			b.WriteByte(simpleEscapes[c])
			i += 2
		default:
			b.WriteByte('\\')
			i++
		}
	}
	return strings.ToValidUTF8(b.String(), "\ufffd")
}

// escapedRune reads \uXXXX, or a surrogate pair of two, at the start of s. It returns the rune and
// its length in bytes.
func escapedRune(s string) (rune, int) {
	n, _ := strconv.ParseUint(s[2:6], 16, 16)
	r := rune(n)
	if utf16.IsSurrogate(r) {
		if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if n, err := strconv.ParseUint(s[8:12], 16, 16); err == nil {
				if full := utf16.DecodeRune(r, rune(n)); full != utf8.RuneError {
					return full, 12
				}
			}
		}
		return utf8.RuneError, 6
	}
	return r, 6
}

// joinSpaced removes the separators from a text that has a separator between every two letters. The first separator is
// taken as the separator of the whole text. A different separator, or two separators in a row, end a word.
func joinSpaced(in string) string {
	var sep byte
	var b strings.Builder
	for i := 0; i < len(in); i++ {
		c := in[i]
		if isAlnum(c) {
			b.WriteByte(c)
			continue
		}
		if sep == 0 {
			sep = c
		}
		if c == sep && i+1 < len(in) && isAlnum(in[i+1]) && i > 0 && isAlnum(in[i-1]) {
			continue
		}
		b.WriteByte(' ')
	}
	return b.String()
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// decodeTags returns the ASCII text that tag characters encode.
func decodeTags(raw string) string {
	var b strings.Builder
	for _, r := range raw {
		if r > tagFirst+0x1f && r < tagCancel {
			b.WriteByte(byte(r - tagFirst))
		}
	}
	return b.String()
}

// decodeSelectors decodes text that is hidden in the variation selectors after an emoji. Each selector encodes one
// byte, 0 to 255.
func decodeSelectors(raw string) string {
	var b []byte
	for _, r := range raw {
		switch {
		case r >= 0xfe00 && r <= 0xfe0f:
			b = append(b, byte(r-0xfe00))
		case r >= 0xe0100 && r <= 0xe01ef:
			b = append(b, byte(r-0xe0100+16))
		}
	}
	return readable(b)
}
