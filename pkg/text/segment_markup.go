package text

import (
	"html"
	"strings"
	"unicode/utf8"
)

// markup splits a text with HTML or XML tags, and reports whether the text has a tag. An inline element is joined with
// the text around it. Any other element is a segment of its own. If the text does not begin with a tag, it is not a
// document: then a tag that is not inline becomes a line break instead. Comments and attribute values of several words
// become segments too.
func (g *segmenter) markup(s, key string, depth int) bool {
	document := strings.HasPrefix(strings.TrimLeft(s, " \t\r\n\ufeff"), "<")
	var b strings.Builder
	found, name := false, key
	flush := func() {
		if b.Len() > 0 {
			g.record++
			g.inner(b.String(), name, depth)
			b.Reset()
		}
	}
	var aside []string // comments and attribute values; they are added after the text around them
	for i := 0; i < len(s); {
		at := strings.IndexByte(s[i:], '<')
		if at < 0 {
			b.WriteString(s[i:])
			break
		}
		b.WriteString(s[i : i+at])
		i += at
		t := readTag(s[i:])
		if t.size == 0 {
			b.WriteByte('<')
			i++
			continue
		}
		found = true
		aside = append(aside, t.texts...)
		b.WriteString(t.plain)
		i += t.size
		switch {
		case t.inline:
		case document:
			flush()
			if name = key; !t.closing && t.name != "" {
				name = t.name
			}
		default:
			b.WriteByte('\n')
		}
	}
	if !found {
		return false
	}
	g.decoded = true
	flush()
	for _, a := range aside {
		g.record++
		g.inner(a, "", depth)
	}
	return true
}

// inner reads the text of an element. It first decodes the character references in the text.
func (g *segmenter) inner(s, key string, depth int) {
	if strings.IndexByte(s, '&') >= 0 {
		s = html.UnescapeString(s)
	}
	g.read(s, key, depth+1)
}

// tag is a tag, comment or CDATA section.
type tag struct {
	size            int
	name            string
	inline, closing bool
	plain           string   // text of a CDATA section
	texts           []string // the text of a comment, or attribute values
}

// inlineTags are the HTML elements that do not begin a new line.
var inlineTags = Set("a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark nobr " +
	"q s samp small span strike strong sub sup time tt u var wbr")

// Set returns the words of a list as a set.
func Set(list string) map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(list) {
		m[w] = true
	}
	return m
}

// readTag reads the tag at the start of s. Its size is 0 if there is none.
func readTag(s string) (t tag) {
	whole := func(open, end string) (string, bool) {
		if !strings.HasPrefix(s, open) {
			return "", false
		}
		if i := strings.Index(s[len(open):], end); i >= 0 {
			t.size = len(open) + i + len(end)
			return s[len(open) : len(open)+i], true
		}
		t.size = len(s)
		return s[len(open):], true
	}
	if text, ok := whole("<!--", "-->"); ok {
		t.inline, t.texts = true, []string{text}
		return t
	}
	if text, ok := whole("<![CDATA[", "]]>"); ok {
		t.inline, t.plain = true, text
		return t
	}
	if len(s) < 3 || !asciiLetter(s[1]) && (s[1] != '/' || !asciiLetter(s[2])) && s[1] != '!' && s[1] != '?' {
		return t
	}
	end, quote := 0, byte(0)
	for i := 1; i < len(s) && i < maxTag && end == 0; i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && s[i-1] == '=':
			quote = c
		case c == '>':
			end = i
		case c == '<':
			return t
		}
	}
	if end == 0 {
		return t
	}
	in := strings.TrimSuffix(s[1:end], "/")
	closing := in != "" && in[0] == '/'
	in = strings.TrimLeft(in, "/!?")
	name, attributes := in, ""
	if i := strings.IndexAny(in, " \t\r\n"); i >= 0 {
		name, attributes = in[:i], in[i:]
	}
	if strings.IndexFunc(name, notOfTag) >= 0 {
		return t // an address in angle brackets
	}
	t.size, t.closing, t.name = end+1, closing, strings.ToLower(name)
	if !closing && isPhrase(name) {
		t.texts = []string{name}
	}
	t.inline = inlineTags[t.name]
	if attributes = strings.TrimSpace(attributes); strings.ContainsAny(attributes, " \t\n&") {
		t.texts = append(t.texts, attributeTexts(in, attributes)...)
	}
	return t
}

func notOfTag(r rune) bool {
	return r >= utf8.RuneSelf || !isAlnum(byte(r)) && !strings.ContainsRune(":_-[", r)
}

// attributeTexts returns the attribute values that have several words. If attributes has no equals sign, it returns
// whole, the text of the whole tag.
func attributeTexts(whole, attributes string) (out []string) {
	if strings.IndexByte(attributes, '=') < 0 {
		return []string{whole}
	}
	for rest := attributes; ; {
		i := strings.IndexByte(rest, '=')
		if i < 0 || i+1 >= len(rest) {
			return out
		}
		if strings.Count(strings.TrimSpace(rest[:i]), " ") > 2 {
			out = append(out, rest[:i])
		}
		rest = rest[i+1:]
		if q := rest[0]; q == '"' || q == '\'' {
			end := strings.IndexByte(rest[1:], q)
			if end < 0 {
				return append(out, rest[1:])
			}
			if v := rest[1 : 1+end]; strings.ContainsAny(strings.TrimSpace(v), " \t\n&") {
				out = append(out, v)
			}
			rest = rest[2+end:]
		}
	}
}
