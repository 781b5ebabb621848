package mcpwire

// Limits of an outline, in bytes.
const (
	maxOutline = 64 << 10
	maxShort   = 1 << 10 // one string
)

// outline is a short form of a JSON text. It has the outermost object of the text. In it, nested objects and lists are
// empty, and a long string is replaced by an empty list. Of a batch, it has the outermost object of each message. It
// reads the text part by part. So a message that is too large for memory can still be answered. It does not check
// whether the text is valid.
type outline struct {
	text    []byte
	size    int // bytes of the whole text
	deepest int // levels of objects and lists in the text, including those that are left out

	// depth is the current level. kept is the deepest level that is in text, or -1 once the outline has become too
	// large.
	depth, kept     int
	quoted, escaped bool
	start, length   int // the string that is being read: where it begins in text, and the number of its bytes so far
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

// inString reads a byte of a string, or the quotation mark that ends it.
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

// put appends to the outline a byte of the text that is at the given level. If the outline becomes too large, put
// empties it.
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
