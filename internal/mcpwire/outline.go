package mcpwire

// Limits of an outline, in bytes.
const (
	maxOutline = 64 << 10
	maxShort   = 1 << 10 // one string
)

// outline reduces JSON text to its outermost object: nested objects and lists are emptied, and a long
// string becomes an empty list. Of a batch it has the outermost object of each message. It takes the text in
// parts, so that a message that is too large to be held can still be answered. It does not check the text.
type outline struct {
	text    []byte
	size    int // bytes of the whole text
	deepest int // levels of objects and lists, also of those that are left out

	depth, kept     int // the current level; the deepest level in text, or -1 if the outline is too large
	quoted, escaped bool
	start, length   int // of the string that is being read: its place in text, its bytes so far
}

func (o *outline) add(part []byte) {
	o.size += len(part)
	for _, c := range part {
		switch {
		case o.quoted:
			o.inString(c)
		case c == '"':
			o.quoted, o.start, o.length = true, len(o.text), 0
			o.put(c, o.depth)
		case c == '{' || c == '[':
			if o.kept == 0 {
				o.kept = 1
				if c == '[' {
					o.kept = 2
				}
			}
			o.put(c, o.depth)
			o.depth++
			o.deepest = max(o.deepest, o.depth)
		case c == '}' || c == ']':
			o.depth = max(o.depth-1, 0)
			o.put(c, o.depth)
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			if n := len(o.text); n > 0 && o.text[n-1] != ' ' {
				o.put(' ', o.depth)
			}
		default:
			o.put(c, o.depth)
		}
	}
}

// inString reads a byte within a string, or the quotation mark at its end.
func (o *outline) inString(c byte) {
	if o.length++; o.length <= maxShort {
		o.put(c, o.depth)
	}
	switch {
	case o.escaped:
		o.escaped = false
	case c == '\\':
		o.escaped = true
	case c == '"':
		o.quoted = false
		if o.length > maxShort && o.start < len(o.text) {
			o.text = append(o.text[:o.start], "[]"...)
		}
	}
}

// put appends a byte of the text that is at a level. An outline that is too large becomes empty.
func (o *outline) put(c byte, level int) {
	if level > o.kept {
		return
	}
	if o.text = append(o.text, c); len(o.text) > maxOutline {
		o.text, o.kept = nil, -1
	}
}

// outlineOf returns the outline of a whole text.
func outlineOf(text []byte) *outline {
	o := new(outline)
	o.add(text)
	return o
}
