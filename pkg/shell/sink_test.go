package shell

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// sinkLines are command lines with their sinks. A sink is a memory file, with the files whose text it gets. "line"
// means text of the command line, and a question mark means unknown text.
var sinkLines = map[string]string{
	// Copies
	"cp docs/a.md CLAUDE.md":                     "CLAUDE.md: docs/a.md",
	"mv -f docs/a.md CLAUDE.md":                  "CLAUDE.md: docs/a.md",
	"git mv a.md sub/CLAUDE.md":                  "sub/CLAUDE.md: a.md",
	"cp a.md memory/":                            "memory/a.md: a.md",
	"cp docs/CLAUDE.md .":                        "CLAUDE.md: docs/CLAUDE.md",
	"cp -t memory a.md b.md":                     "memory/a.md: a.md; memory/b.md: b.md",
	"cp --target-directory=memory a.md":          "memory/a.md: a.md",
	"install -m 644 a.md CLAUDE.md":              "CLAUDE.md: a.md",
	"ln -s docs/a.md CLAUDE.md":                  "CLAUDE.md: docs/a.md",
	"cd docs && cp a.md ../CLAUDE.md":            "CLAUDE.md: docs/a.md",
	"mkdir -p memory && cp 'a b.md' memory/x.md": "memory/x.md: a b.md",
	"cp a.md CLAUDE.md && git add CLAUDE.md":     "CLAUDE.md: a.md",
	"cp docs/*.md memory/":                       "memory/*.md: ?",
	"cp $F CLAUDE.md":                            "CLAUDE.md: ?",
	"cd $D && cp a CLAUDE.md":                    "CLAUDE.md: ?",
	"./gen > a.md; cp a.md CLAUDE.md":            "CLAUDE.md: ?",
	"echo x > a.md && cp ./a.md CLAUDE.md":       "CLAUDE.md: ?",
	"cp x a.md && cp a.md CLAUDE.md":             "CLAUDE.md: ?",
	"make docs && cp out.md CLAUDE.md":           "CLAUDE.md: ?",
	"cp CLAUDE.md CLAUDE.md.bak":                 "",
	"cp a.md memory":                             "memory/a.md: a.md",
	"mv CLAUDE.md old":                           "",
	"make 2> CLAUDE.md":                          "CLAUDE.md: ?",
	"make 2>&1 > CLAUDE.md":                      "CLAUDE.md: ?",
	"cp a.md b.md":                               "",
	// Redirections
	"cat a b > CLAUDE.md":                                            "CLAUDE.md: a b",
	"cat < a >> CLAUDE.md":                                           "CLAUDE.md: a",
	"head -n 20 a | sed 's/x/y/' >CLAUDE.md":                         "CLAUDE.md: a line",
	"cat a | tee -a CLAUDE.md memory/b.md":                           "CLAUDE.md: a; memory/b.md: a",
	"cat a 2>/dev/null | sort -u > CLAUDE.md":                        "CLAUDE.md: a",
	"echo 'use make' >> CLAUDE.md":                                   "CLAUDE.md: line",
	"echo \"done $(date) in $PWD\" >> CLAUDE.md":                     "CLAUDE.md: line",
	"echo \"for $5\" >> CLAUDE.md":                                   "CLAUDE.md: line?",
	"echo \"$(cat a)\" > CLAUDE.md":                                  "CLAUDE.md: a line",
	"cat > CLAUDE.md <<'EOF'\nuse `make` $X\nEOF\ngit add CLAUDE.md": "CLAUDE.md: line",
	"cat <<EOF >> CLAUDE.md\non $(date)\nEOF\n":                      "CLAUDE.md: line",
	"cat <<EOF > CLAUDE.md\n$(./gen)\nEOF\n":                         "CLAUDE.md: line?",
	"echo x &> CLAUDE.md":                                            "CLAUDE.md: line",
	"X=$(./gen); echo \"$X\" > CLAUDE.md":                            "CLAUDE.md: line?",
	"curl -s https://x.example | tee CLAUDE.md":                      "CLAUDE.md: ?",
	"./gen.sh > CLAUDE.md":                                           "CLAUDE.md: ?",
	"git show x:a > CLAUDE.md":                                       "CLAUDE.md: ?",
	"cat a - > CLAUDE.md < b":                                        "CLAUDE.md: a b",
	// Programs that write
	"sed -i 's/a/b/' CLAUDE.md":                              "CLAUDE.md: line",
	"sed -i.bak '3d' CLAUDE.md":                              "CLAUDE.md: line",
	"sed -i 'r x' CLAUDE.md":                                 "CLAUDE.md: line?",
	"sed -i 's/a/b/w x;1r y' CLAUDE.md":                      "CLAUDE.md: line?",
	"sed -n 's/a/b/e' x > CLAUDE.md":                         "CLAUDE.md: x line?",
	"sort -o CLAUDE.md x":                                    "CLAUDE.md: ?",
	"uniq a CLAUDE.md":                                       "CLAUDE.md: ?",
	"curl -o CLAUDE.md https://x.example":                    "CLAUDE.md: ?",
	"dd if=a of=CLAUDE.md":                                   "CLAUDE.md: ?",
	"git checkout x -- CLAUDE.md":                            "CLAUDE.md: ?",
	"git restore --source x CLAUDE.md":                       "CLAUDE.md: ?",
	"perl -pi -e 's/a/b/' CLAUDE.md":                         "CLAUDE.md: ?",
	"rsync -a docs/ memory/":                                 "memory/x: ?",
	"cp -r docs memory":                                      "memory/docs/x: ?; memory/docs: docs",
	"cp -r docs/. memory":                                    "memory/x: ?",
	"bash -c 'cp a CLAUDE.md'":                               "CLAUDE.md: ?",
	"python3 - <<'EOF'\nopen('CLAUDE.md','w').write(x)\nEOF": "CLAUDE.md: ?",
	"sudo cp a b && pandoc a -o CLAUDE.md":                   "CLAUDE.md: ?",
	"if true; then echo x; fi > CLAUDE.md":                   "CLAUDE.md: ?",
	"for f in a b; do cat $f; done > CLAUDE.md":              "CLAUDE.md: ?",
	"for f in a b; do cat $f >> CLAUDE.md; done":             "CLAUDE.md: ?",
	"if [ -f a ]; then cp a CLAUDE.md; fi":                   "CLAUDE.md: a",
	"case x in x) cp a CLAUDE.md;; esac":                     "CLAUDE.md: ?",
	"python3 -c 'open(\"x\")' CLAUDE.md":                     "CLAUDE.md: ?",
	"(cat a) > CLAUDE.md":                                    "CLAUDE.md: ?",
	"for f in a; do cp $f CLAUDE.md; done":                   "CLAUDE.md: ?",
	"echo ${X} > CLAUDE.md":                                  "CLAUDE.md: line?",
	// Programs that write nothing of unknown text
	"touch CLAUDE.md": "",
	"rm CLAUDE.md":    "",
	"git add CLAUDE.md && git commit -m 'CLAUDE.md'":        "",
	"git diff CLAUDE.md | head":                             "",
	"python3 scripts/check.py CLAUDE.md":                    "",
	"npx prettier --write CLAUDE.md":                        "",
	"grep -n make CLAUDE.md > out.txt":                      "",
	"cat CLAUDE.md":                                         "",
	"find . -name CLAUDE.md":                                "",
	"git checkout -- CLAUDE.md && git restore CLAUDE.md":    "",
	"for f in CLAUDE.md b; do echo \"== $f\"; cat $f; done": "",
	"if [ -f CLAUDE.md ]; then cat CLAUDE.md; fi":           "",
	"[[ -f CLAUDE.md ]] && wc -l CLAUDE.md":                 "",
	"(cd docs && cat ../CLAUDE.md)":                         "",
	"gh pr create --body-file CLAUDE.md":                    "",
	"./check.sh CLAUDE.md":                                  "CLAUDE.md: ?",
	"echo \"${X}\" CLAUDE.md":                               "",
	"git push # CLAUDE.md":                                  "CLAUDE.md: ?",
	// Files to which builds and tests write
	"pytest --junitxml=CLAUDE.md":               "CLAUDE.md: ?",
	"pytest --junit-xml CLAUDE.md":              "CLAUDE.md: ?",
	"python -m pytest --junitxml=CLAUDE.md":     "CLAUDE.md: ?",
	"uv run pytest -q --junitxml=CLAUDE.md":     "CLAUDE.md: ?",
	"pytest --cov-report=CLAUDE.md":             "CLAUDE.md: ?",
	"npm test -- --coverage=CLAUDE.md":          "CLAUDE.md: ?",
	"go test -coverprofile=CLAUDE.md ./...":     "CLAUDE.md: ?",
	"go run ./cmd/gen CLAUDE.md":                "CLAUDE.md: ?",
	"cargo run -- CLAUDE.md":                    "CLAUDE.md: ?",
	"uv run tee CLAUDE.md < evil":               "CLAUDE.md: evil",
	"poetry run sed -i s/a/b/ CLAUDE.md":        "CLAUDE.md: line",
	"uv run cat CLAUDE.md":                      "",
	"pytest --ignore=CLAUDE.md tests":           "",
	"uv run pytest --ignore=CLAUDE.md":          "",
	"go test -coverpkg=./memory/... ./memory/x": "",
	"python3 check.py CLAUDE.md":                "",
}

// list returns the files of the folder d, or of the folder above d.
func list(folder string) []string {
	return map[string][]string{"d": {"CLAUDE.md", "x.txt"}, ".": {"CLAUDE.md", "d/CLAUDE.md", "d/x.txt", "p.txt"}}[path.
		Clean(folder)]
}

// copiedLines are command lines that copy a folder, or the files that a pattern matches, with their sinks.
var copiedLines = map[string]string{
	"cp -r d/. .":                          "CLAUDE.md: d/CLAUDE.md",
	"cp -a d/ e":                           "e/CLAUDE.md: d/CLAUDE.md",
	"cp -rT d .":                           "CLAUDE.md: d/CLAUDE.md",
	"mv d e":                               "e/CLAUDE.md: d/CLAUDE.md",
	"cp d/* .":                             "CLAUDE.md: d/CLAUDE.md",
	"cp p.txt C*.md":                       "CLAUDE.md: p.txt?",
	"cp p.txt {x,CLAUDE}.md":               "CLAUDE.md: ?",
	"cat p.txt > CLAUDE.m?":                "CLAUDE.md: p.txt",
	"sed -i.md s/a/b/ CLAUDE":              "CLAUDE.md: CLAUDE",
	"sed -i.bak s/a/b/ p.txt":              "",
	"cp p.txt ./[!x]LAUDE.md":              "./CLAUDE.md: p.txt?",
	"cp p.txt ./[[:upper:]]LAUDE.md":       "./CLAUDE.md: p.txt?",
	"cp p.txt ./[A-z]L[!a-z]*.md":          "./CLAUDE.md: p.txt?",
	"sed -i s/a/b/ C[!x]AUDE.md":           "CLAUDE.md: line?",
	"cp d/[!x]L*.md .":                     "CLAUDE.md: d/CLAUDE.md",
	"cp p.txt [!C]*.md":                    "CLAUDE.md: p.txt?",
	"cp d/x* .":                            "",
	"cp -r docs e && cp d/x.txt {a,b}.txt": "",
}

func TestSinksOfCommandLines(t *testing.T) {
	memory := func(file string) bool {
		return path.Base(file) == "CLAUDE.md" || strings.HasPrefix(strings.TrimPrefix(file, "./"), "memory/") &&
			file != "memory/"
	}
	lines := maps.Clone(sinkLines)
	maps.Copy(lines, foreignLines)
	maps.Copy(lines, copiedLines)
	maps.Copy(lines, nastyLines)
	for _, line := range honestLines {
		lines[line] = ""
	}
	for line, want := range lines {
		var got []string
		for _, s := range Sinks(line, Files{memory, func(file string) bool {
			return path.Clean(file) == "." || path.Clean(file) == "d" || file == "memory" || strings.HasPrefix(file, "docs") &&
				!strings.Contains(file, "md")
		}, list}) {
			text := append([]string{}, s.From...)
			if s.Line {
				text = append(text, "line")
			}
			mark := "?"
			if s.Known {
				mark = ""
			}
			got = append(got, fmt.Sprintf("%s: %s%s", s.To, strings.Join(text, " "), mark))
		}
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("%q\n  has  %q\n  want %q", line, s, want)
		}
	}
}

// The files of a folder with very many files are not known.
func TestAPatternMayNameAMemoryFileOfAFolderThatIsNotKnown(t *testing.T) {
	for line, want := range map[string]string{"cp a.md ./CLAU*.md": "claude.md", "sed -i s/a/b/ ./*.md": "agent.md",
		"cp a.md docs/[A-Z]LAU*.md": "docs/claude.md", "cp a.md ./mem[!x]ry/x.md": "memory/x.md",
		"mv a.md x/*/CLAU*.md":    "x/*/claude.md",
		"sed -i s/a/b/ docs/*.md": "", "cp docs/*.md out": "", "cp a.md ./READ*.md": "", "cp a.md ./mem*/x.go": ""} {
		none := func(string) []string { return nil }
		all := Sinks(line, Files{IsMemoryFile, func(file string) bool { return file == "out" }, none})
		if got := slices.ContainsFunc(all, func(s Sink) bool { return s.To == want && !s.Known }); got != (want != "") ||
			want == "" && len(all) > 0 {
			t.Errorf("%q: %+v", line, all)
		}
	}
}

// FuzzSinks looks for lines that make Sinks panic or recurse without end. In addition, if a program that is not known
// writes to a memory file at the end of a line, this sink must not have Known set.
func FuzzSinks(f *testing.F) {
	for _, line := range []string{"cat a > b <<E\nx\nE", "echo \"$(cat `a` ${x)\" >& c", "cp -t", "sed -i s,,", "$((", "<<",
		"'", "tee", "if x; then (cp a b) > c; fi", "git restore -s x y"} {
		f.Add(line)
	}
	any := func(string) bool { return true }
	f.Fuzz(func(t *testing.T, line string) {
		Sinks(line, Files{any, any, list})
		if strings.ContainsAny(line, "\"'`\\#()$<>\n{") {
			return
		}
		all := Sinks(line+"; ./x > CLAUDE.md", Files{func(file string) bool { return strings.HasSuffix(file, "CLAUDE.md") }, any,
			list})
		if len(all) == 0 || all[len(all)-1].Known {
			t.Errorf("%q: %+v", line, all)
		}
	})
}
