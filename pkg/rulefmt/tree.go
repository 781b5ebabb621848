package rulefmt

import (
	"strings"

	"lazaret/pkg/internal/strictyaml"
)

// A file is read line by line into blocks. Blocks keep the comments and the notation of scalars. The YAML library
// checks the file first. It also compares the meaning of the formatted file with the meaning of the original.

type blockKind int

const (
	rawBlock blockKind = iota // a scalar or flow collection that begins on a line of its own
	mapBlock
	seqBlock
)

// remark is a comment or, if its text is empty, a blank line.
type remark struct {
	indent int
	text   string
}

type block struct {
	kind  blockKind
	head  []remark // only for a rawBlock
	value *value   // only for a rawBlock
	items []*entry
	foot  []remark // comments after the last item
}

// entry is an item of a mapping or a sequence. It has either a value or a child. If it is null, it has neither.
type entry struct {
	head    []remark
	key     string // as written; "" in a sequence
	comment string // after "key:", with the spaces before it
	value   *value
	child   *block
}

type valueKind int

const (
	plainValue valueKind = iota
	quotedValue
	flowValue
	blockValue
)

// value is a scalar or flow collection as it is written in the file. lines[0] follows the key. Each other line is
// indented relative to the key by step, and by its element of extra in addition.
type value struct {
	kind    valueKind
	lines   []string
	extra   []int
	step    int
	comment string // with the spaces before it
}

type reader struct {
	file  string
	lines []string
	pos   int
}

// fault is the value with which a method of reader panics. readTree recovers it and returns its error.
type fault struct{ err *strictyaml.Error }

func (r *reader) fail(msg string) {
	at := min(r.pos, len(r.lines)-1)
	line := r.lines[at]
	panic(fault{&strictyaml.Error{File: r.file, Line: at + 1, Column: indentOf(line) + 1, Msg: msg, Source: line}})
}

// readTree parses the lines of a file. If the file begins with "---", dashes is true and before has the remarks in
// front of it. If the file has only comments, root is nil and foot has the comments.
func readTree(file string, lines []string) (before []remark, dashes bool, root *block, foot []remark, err error) {
	r := &reader{file: file, lines: lines}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case fault:
			err = p.err
		default:
			panic(p)
		}
	}()
	head := r.remarks()
	if r.pos < len(lines) && strings.TrimRight(lines[r.pos], " ") == "---" {
		before, dashes = head, true
		r.pos++
		head = r.remarks()
	}
	if r.pos == len(lines) {
		return before, dashes, nil, head, nil
	}
	root, foot = r.block(head, r.indent(), -1)
	if r.pos < len(lines) {
		r.fail("this line belongs to no value above it: correct its indentation")
	}
	return before, dashes, root, foot, nil
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

func isBlank(line string) bool { return strings.Trim(line, " \t") == "" }

func isComment(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " \t"), "#") }

// indent returns the indentation of the line at pos. The line must have content. After the last line, indent returns
// -1.
func (r *reader) indent() int {
	if r.pos == len(r.lines) {
		return -1
	}
	line := r.lines[r.pos]
	n := indentOf(line)
	if strings.HasPrefix(line[n:], "\t") {
		r.fail("a tab: indent with spaces")
	}
	if n == 0 && (strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...")) {
		r.fail("a document marker is only allowed before the first line: remove it")
	}
	return n
}

// remarks reads the comments and blank lines at pos.
func (r *reader) remarks() []remark {
	var out []remark
	for ; r.pos < len(r.lines); r.pos++ {
		line := r.lines[r.pos]
		switch {
		case isBlank(line):
			out = append(out, remark{})
		case isComment(line):
			out = append(out, remark{indentOf(line), strings.Trim(line, " \t")})
		default:
			return out
		}
	}
	return out
}

func isDash(text string) bool {
	return text == "-" || strings.HasPrefix(text, "- ") || strings.HasPrefix(text, "-\t")
}

// block reads the block whose first line is at pos and begins at column col. parent is the column of the entry that
// contains the block. The returned remarks are those after the block that do not belong to it.
func (r *reader) block(head []remark, col, parent int) (*block, []remark) {
	text := r.lines[r.pos][col:]
	b := new(block)
	if isDash(text) {
		b.kind = seqBlock
	} else if _, _, ok := splitKey(text); ok {
		b.kind = mapBlock
	} else {
		b.head = head
		b.value = r.value(col, parent, true)
		return b, r.remarks()
	}
	for {
		e := &entry{head: head}
		b.items = append(b.items, e)
		if b.kind == seqBlock {
			head = r.item(e, col)
		} else {
			head = r.pair(e, col)
		}
		next := r.indent()
		if next > col {
			r.fail("this line is indented deeper than the lines of its block")
		}
		if next == col {
			text = r.lines[r.pos][col:]
			if b.kind == mapBlock {
				if _, _, ok := splitKey(text); !ok || isDash(text) {
					r.fail("a key is missing here")
				}
				continue
			}
			if isDash(text) {
				continue
			}
		}
		n := 0
		for i, c := range head {
			if c.text != "" {
				if c.indent <= max(next, parent) {
					break
				}
				n = i + 1
			}
		}
		b.foot = head[:n:n]
		return b, head[n:]
	}
}

// item reads an item of a sequence. Its dash is at column col.
func (r *reader) item(e *entry, col int) []remark {
	line := r.lines[r.pos]
	rest := strings.TrimLeft(line[col+1:], " \t")
	if rest == "" || rest[0] == '#' {
		if rest != "" {
			e.head = append(e.head, remark{col, strings.TrimRight(rest, " \t")})
		}
		r.pos++
		return r.below(e, col, col+1)
	}
	// Replace the dash by a space: the item after it is then indented as a block of its own.
	at := len(line) - len(rest)
	if strings.Contains(line[col+1:at], "\t") {
		r.fail("a tab: indent with spaces")
	}
	r.lines[r.pos] = strings.Repeat(" ", at) + rest
	if _, _, ok := splitKey(rest); ok || isDash(rest) {
		var left []remark
		e.child, left = r.block(nil, at, col)
		return left
	}
	e.value = r.value(at, col, false)
	return r.remarks()
}

// pair reads an entry of a mapping. Its key is at column col.
func (r *reader) pair(e *entry, col int) []remark {
	line := r.lines[r.pos]
	var rest string
	e.key, rest, _ = splitKey(line[col:])
	text := strings.TrimLeft(rest, " \t")
	if text == "" || text[0] == '#' && text != rest {
		if text != "" {
			e.comment = spaced(rest)
		}
		r.pos++
		least := col + 1
		if at := r.peek(); at == col && isDash(r.lines[r.peekLine()][col:]) {
			least = col
		}
		return r.below(e, col, least)
	}
	e.value = r.value(len(line)-len(text), col, false)
	return r.remarks()
}

// peekLine returns the index of the next line with content.
func (r *reader) peekLine() int {
	i := r.pos
	for i < len(r.lines) && (isBlank(r.lines[i]) || isComment(r.lines[i])) {
		i++
	}
	return i
}

func (r *reader) peek() int {
	i := r.peekLine()
	if i == len(r.lines) {
		return -1
	}
	return indentOf(r.lines[i])
}

// below reads the child of an entry, which is on the lines after it. There is a child only if one of these lines begins
// at column least or further to the right.
func (r *reader) below(e *entry, col, least int) []remark {
	head := r.remarks()
	if at := r.indent(); at >= least {
		var left []remark
		e.child, left = r.block(head, at, col)
		return left
	}
	return head
}

// spaced returns a comment that follows other text on its line, with the spaces before it. It replaces tabs by one
// space.
func spaced(s string) string {
	text := strings.TrimLeft(s, " \t")
	gap := s[:len(s)-len(text)]
	if strings.Contains(gap, "\t") {
		gap = " "
	}
	return gap + strings.TrimRight(text, " \t")
}

// splitKey splits "key: rest".
func splitKey(text string) (key, rest string, ok bool) {
	if text == "" || strings.ContainsRune("[]{}|>#&*!%@`,", rune(text[0])) {
		return "", "", false
	}
	ends := func(i int) bool { return i == len(text) || text[i] == ' ' || text[i] == '\t' }
	if q := text[0]; q == '"' || q == '\'' {
		i := closing(text, 1, q)
		if i < 0 {
			return "", "", false
		}
		end := i + 1
		for i = end; i < len(text) && text[i] == ' '; i++ {
		}
		if i < len(text) && text[i] == ':' && ends(i+1) {
			return text[:end], text[i+1:], true
		}
		return "", "", false
	}
	for i := range len(text) {
		if text[i] == '#' && i > 0 && (text[i-1] == ' ' || text[i-1] == '\t') {
			break
		}
		if text[i] == ':' && ends(i+1) {
			return strings.TrimRight(text[:i], " \t"), text[i+1:], true
		}
	}
	return "", "", false
}

// closing returns the index of the quote q that closes a quoted text. It searches from index i, and returns -1 if there
// is none.
func closing(text string, i int, q byte) int {
	for ; i < len(text); i++ {
		switch {
		case q == '"' && text[i] == '\\':
			i++
		case text[i] == q && q == '\'' && i+1 < len(text) && text[i+1] == q:
			i++
		case text[i] == q:
			return i
		}
	}
	return -1
}

// value reads the scalar or flow collection that begins at column at of the line at pos. parent is the column of the
// entry that contains it. own is set if the value is the first text of its line.
func (r *reader) value(at, parent int, own bool) *value {
	switch r.lines[r.pos][at] {
	case '|', '>':
		if own {
			r.fail("a block scalar begins on the line of its key: move it there")
		}
		return r.blockScalar(at, parent)
	case '"', '\'':
		return r.quoted(at)
	case '[', '{':
		return r.flow(at)
	}
	return r.plain(at, parent)
}

func (v *value) add(line string, extra int) {
	v.lines = append(v.lines, line)
	v.extra = append(v.extra, extra)
}

func (r *reader) blockScalar(at, parent int) *value {
	v := &value{kind: blockValue, step: 2}
	header := r.lines[r.pos][at:]
	if i := strings.IndexAny(header, " \t"); i >= 0 {
		if !isBlank(header[i:]) {
			v.comment = spaced(header[i:])
		}
		header = header[:i]
	}
	v.add(header, 0)
	content := -1
	for _, c := range header[1:] {
		if c >= '1' && c <= '9' {
			v.step = int(c - '0')
			content = max(parent, 0) + v.step
		}
	}
	r.pos++
	last := r.pos
	for i := r.pos; i < len(r.lines); i++ {
		line := r.lines[i]
		n := indentOf(line)
		if n == len(line) && (content < 0 || n <= content) {
			continue
		}
		if content < 0 {
			if n <= parent {
				break
			}
			content = n
		}
		if n < content {
			break
		}
		last = i + 1
	}
	if strings.Contains(header, "+") {
		for last < len(r.lines) && isBlank(r.lines[last]) {
			last++
		}
	}
	for ; r.pos < last; r.pos++ {
		line := r.lines[r.pos]
		v.add(line[min(max(content, 0), len(line)):], 0)
	}
	return v
}

func (r *reader) quoted(at int) *value {
	v := &value{kind: quotedValue, step: 2}
	text := r.lines[r.pos][at:]
	q, from := text[0], 1
	for {
		if i := closing(text, from, q); i >= 0 {
			v.add(text[:i+1], 0)
			r.end(v, text[i+1:])
			return v
		}
		v.add(strings.TrimRight(text, " \t"), 0)
		if r.pos++; r.pos == len(r.lines) {
			r.fail("a quote is not closed")
		}
		text, from = strings.TrimLeft(r.lines[r.pos], " \t"), 0
	}
}

// end reads the text that follows the last line of a value: spaces or a comment.
func (r *reader) end(v *value, rest string) {
	if !isBlank(rest) {
		if !isComment(rest) {
			r.fail("the text after the value is not understood")
		}
		v.comment = spaced(rest)
	}
	r.pos++
}

func (r *reader) plain(at, parent int) *value {
	v := &value{kind: plainValue, step: 2}
	text := r.lines[r.pos][at:]
	for {
		for i := 1; i < len(text); i++ {
			if text[i] == '#' && (text[i-1] == ' ' || text[i-1] == '\t') {
				value := strings.TrimRight(text[:i], " \t")
				v.add(value, 0)
				r.end(v, text[len(value):])
				return v
			}
		}
		v.add(strings.TrimRight(text, " \t"), 0)
		r.pos++
		next := r.pos
		for next < len(r.lines) && isBlank(r.lines[next]) {
			next++
		}
		if next == len(r.lines) || isComment(r.lines[next]) || indentOf(r.lines[next]) <= parent {
			return v
		}
		for ; r.pos < next; r.pos++ {
			v.add("", 0)
		}
		r.indent()
		text = strings.TrimLeft(r.lines[next], " ")
		if _, _, ok := splitKey(text); ok || isDash(text) {
			r.fail("this line continues the value above it, but has the form of a key or an item: correct its indentation, or " +
				"quote the value")
		}
	}
}

// flow reads a collection in brackets. It keeps line breaks. Several spaces between two tokens become one space, or
// none where none is needed.
func (r *reader) flow(at int) *value {
	v := &value{kind: flowValue, step: 2}
	depth, quote := 0, byte(0)
	prev := byte(' ') // the last character that is not a space; ' ' if a token may begin
	text := r.lines[r.pos][at:]
	for {
		var b strings.Builder
		extra, first := 2*(depth-1), true
		if depth == 0 {
			extra = 0
		}
		for i := 0; i < len(text); {
			c := text[i]
			if quote != 0 {
				end := closing(text, i, quote)
				if end < 0 {
					b.WriteString(strings.TrimRight(text[i:], " \t"))
					break
				}
				b.WriteString(text[i : end+1])
				i, quote, prev, first = end+1, 0, '"', false
				continue
			}
			if c == ' ' || c == '\t' {
				gap := i
				for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
					i++
				}
				switch {
				case i == len(text):
				case text[i] == '#':
					b.WriteString(spaced(text[gap:]))
					i = len(text)
				case strings.IndexByte("[{", prev) >= 0 || strings.IndexByte("]},", text[i]) >= 0:
				case prev == ',' || prev == ':':
					b.WriteByte(' ')
				default:
					b.WriteString(text[gap:i])
				}
				continue
			}
			if prev == ',' && !first && text[i-1] == ',' && strings.IndexByte("]}", c) < 0 {
				b.WriteByte(' ')
			}
			switch {
			case c == '#' && i == 0:
				b.WriteString(strings.TrimRight(text, " \t"))
				i = len(text)
				continue
			case (c == '"' || c == '\'') && strings.IndexByte(" [{,:", prev) >= 0:
				quote = c
			case c == '[' || c == '{':
				depth++
			case c == ']' || c == '}':
				depth--
				if first {
					extra -= 2
				}
			}
			b.WriteByte(c)
			i++
			prev = c
			if c != ']' && c != '}' {
				first = false
			}
			if depth == 0 {
				v.add(b.String(), extra)
				r.end(v, text[i:])
				return v
			}
		}
		if len(v.lines) == 0 {
			extra = 0
		}
		if line := b.String(); line != "" || quote != 0 || v.lines[len(v.lines)-1] != "" {
			v.add(line, extra)
		}
		if prev != ',' && prev != ':' && prev != '[' && prev != '{' {
			prev = '"' // inside or after a token
		}
		if r.pos++; r.pos == len(r.lines) {
			r.fail("a bracket is not closed")
		}
		text = strings.TrimLeft(r.lines[r.pos], " \t")
	}
}
