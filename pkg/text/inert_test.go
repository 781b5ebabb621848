package text

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestInertTextCannotSteerATerminal(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":         "plain\ttext\n",
		"naïve 日本語 🙂":           "naïve 日本語 🙂",
		"\x1b[31mred\x1b[0m":    `\x1b[31mred\x1b[0m`,
		"a\rb\r\nc":             `a\x0db` + "\nc",
		"abc\u202egpj.exe":      `abc\u202egpj.exe`,
		"pay\u200bment":         `pay\u200bment`,
		"\U000e0041":            `\U000e0041`,
		"\u009b2J\x7f\x00\x08":  `\x9b2J\x7f\x00\x08`,
		"bad \xff\xfe utf8":     `bad \xff\xfe utf8`,
		"line\u2028sep":         `line\u2028sep`,
		"\u00a0nbsp is a space": "\u00a0nbsp is a space",
	} {
		if got := Inert(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{" two\n\nlines\t ", 0, "two lines"},
		{"abcdef", 6, "abcdef"},
		{"abcdef ", 6, "abcdef"},
		{"abcdefg", 6, "abcde…"},
		{"ab cd ef", 4, "ab…"},
		{"日本語テキスト", 4, "日本語…"},
		{"\x1b[2J", 10, `\x1b[2J`},
		{"", 5, ""},
		{"ab", 1, "…"},
	} {
		if got := InertLine(c.in, c.n); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.in, c.n, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := contents().Draw(t, "content")
		for _, r := range Inert(s) {
			if r != '\n' && r != '\t' && unsafeToPrint(r) {
				t.Fatalf("%U is left in %q", r, Inert(s))
			}
		}
		n := rapid.IntRange(1, 40).Draw(t, "n")
		if line := InertLine(s, n); len([]rune(line)) > n || strings.ContainsAny(line, "\n\r\t") {
			t.Fatalf("%q is longer than %d", line, n)
		}
	})
}
