package strictyaml

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"
)

// Within is an error that knows its position in the text of a value: the line (counted from 1) and the column (counted
// from 0, in characters). If Errorf wraps such an error, the new error has the corresponding position in the file.
type Within interface {
	error
	Within() (line, column int)
}

// UnknownField is the cause of the error about a key that matches no field.
type UnknownField struct {
	Name  string
	Known []string // the known keys, in the order of the fields
}

func (e *UnknownField) Error() string { return "unknown field " + `"` + e.Name + `"` }

// Unknown returns an error for each key in the document that has no field in the type of *v, in the order of the file.
// The cause of each error is an *UnknownField.
func (d *Document) Unknown(v any) []*Error {
	var out []*Error
	d.unknown(d.root, reflect.TypeOf(v), func(key ast.Node, known []string) {
		tk := key.GetToken()
		e := d.at(tk, "%w", &UnknownField{Name: tk.Value, Known: known})
		out = append(out, e)
	})
	return out
}

func (d *Document) unknown(node ast.Node, t reflect.Type, found func(key ast.Node, known []string)) {
	if node == nil {
		return
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		for _, m := range []string{"UnmarshalYAML", "UnmarshalText"} {
			if _, ok := reflect.PointerTo(t).MethodByName(m); ok {
				return // the type decodes itself
			}
		}
		fields := make(map[string]reflect.Type)
		known := fieldsOf(t, fields)
		for _, v := range pairs(node) {
			if ft, ok := fields[v.Key.GetToken().Value]; ok {
				d.unknown(v.Value, ft, found)
			} else {
				found(v.Key, known)
			}
		}
	case reflect.Map:
		for _, v := range pairs(node) {
			d.unknown(v.Value, t.Elem(), found)
		}
	case reflect.Slice:
		if n, ok := node.(*ast.SequenceNode); ok {
			for _, v := range n.Values {
				d.unknown(v, t.Elem(), found)
			}
		}
	}
}

// fieldsOf adds the fields of a struct to fields, by their names in YAML.
func fieldsOf(t reflect.Type, fields map[string]reflect.Type) (known []string) {
	for f := range t.Fields() {
		name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case slices.Contains(strings.Split(opts, ","), "inline"):
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct {
				known = append(known, fieldsOf(ft, fields)...)
			}
		default:
			if name == "" {
				name = strings.ToLower(f.Name)
			}
			fields[name] = f.Type
			known = append(known, name)
		}
	}
	return known
}

func pairs(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// scalar is a value, with the position and the style of its text in the file.
type scalar struct {
	value  []rune
	style  byte // ' or ", | for a block scalar (also one with >), or 0 for a plain scalar
	line   int  // position of its first character or, for a block scalar, of its | or >
	column int
}

func scalarOf(node ast.Node) (scalar, bool) {
	if node == nil || node.GetToken() == nil || node.GetToken().Position == nil {
		return scalar{}, false
	}
	tk := node.GetToken()
	s := scalar{line: tk.Position.Line, column: tk.Position.Column}
	switch n := node.(type) {
	case *ast.LiteralNode:
		s.value, s.style = []rune(n.Value.Value), '|'
	case *ast.StringNode:
		s.value = []rune(n.Value)
		switch tk.Type.String() {
		case "SingleQuote":
			s.style = '\''
		case "DoubleQuote":
			s.style = '"'
		}
	case ast.ScalarNode:
		s.value = []rune(tk.Value)
	default:
		return scalar{}, false
	}
	return s, true
}

// place returns the position in the file that corresponds to a position in a scalar's value. The value and its text in
// the file have the same characters in the same order, except for white space and escapes. place moves through both in
// parallel. The last result is false if the two differ in another way.
func (d *Document) place(s scalar, line, column int) (int, int, bool) {
	target, ok := index(s.value, line, column)
	if !ok {
		return 0, 0, false
	}
	text := []rune(string(bytes.ReplaceAll(d.src, []byte("\r\n"), []byte("\n"))))
	at, ok := index(text, s.line, s.column-1)
	if !ok {
		return 0, 0, false
	}
	next := func() rune {
		if at < len(text) {
			return text[at]
		}
		return 0
	}
	switch s.style {
	case '|':
		for next() != '\n' && next() != 0 {
			at++
		}
		at++
	case '\'', '"':
		at++
	}
	end := at // the position after the last character read that is not white space
	for i := 0; ; i++ {
		if i < len(s.value) && !unicode.IsSpace(s.value[i]) {
			for unicode.IsSpace(next()) || s.style == '"' && next() == '\\' && at+1 < len(text) && text[at+1] == '\n' {
				at++
			}
		}
		if i == target {
			if i == len(s.value) {
				at = end
			}
			n, start := 1, 0
			for j, r := range text[:at] {
				if r == '\n' {
					n, start = n+1, j+1
				}
			}
			return n, at - start + 1, true
		}
		switch r := s.value[i]; {
		case s.style == '"' && next() == '\\':
			at += escape(text[at:])
			end = at
		case unicode.IsSpace(r):
			if unicode.IsSpace(next()) {
				at++
			}
		case next() != r:
			return 0, 0, false
		case s.style == '\'' && r == '\'':
			at += 2
			end = at
		default:
			at++
			end = at
		}
	}
}

// escape returns the length of an escape sequence.
func escape(text []rune) int {
	if len(text) > 1 {
		switch text[1] {
		case 'x':
			return 4
		case 'u':
			return 6
		case 'U':
			return 10
		}
	}
	return 2
}

// index returns the index of the character at a line (from 1) and a column (from 0).
func index(text []rune, line, column int) (int, bool) {
	at := 0
	for ; line > 1; line-- {
		i := slices.Index(text[at:], '\n')
		if i < 0 {
			return 0, false
		}
		at += i + 1
	}
	if line < 1 || column < 0 || at+column > len(text) {
		return 0, false
	}
	return at + column, true
}

// within sets the position of an error to a position in the file. line and column are the corresponding position in a
// scalar's value.
func (d *Document) within(e *Error, s scalar, line, column int) {
	if l, c, ok := d.place(s, line, column); ok {
		e.Line, e.Column = l, c
		e.Source = d.line(l)
	}
}

// Within returns a copy of the error with another position in the same value: line (counted from 1) and column (counted
// from 0). If the value has no such position, the copy is at the start of the value.
func (e *Error) Within(line, column int) *Error {
	c := *e
	if e.doc != nil {
		c.Line, c.Column, c.Source = e.scalar.line, e.scalar.column, e.doc.line(e.scalar.line)
		e.doc.within(&c, e.scalar, line, column)
	}
	return &c
}
