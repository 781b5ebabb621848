package rulefmt

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/parser"
	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

func read(t rapid.TB, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func glob(t rapid.TB, patterns ...string) []string {
	t.Helper()
	var out []string
	for _, p := range patterns {
		files, err := filepath.Glob(p)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", p, err)
		}
		out = append(out, files...)
	}
	return out
}

func TestGoldenFiles(t *testing.T) {
	for _, in := range glob(t, "testdata/*.in.yaml") {
		src := read(t, in)
		got, err := Format(filepath.Base(in), src)
		checkForm(t, src, got)
		if err != nil {
			got = append(got, "# errors:\n# "+strings.ReplaceAll(err.Error(), "\n", "\n# ")+"\n"...)
		}
		golden := strings.Replace(in, ".in.", ".golden.", 1)
		if *update {
			if err := os.WriteFile(golden, got, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if d := Diff(golden, read(t, golden), got); d != "" {
			t.Error(d)
		}
	}
}

// Formatting must change at most two lines of all shipped rules together.
func TestShippedRulesAreNearlyCanonical(t *testing.T) {
	changed := 0
	for _, f := range glob(t, "../../rules/*/*.yaml", "../../rules/*.yaml") {
		src := read(t, f)
		got, err := Format(f, src)
		if err != nil {
			t.Error(err)
		}
		checkForm(t, src, got)
		for l := range strings.Lines(Diff(f, src, got)) {
			if strings.HasPrefix(l, "-") && !strings.HasPrefix(l, "---") {
				changed++
			}
		}
	}
	if changed > 2 {
		t.Errorf("%d lines of the shipped rules change", changed)
	}
}

func TestErrorsNameThePlaceAndTheRestIsFormatted(t *testing.T) {
	got, err := Format("x.yaml", []byte("rules:\n- id: a\n  when: a &&\n  message: \"b+c\"\n- when: \"(\"\n"))
	if err == nil || !strings.Contains(err.Error(), "x.yaml:3:9: when is not a CEL expression") ||
		!strings.Contains(err.Error(), "x.yaml:5:9: ") {
		t.Error(err)
	}
	if want := "rules:\n  - id: a\n    when: a &&\n    message: b + c\n  - when: \"(\"\n"; string(got) != want {
		t.Errorf("%s", got)
	}
}

func TestWhatIsNotUnderstoodComesBackWithItsPlace(t *testing.T) {
	for src, want := range map[string]string{
		"a: [b\n":                 "f.yaml:1:",
		"a: &x b\n":               "f.yaml:1:4: anchors",
		"a: b\na: c\n":            "f.yaml:2:1: ",
		"a:\n  |\n  text\n":       "f.yaml:2:3: ",
		"a: b\n---\nc: d\n":       "f.yaml:",
		"rules:\n\t- id: x\n":     "f.yaml:2:",
		"a: b\rc: d\n":            "f.yaml",
		"a: \"b\" c\n":            "f.yaml:1:",
		"a:\n  - b\n - c\n":       "f.yaml:",
		"rules: {a: b}\n  c: d\n": "f.yaml:",
	} {
		got, err := Format("f.yaml", []byte(src))
		if err == nil || !strings.Contains(err.Error(), want) || string(got) != src {
			t.Errorf("%q: %q, %v", src, got, err)
		}
	}
}

func TestExpressions(t *testing.T) {
	for src, want := range map[string]string{
		`a&&b||!c`:                              `a && b || !c`,
		`a||(b&&c)`:                             `a || (b && c)`,
		`- 1 - -x`:                              `-1 - -x`,
		`a?b:c?d:e`:                             `a ? b : c ? d : e`,
		`{"a":1,'b':x?1:2}`:                     `{'a': 1, 'b': x ? 1 : 2}`,
		`foo.Bar{a:1}`:                          `foo.Bar{a: 1}`,
		`a [ 0 ] ( )`:                           ``,
		`a . b ( x,y ) [ 0 ]`:                   `a.b(x, y)[0]`,
		`a in[1]&&.b==.c`:                       `a in [1] && .b == .c`,
		`"it's" + r"\d" + "\n" + "a" + '"'`:     `"it's" + r"\d" + "\n" + 'a' + '"'`,
		`r"a"+b"c"+R'''d'''+"""e"""`:            `r'a' + b'c' + R'''d''' + """e"""`,
		`1e3+.5+0x1F+0XuL`:                      ``,
		`1e3+.5+0x1F+0x1u+2U`:                   `1e3 + .5 + 0x1F + 0x1u + 2U`,
		"a &&\n// why\nb":                       ``,
		"'''a\nb'''":                            ``,
		"'a\u200bb'  + c":                       ``,
		`size( x )>0`:                           `size(x) > 0`,
		"a.`b-c`==1":                            "a.`b-c` == 1",
		`((a))`:                                 `((a))`,
		`[ ]+[ 1,]`:                             `[] + [1,]`,
		`!(!a)&&!!b`:                            `!(!a) && !!b`,
		`has( a.b )&&l.exists( x,x in{"a":1} )`: `has(a.b) && l.exists(x, x in {'a': 1})`,
	} {
		lines, err := formatCEL(src)
		if got := strings.Join(lines, "\n"); got != want || (want == "") != (err != nil) {
			t.Errorf("%s: %q, %v", src, got, err)
		}
	}
}

func TestScalars(t *testing.T) {
	for text, want := range map[string]string{
		`a == 1`:            `a == 1`,
		`'a' in b`:          `"'a' in b"`,
		`a ? b : c`:         `"a ? b : c"`,
		`!a`:                `"!a"`,
		`"it's"`:            ">-\n\"it's\"",
		`a == "" ? b : c`:   `'a == "" ? b : c'`,
		`true`:              `"true"`,
		`1`:                 `"1"`,
		`'a\\b'`:            ">-\n'a\\\\b'",
		`x + ' # ' + y`:     `"x + ' # ' + y"`,
		`-x`:                `-x`,
		`[a]`:               `"[a]"`,
		`{'a': 1}['a'] > b`: `"{'a': 1}['a'] > b"`,
	} {
		if got := strings.Join(scalar([]string{text}, "").lines, "\n"); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestDiff(t *testing.T) {
	a := []byte("a\nb\nc\n")
	if d := Diff("f", a, a); d != "" {
		t.Error(d)
	}
	if d := Diff("f", a, []byte("a\nx\nc\n")); !strings.Contains(d, "-b\n+x\n") || !strings.Contains(d, "--- f\n") {
		t.Error(d)
	}
}

// checkForm checks a formatted file: formatting it again changes nothing, and it has the same meaning and the same
// comments as its source.
func checkForm(t rapid.TB, src, got []byte) {
	t.Helper()
	again, err := Format("again", got)
	if !bytes.Equal(again, got) {
		t.Errorf("formatting once more changes it (%v):\n%s", err, Diff("f", got, again))
	}
	var before, after any
	if err := yaml.Unmarshal(src, &before); err != nil {
		t.Error(err)
	}
	if err := yaml.Unmarshal(got, &after); err != nil {
		t.Errorf("%v in\n%s", err, got)
	}
	before, after = canon(t, before), canon(t, after)
	if !reflect.DeepEqual(before, after) {
		t.Errorf("the meaning has changed:\n%v\n%v\nfrom\n%s\nto\n%s", before, after, src, got)
	}
	if a, b := comments(src), comments(got); !slices.Equal(a, b) {
		t.Errorf("comments have changed:\n%q\n%q\nfrom\n%s\nto\n%s", a, b, src, got)
	}
	if len(got) > 0 && (got[len(got)-1] != '\n') {
		t.Errorf("the end is %q", got[max(0, len(got)-5):])
	}
	// In a block scalar, spaces and blank lines are part of the text. So only files without such a scalar are checked
	// for trailing spaces.
	if !regexp.MustCompile(`[|>][-+0-9]*( *#.*)?\n`).Match(got) && !bytes.ContainsAny(got, `"'`) {
		if m := regexp.MustCompile(`[ \t]\n`).Find(got); m != nil {
			t.Errorf("trailing spaces in\n%s", got)
		}
	}
}

// comments returns the comments of a file, sorted. It only finds comments that can be recognized from the text of one
// line.
func comments(src []byte) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)(?:^|[ \t])(#[^\r\n]*)`).FindAllSubmatch(src, -1) {
		out = append(out, strings.TrimRight(string(m[1]), " \t"))
	}
	slices.Sort(out)
	return out
}

var withMacros = func() *parser.Parser {
	p, err := parser.NewParser(parser.Macros(parser.AllMacros...), parser.PopulateMacroCalls(true),
		parser.EnableIdentEscapeSyntax(true))
	if err != nil {
		panic(err)
	}
	return p
}()

type expression string

// canon replaces expressions by their syntax trees, and NaN by a value that equals itself. It recognizes an expression
// by the name of its key.
func canon(t rapid.TB, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = canon(t, x)
			if s, ok := x.(string); ok {
				if tree, bad := withMacros.Parse(common.NewTextSource(s)); bad == nil || len(bad.GetErrors()) == 0 {
					v[k] = expression(unparsed(t, tree))
				}
			}
		}
	case []any:
		for i := range v {
			v[i] = canon(t, v[i])
		}
	case float64:
		if math.IsNaN(v) {
			return "NaN"
		}
	}
	return v
}

func unparsed(t rapid.TB, tree *ast.AST) string {
	s, err := parser.Unparse(tree.Expr(), tree.SourceInfo())
	if err != nil {
		t.Skip(err)
	}
	return s
}

// Random syntax trees are written as expressions with random spaces. After formatting, an expression must still have
// the same syntax tree.
func TestExpressionsKeepTheirSyntax(t *testing.T) {
	var expr func(depth int) *rapid.Generator[string]
	expr = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			sp := func() string { return rapid.SampledFrom([]string{"", " ", "\n", "  "}).Draw(t, "space") }
			leaf := rapid.SampledFrom([]string{
				"action.level", "memory.inherited", "event.external", "true", "1", "2.5", "-3", "7u", `'a'`, `"b"`,
				`"it's"`, `'\\'`, `r"\d"`, `b"x"`, "null", `"a && b"`, `'x || y ? z : w'`,
			}).Draw(t, "leaf")
			if depth == 0 {
				return leaf
			}
			sub := func() string { return sp() + expr(depth-1).Draw(t, "sub") + sp() }
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0, 1:
				return "(" + sub() + "&&" + sub() + ")"
			case 2, 3:
				return sub() + "||" + sub()
			case 4:
				return "(" + sub() + "?" + sub() + ":" + sub() + ")"
			case 5:
				return "content.markers.exists(m," + sub() + ")"
			case 6:
				return "f(" + sub() + "," + sub() + ")[" + sub() + "]"
			case 7:
				return "!(" + sub() + ")"
			case 8:
				return "{" + sub() + ":" + sub() + "}"
			}
			return "(" + sub() + rapid.SampledFrom([]string{"+", "-", "==", "<=", " in ", "*"}).Draw(t, "op") + sub() + ")"
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		src := expr(4).Draw(t, "expression")
		lines, err := formatCEL(src)
		if errors.Is(err, errKeep) {
			t.Fatalf("not laid out: %s", src)
		}
		if err != nil {
			t.Skip(err)
		}
		again, err := formatCEL(strings.Join(lines, "\n"))
		if err != nil || !slices.Equal(again, lines) {
			t.Fatalf("%v\n%s\n--\n%s", err, strings.Join(lines, "\n"), strings.Join(again, "\n"))
		}
		for i, l := range lines {
			if strings.TrimRight(l, " ") != l || i == 0 && strings.HasPrefix(l, " ") {
				t.Fatalf("spaces in %q", lines)
			}
		}
	})
}

// Shipped files are damaged, or their lines are indented differently. Formatting must keep their meaning and their
// comments.
func TestVariantsOfTheShippedRules(t *testing.T) {
	files := glob(t, "../../rules/*/*.yaml", "testdata/*.in.yaml")
	rapid.Check(t, func(t *rapid.T) {
		lines := strings.Split(strings.TrimSuffix(string(read(t, rapid.SampledFrom(files).Draw(t, "file"))), "\n"), "\n")
		for range rapid.IntRange(1, 8).Draw(t, "edits") {
			i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
			switch rapid.IntRange(0, 4).Draw(t, "edit") {
			case 0:
				lines = slices.Insert(lines, i, strings.Repeat(" ", rapid.IntRange(0, 8).Draw(t, "indent"))+"# said "+
					rapid.StringMatching(`[a-z]{4}`).Draw(t, "remark"))
			case 1:
				lines = slices.Insert(lines, i, "", "")
			case 2:
				lines[i] += "  # " + rapid.StringMatching(`[a-z]{4}`).Draw(t, "remark")
			case 3:
				lines = slices.Delete(lines, i, i+1)
			case 4:
				for j := range lines {
					n := indentOf(lines[j])
					lines[j] = strings.Repeat(" ", n) + lines[j]
				}
			}
			if len(lines) == 0 {
				return
			}
		}
		src := []byte(strings.Join(lines, "\n"))
		got, err := Format("f", src)
		if errors.Is(err, errMeaning) {
			t.Fatalf("%v:\n%s", err, src)
		}
		if bytes.Equal(got, src) {
			return
		}
		checkForm(t, src, got)
	})
}

func FuzzFormat(f *testing.F) {
	for _, file := range glob(f, "../../rules/*/*.yaml", "testdata/*.in.yaml") {
		f.Add(read(f, file))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := Format("f", src)
		if bytes.Equal(got, src) {
			return
		}
		if errors.Is(err, errMeaning) {
			t.Fatal("changed with an error that says it is left as it is")
		}
		checkForm(t, src, got)
	})
}
