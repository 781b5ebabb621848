package strictyaml

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

type sample struct {
	Name  string            `yaml:"name"`
	List  []string          `yaml:"list"`
	Map   map[string]string `yaml:"map"`
	Inner []struct {
		A string `yaml:"a"`
		N int    `yaml:"n"`
	} `yaml:"inner"`
}

func read(src string) (sample, error) {
	var s sample
	doc, err := Parse("f.yaml", []byte(src))
	if err == nil {
		err = doc.Decode(&s)
	}
	return s, err
}

func TestWhatIsOutsideTheSubsetIsRefusedAtItsPlace(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"name: a\nnmae: b\n", "f.yaml:2:1: unknown field \"nmae\"\n  2 | nmae: b"},
		{"name: a\nname: b\n", "f.yaml:2:1: "},
		{"inner:\n- a: x\n  b: y\n", "f.yaml:3:3: unknown field \"b\""},
		{"inner:\n- n: x\n", "f.yaml:2:6: "},
		{"list: &a [x]\n", "f.yaml:1:7: anchors"},
		{"list: [x]\nmap: *a\n", "f.yaml:2:6: anchors"},
		{"map:\n  <<: {a: b}\n", "f.yaml:2:3: anchors"},
		{"name: !!str x\n", "f.yaml:1:7: tags"},
		{"!0000 00", "f.yaml:1:1: tags"},
		{"%YAML 1.2\n---\nname: a\n", "f.yaml:1:1: directives"},
		{"? name\n: a\n", "f.yaml:1:1: complex keys"},
		{"name: a\n---\nname: b\n", "f.yaml:3:5: the file has a second document"},
		{"name: [\n", "f.yaml:1:7: "},
		{"name: {a: b}\n", "f.yaml:1:"},
		{"name: a\n\tlist: b\n", "f.yaml:"},
		{"list: " + strings.Repeat("[", 100), "nested more than"},
		{strings.Repeat("- ", 100) + "x", "nested more than"},
		{"nmae: PRIVATE+KEY+abc\n", "  1 | nmae: PRIVATE+KEY+…"},
	} {
		_, err := read(c.src)
		var at *Error
		if !errors.As(err, &at) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.src, err, c.want)
		}
	}
	if _, err := Parse("f", make([]byte, MaxSize+1)); err == nil {
		t.Error("a document over the limit was read")
	}
}

func TestPlainDocumentsAreRead(t *testing.T) {
	s, err := read("# comment\n---\nname: 'a: b'\nlist:\n  - x\n  - \"y\"\nmap: {k: v}\ninner:\n- a: |\n    two\n    " +
		"lines\n  n: 2\n")
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "a: b" || len(s.List) != 2 || s.Map["k"] != "v" || len(s.Inner) != 1 ||
		s.Inner[0].A != "two\nlines\n" || s.Inner[0].N != 2 {
		t.Errorf("read %+v", s)
	}
	for _, src := range []string{"", "\n", "# only a comment\n", "---\n"} {
		doc, err := Parse("f", []byte(src))
		if err != nil {
			t.Errorf("%q: %v", src, err)
		} else if err := doc.Decode(&s); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
}

func TestAPathLeadsToItsValue(t *testing.T) {
	doc, err := Parse("f.yaml", []byte("name: x\ninner:\n- a: 1\n- a: 2\n  n: 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path []any
		want string
	}{
		{[]any{"name"}, "f.yaml:1:7: "},
		{[]any{"inner", 1, "n"}, "f.yaml:5:6: "},
		{[]any{"inner", 1, "missing"}, "f.yaml:4:3: "},
		{[]any{"inner", 9}, "f.yaml:3:1: "},
		{[]any{"none"}, "f.yaml:1:1: "},
	} {
		err := doc.Errorf(c.path, "wrong: %w", fs.ErrInvalid)
		if !strings.HasPrefix(err.Error(), c.want) || !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%v: %v, want %s", c.path, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, src := range []string{"!0000 00", "name: a\nlist: [x, 'y']\n", "inner:\n- a: |\n    x\n  n: 0x1f\n",
		"map: {a: b, c: ~}\n---\n", "- - - x", "\"\\u12", "name: >-\n"} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		_, err := read(string(src))
		var at *Error
		if err != nil && !errors.As(err, &at) {
			t.Fatalf("%T: %v", err, err)
		}
	})
}
