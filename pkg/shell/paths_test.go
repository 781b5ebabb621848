package shell

import (
	"slices"
	"strings"
	"testing"
)

func TestTheWordsOfALineThatMayBePaths(t *testing.T) {
	for line, want := range map[string]string{ // a written path begins with >
		"cat a.txt b/c":                      "a.txt b/c",
		"echo x > a 2> b":                    ">a >b",
		"sed -i s/x/y/ f":                    ">-i >s/x/y/ >f",
		"cat < a":                            "a",
		"echo \"$(cat a)\"":                  "a",
		"cd d && cat a":                      "d a d/a",
		"cd d && cd .. && cat a":             "d .. d/.. a d/a ../a d/../a",
		"cat {a,b}.md":                       "a.md b.md",
		"make build && npm run lint":         "",
		"git push origin build":              "",
		"git mv a b":                         ">a >b",
		"go build -o=x ./c":                  ">-o=x >x >./c",
		"cat $HOME/a":                        "~/a",
		"timeout 5 tee a < b":                "b >a",
		"if test -f a; then touch b; fi":     "-f a >b",
		"cat <<EOF\n$(head a)\nEOF":          "a",
		"case x in x) cat a;; esac":          "",
		"cd sub && echo x > /tmp/a > ~/b c":  "sub >/tmp/a >/tmp/a >~/b >~/b",
		"for f in a b; do cat c; done":       ">f >a >b c",
		"X=1 rm -rf a":                       ">-rf >a",
		"diff <(cat a) b":                    "a b",
		"cat a | sort -o b":                  "a >-o >b",
		"/usr/bin/cat a":                     "a",
		"find . -name x | xargs cat && ls b": ". -name x >cat b",
	} {
		found, all := Paths(line, 100)
		var got []string
		for _, p := range found {
			for _, n := range p.Names {
				if p.Write {
					n = ">" + n
				}
				got = append(got, n)
			}
		}
		if !all || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, strings.Join(got, " "), want)
		}
	}
	if found, all := Paths("cat "+strings.Repeat("a ", 500), 100); all || len(found) != 100 {
		t.Errorf("%d paths, all %v", len(found), all)
	}
	found, _ := Paths("cd $X && touch a", 100)
	if !slices.ContainsFunc(found, func(p Path) bool { return p.Lost && p.Write }) {
		t.Errorf("the folder is known: %+v", found)
	}
}
