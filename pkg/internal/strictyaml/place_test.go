package strictyaml

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

type marked struct{ line, column int }

func (m marked) Error() string      { return "here" }
func (m marked) Within() (int, int) { return m.line, m.column }

// Each document has one value v. § marks the position of the error that the test expects. It is removed before the
// document is parsed.
func TestAPlaceInAValueIsAPlaceInTheFile(t *testing.T) {
	for name, doc := range map[string]string{
		"plain":             "v: some §here\n",
		"plain, far":        "a:\n  - b: x\n    v:   some §here\n",
		"plain, folded":     "v: some\n  more\n    §here it is\n",
		"after wide text":   "{é: ü, v: ää §here}\n",
		"single quotes":     "v: 'it''s ''so'' §here'\n",
		"double quotes":     "v: \"a \\\" \\u0041\\t\\x41 \\\\ §here\"\n",
		"double, continued": "v: \"a b\\\n   c d\n  §here\"\n",
		"literal":           "v: |\n  one\n    two\n\n  thrée §here\n",
		"literal, kept":     "v: |+ # remark\n    one\n\n    x §here\n\n",
		"folded":            "v: >-\n  one two\n  three\n    more\n\n  last §here\n",
		"folded, blank":     "v: >\n\n  one  two\n\n\n  §here\n",
		"crlf":              "v: >-\r\n  one\r\n  two §here\r\n",
		"in a list":         "w:\n  - >-\n    a\n    b\nv: >-\n    a\n    §here\n",
		"the end":           "v: >-\n  some §\n",
	} {
		before, after, _ := strings.Cut(doc, "§")
		src := before + after
		line := strings.Count(before, "\n") + 1
		column := len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
		d, err := Parse("f", []byte(src))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		path := []any{"v"}
		if name == "plain, far" {
			path = []any{"a", 0, "v"}
		}
		node := d.root
		for _, p := range path {
			node = child(node, p)
		}
		s, ok := scalarOf(node)
		if !ok {
			t.Errorf("%s: no scalar", name)
			continue
		}
		value := string(s.value)
		i := strings.Index(value, "here")
		if i < 0 {
			i = len(value)
			column--
			if doc[strings.Index(doc, "§")-1] != ' ' {
				column++
			}
		}
		m := marked{line: strings.Count(value[:i], "\n") + 1,
			column: len([]rune(value[strings.LastIndex(value[:i], "\n")+1 : i]))}
		e := d.Errorf(path, "at: %w", m)
		if e.Line != line || e.Column != column {
			t.Errorf("%s: is at %d:%d, want %d:%d", name, e.Line, e.Column, line, column)
		}
		if got := e.Within(1, 0); got.Line > line || got.Line == line && got.Column > column {
			t.Errorf("%s: begins at %d:%d", name, got.Line, got.Column)
		}
		// The value has no line 99, so the position is the start of the value.
		if e := d.Errorf(path, "%w", marked{99, 0}); e.Line != s.line || e.Column != s.column {
			t.Errorf("%s: no place is at %d:%d, want %d:%d", name, e.Line, e.Column, s.line, s.column)
		}
	}
}

func TestAllUnknownFieldsAreKnownWithWhatMayStandThere(t *testing.T) {
	src := "nmae: x\nmap: {any: b}\ninner:\n  - {a: x, m: 1}\n  - q: 1\n"
	d, err := Parse("f", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	var s sample
	var got []string
	for _, e := range d.Unknown(&s) {
		var u *UnknownField
		if !errors.As(e, &u) {
			t.Fatalf("%v has no cause", e)
		}
		got = append(got, fmt.Sprintf("%d:%d %s of %s", e.Line, e.Column, u.Name, strings.Join(u.Known, ",")))
	}
	if s := strings.Join(got, "; "); s != "1:1 nmae of name,list,map,inner; 4:12 m of a,n; 5:5 q of a,n" {
		t.Error(s)
	}
	if err := d.Decode(&s); err == nil || !strings.HasPrefix(err.Error(), "f:1:1: unknown field \"nmae\"\n") {
		t.Errorf("decoding says %v", err)
	}
}

func FuzzPlace(f *testing.F) {
	f.Add("v: >-\n  a\n  b\n", 1, 2)
	f.Add("v: \"\\", 1, 1)
	f.Fuzz(func(t *testing.T, src string, line, column int) {
		d, err := Parse("f", []byte(src))
		if err != nil {
			return
		}
		d.Unknown(&sample{})
		e := d.Errorf([]any{"v"}, "%w", marked{line, column})
		if e.Line > strings.Count(src, "\n")+strings.Count(src, "\r")+2 {
			t.Errorf("line %d of %q", e.Line, src)
		}
	})
}
