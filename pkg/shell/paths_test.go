package shell

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheWordsOfALineThatMayBePaths(t *testing.T) {
	for line, want := range map[string]string{ // a written path begins with >
		"cat a.txt b/c":                      "a.txt b/c",
		"echo x > a 2> b":                    ">a >b",
		"sed -i s/x/y/ f":                    ">-i >s/x/y/ >f",
		"cat < a":                            "a",
		"echo \"$(cat a)\"":                  "a",
		"cd d && cat a":                      "d d/a",
		"cd d && cd .. && cat a":             "d d/.. d/../a",
		"cd d; cat a":                        "d d/a a",
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
		"cd sub && echo x > /tmp/a > ~/b c":  "sub >/tmp/a >~/b",
		"for f in a b; do cat c; done":       ">f >a >b c",
		"X=1 rm -rf a":                       ">-rf >a",
		"diff <(cat a) b":                    "a b",
		"cat a | sort -o b":                  "a >-o >b",
		"/usr/bin/cat a":                     "a",
		"find . -name x | xargs cat && ls b": ". -name x >cat b",
	} {
		found, all := Paths(line, 100, Around{})
		var got []string
		for _, p := range found {
			if p.Folder {
				continue
			}
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
	if found, all := Paths("cat "+strings.Repeat("a ", 500), 100, Around{}); all || len(found) != 100 {
		t.Errorf("%d paths, all %v", len(found), all)
	}
	found, _ := Paths("cd $X && touch a", 100, Around{})
	if !slices.ContainsFunc(found, func(p Path) bool { return p.Lost && p.Write }) {
		t.Errorf("the folder is known: %+v", found)
	}
}

// A line changes the folder only in its own shell, and only if a cd runs and succeeds.
func TestTheFoldersInWhichALineMayWrite(t *testing.T) {
	around := Around{Folder: func(dir string) bool { return dir == "sub" || dir == "sub/.." },
		Free: func(dir string) bool { return dir == "out" },
		Top: func(dir string) (string, bool) {
			return map[string]string{"": "/top", "sub": "/top", "sub/..": "/a b"}[dir], dir != "sub"
		}}
	for line, want := range map[string]string{
		"cp a b":                    ".",
		"cat a":                     "",
		"cd /etc && cp a b":         "/etc/.",
		"cd /etc; cp a b":           "/etc/. .",
		"cd sub; cp a b":            "sub/.",
		"cd sub; cd ..; cp a b":     "sub/../.",
		"cd new; cd ..; cp a b":     "new/../. ../. new/. .",
		"cd new && cd .. && cp a b": "new/../.",
		"mkdir new && cd new && x && cd .. && cp a b":                          ". new/. new/../.",
		"cd sub && make && cd - && cp a b":                                     "sub/. .",
		"cd - && cp a b":                                                       "?",
		"cd $X && cp a b":                                                      "?",
		"popd && cp a b":                                                       "?",
		"cd -2 && cp a b":                                                      "?",
		"cd ~ && cp a b":                                                       "~/.",
		"cd && cp a b":                                                         "~/.",
		"(cd /etc); cp a b":                                                    ".",
		"(cd /etc && cp a b)":                                                  "/etc/.",
		"(cd sub/deep) && cd .. && cp a b":                                     "../.",
		"cd sub/deep | ls; cd ..; cp a b":                                      "../. .",
		"cd sub/deep & cd ..; cp a b":                                          "../. .",
		"ls | cd sub; cp a b":                                                  "?",
		"cd sub | tee a":                                                       ".",
		"cd sub && make 2>&1 | tee a":                                          "sub/. sub/.",
		"timeout 5 cd sub && cp a b":                                           "?",
		"false && cd sub; cd .. && cp a b":                                     "sub/../. ../.",
		"true || cd sub; cd ..; cp a b":                                        "sub/../. ../. sub/. .",
		"true || cd sub && cd .. && cp a b":                                    "sub/../. ../.",
		"cd /x && ! cd new && cp a b":                                          "/x/new/. . /x/.",
		"! cd new && cd .. && cp a b":                                          "new/../. ../.",
		"if false; then cd sub; fi; cd .. && cp a b":                           "sub/../. ../.",
		"mv sub x; cd sub; cd .. && cp a b":                                    ". sub/../. ../.",
		"cd $(git rev-parse --show-toplevel) && cp a b":                        "/top/.",
		"ls; cd \"$(git rev-parse --show-toplevel)\" && cp a b":                "/top/.",
		"make; cd $(git rev-parse --show-toplevel) && cp a b":                  ". /top/.",
		"go vet ./... && cd $(git rev-parse --show-toplevel)/x && cp a b":      ". ?",
		"make > HEAD; cd $(git rev-parse --show-toplevel) && cp a b":           ". . ?",
		"make > a; cd $(git rev-parse --show-toplevel) && cp a b":              ". . /top/.",
		"make | tee a; cd $(git rev-parse --show-toplevel) && cp a b":          ". . /top/.",
		"make | tee .git; cd $(git rev-parse --show-toplevel) && cp a b":       ". . ?",
		"make; cd sub; cd ..; cp a b":                                          ". sub/../.",
		"make clean; cd sub; cd ..; cp a b":                                    ". sub/../. ../. sub/. .",
		"set -e; cd sub; export CI=1; cd ..; cp a b":                           "sub/../.",
		"mkdir out; cd out; cd ..; cp a b":                                     ". out/../. out/.",
		"echo \"$(mkdir out)\"; cd out; cp a b":                                ". out/. .",
		"black --check ../q; ruff check --diff ../q":                           "",
		"mv .git x; cd $(git rev-parse --show-toplevel) && cp a b":             ". ?",
		"cp -r a .; cd \"$(git rev-parse --show-toplevel)\" && cp a b":         ". ?",
		"./x; cd $(git rev-parse --show-toplevel) && cp a b":                   ". ?",
		"echo \"$(mv .git x)\"; cd $(git rev-parse --show-toplevel) && cp a b": ". ?",
		"CI=1 make; cd $(git rev-parse --show-toplevel) && cp a b":             ". ?",
		"(git init); cd $(git rev-parse --show-toplevel) && cp a b":            ". ?",
		"cd sub && cd \"$(git rev-parse --show-toplevel)\" && cp a b":          "/top/. sub/.",
		"cd sub && cd $(git rev-parse --show-toplevel) && cp a b":              "?",
		"cd sub && cd .. && cd $(git rev-parse --show-toplevel) && cp a b":     "?",
		"cd sub && cd .. && cd \"$(git rev-parse --show-toplevel)\" && cp a b": "/a b/.",
		"cd sub 2>/dev/null; cd ..; cp a b":                                    "sub/../.",
		"cd sub > /dev/null 2>&1; cd ..; cp a b":                               "sub/../.",
		"cd sub >&9; cd ..; cp a b":                                            "sub/../. ../. sub/. .",
		"cd sub &> /dev/null; cd ..; cp a b":                                   "sub/../. ../. sub/. .",
		"cd sub > $X/dev/null; cd ..; cp a b":                                  ". sub/../. ../. sub/. .",
		"{ cd sub >&2; cd ..; cp a b; } 2>&-":                                  "sub/../. ../. sub/. .",
		"echo $((1/0)); cd sub\ncd ..; cp a b":                                 "sub/../. ../. sub/. .",
		"echo a*; cd sub\ncd ..; cp a b":                                       "sub/../. ../. sub/. .",
		"echo a*\ncd sub\ncd ..; cp a b":                                       "sub/../.",
		"cd sub; echo a*; cd ..\ncp a b":                                       "sub/../. sub/.",
		"{ echo a*\ncd sub; }\ncd ..; cp a b":                                  "sub/../. ../. sub/. .",
		"echo =a; cd sub\ncd ..; cp a b":                                       "sub/../. ../. sub/. .",
		"echo ~a; cd sub\ncd ..; cp a b":                                       "sub/../. ../. sub/. .",
		"(echo a*; ls); cd sub\ncd ..; cp a b":                                 "sub/../.",
		"UID=1; cd sub\ncd ..; cp a b":                                         "sub/../. ../. sub/. .",
		"cd sub<1-5>x && cp a b":                                               ". ?",
		"cd $PWD; cd ..; cp a b":                                               "./../. ../. ./. .",
		"gofmt -l ../q":                                                        "",
		"cd /x && gofmt -d a.go":                                               "",
		"gofmt -w ../q":                                                        ".",
		"gofmt -l $X":                                                          ".",
		"gofmt -l *.go":                                                        ".",
		"shellcheck -x ../q/a.sh":                                              "",
		"GIT_DIR=x; cd $(git rev-parse --show-toplevel); cp a b":               "?",
		"cd sub < none; cd ..; cp a b":                                         "sub/../. ../. sub/. .",
		"cd sub > none && cd .. && cp a b":                                     ". sub/../.",
		"cd '~/x' && cp a b":                                                   "?",
		"cd \\~/x && cp a b":                                                   "?",
		"cd \"~\" && cp a b":                                                   "?",
		"cd ~$X && cp a b":                                                     "?",
		"cd ~/'x' && cp a b":                                                   "~/x/.",
		"cd \"$HOME/x\" && cp a b":                                             "~/x/.",
		"cd ${PWD}/sub && cp a b":                                              "./sub/.",
		"cd $USER/../sub && cp a b":                                            "?",
		"cd .$HOME/../sub && cp a b":                                           "?",
		"cd $HOME/$USER && cp a b":                                             "?",
		"cd -P sub && cp a b":                                                  "?",
		"cd -L -- sub && cp a b":                                               "sub/.",
		"time cd sub; cp a b":                                                  "?",
		"time make; cd sub && cd .. && cp a b":                                 ". sub/../.",
		"cd $\"sub\"; cp a b":                                                  "?",
		"cd $'sub'; cp a b":                                                    "?",
		"cd sub &> /dev/null && cd .. && cp a b":                               "sub/../. ../.",
		"cd sub && make &> /dev/null; cd .. && cp a b":                         "sub/. sub/../. ../.",
		"cd sub && ls | make &>> /tmp/a; cp a b":                               "sub/. sub/. .",
		"make &> /dev/null; cd sub && cd .. && cp a b":                         ". sub/../.",
		"true || cd sub\ncd - && cp a b":                                       "?",
		"cd =ls && cp a b":                                                     "?",
		"ls | { ls | cd sub; }; cp a b":                                        "?",
		"ls | { ls | { cd sub; cp a b; }; cp a b; }":                           "? ?",
		"ls | (cd sub && cp a b); cp a b":                                      "sub/. .",
		"echo \"$(mv sub x)\"; cd sub; cd .. && cp a b":                        ". sub/../. ../.",
		"cd /x && cd $(git rev-parse --show-toplevel) && cp a b":               "?",
		"cd $(cat a) && cp a b":                                                "?",
		"cd sub && echo \"$(cp a b)\"":                                         "sub/.",
		"cd /etc && echo x > a":                                                "/etc/.",
		"cd /etc && echo x > /tmp/a":                                           "",
		"cd /etc && make test":                                                 "/etc/.",
		"cd /etc && git commit -m x":                                           "/etc/.",
		"while true; do cp a b; cd ..; done":                                   "",
		"cd sub 12>/dev/null; cp a b":                                          "",
		"cd sub {x}>/dev/null; cp a b":                                         "",
	} {
		found, _ := Paths(line, 100, around)
		var got []string
		for _, p := range found {
			if p.Folder && p.Lost {
				got = append(got, "?")
			} else if p.Folder {
				got = append(got, p.Names...)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, strings.Join(got, " "), want)
		}
	}
	if line := "while true; do cp a b; cd ..; done"; Kind(line) != Other {
		t.Errorf("%s is %s", line, Kind(line))
	}
}

// After a program that may change where cd leads, or the folder itself, the folder is unknown.
func TestTheFolderIsUnknownAfterAProgramThatSteersTheShell(t *testing.T) {
	around := Around{Folder: func(string) bool { return true }}
	lost := func(line string) bool {
		found, _ := Paths(line, 100, around)
		return len(found) > 0 && found[len(found)-1].Lost
	}
	for _, first := range []string{"HOME=/x", "HOME+=/..", "CDPATH=/x", "cdpath=/x", "export HOME=/x",
		"export CDPATH", "declare -x HOME=/x", "typeset HOME=/x", "read HOME < a", "read -r CDPATH",
		"read -p '? ' \"$x\"", "mapfile HOME < a", "unset HOME", "local HOME=x", "readonly HOME=x",
		"printf -v HOME /x", "printf -v \"$x\" /x", "export $x", "export \"$(cat a)\"", "declare -n x=HOME",
		"getopts a HOME", "let HOME=1", "((HOME=1))", "echo $((HOME=1))", "echo \"${x:-$((HOME=1))}\"",
		"[[ HOME=1 -eq 2 ]]", "IFS=/", "PWD=/x", "OLDPWD=/x", "PROMPT_COMMAND='cd /x'", "CI=1 HOME=/x",
		"HOME=/x true", "for HOME in /x; do true; done", "eval 'cd /x'", "source a", ". a", ". ./a",
		"trap 'cd /x' DEBUG", "shopt -s cdable_vars", "shopt -s autocd", "setopt autocd", "unsetopt x",
		"emulate sh -c 'cd /x'", "set -o physical", "set -P", "set -- $x", "exec 2>&-", "chdir /x", "noglob cd /x",
		"nocorrect cd /x", "- cd /x", "repeat 2 cd ..", "command cd /x", "command -p cd /x", "command eval 'cd /x'",
		"exec cd /x", "pushd /x", "popd", "..", "../..", "/", "~", "sub/", "dirs -c", "integer HOME=1",
		"true | HOME=/x", "true | eval x", "{ eval x; }", "if true; then HOME=/x; fi", "print -v HOME /x"} {
		if !lost(first + "; cd sub; cp a b") {
			t.Errorf("%s: the folder is known", first)
		}
	}
	for _, first := range []string{"X=1", "export CI=1", "declare -x X=1", "read -r x < a", "set -e",
		"set -euo pipefail", "unset X", "(HOME=/x)", "(eval x)", "HOME=/x & wait", "echo HOME=/x", "command -v go",
		"echo $((1+2))", "printf '%s' HOME", "./run.sh", "/bin/ls", "env HOME=/x make",
		"for f in HOME; do true; done", "echo \"$(HOME=/x)\"", "x=$(eval y)"} {
		if lost(first + "; cd sub; cp a b") {
			t.Errorf("%s: the folder is unknown", first)
		}
	}
	for line, want := range map[string]bool{"for i in 1 2; do cd ..; cp a b; done": true,
		"for i in 1 2; do (cd ..; cp a b); done": false, "for i in 1 2; do if eval x; then cd ..; fi; cp a b; done": true} {
		if lost(line) != want {
			t.Errorf("%s: the folder is known: %v", line, want)
		}
	}
	found, _ := Paths("for i in 1 2; do cp a b; cd ..; done", 100, around)
	if slices.ContainsFunc(found, func(p Path) bool { return p.Program == "cp" && !p.Lost }) {
		t.Error("a later turn of the loop runs in another folder")
	}
	if _, _, ok := lex("while true; do cp a b; HOME=/x; done"); ok {
		t.Error("a loop that sets HOME is read")
	}
	around.Search = true
	for line, want := range map[string]bool{"cd sub && cp a b": true, "cd ./sub && cp a b": false, "cd /sub && cp a b": false,
		"cd .. && cp a b": false} {
		if lost(line) != want {
			t.Errorf("with CDPATH: %s: the folder is known: %v", line, want)
		}
	}
}

// The time for a line grows with its length only.
func TestALongLineIsReadInLittleTime(t *testing.T) {
	around := Around{Folder: func(string) bool { return true }}
	space := strings.Repeat(" ", 40) // so that a line has not too many brackets
	for _, part := range []string{"a|", "ls|", "xargs cat|", "cd a&&", "cd a;", "cd .||", "cd a|", "cd a < b&&",
		"HOME=a;", "set -e;", "read x y z;", "((x));" + space, "echo $((x));" + space, "/;", "export A=b C=d;",
		"for i in a;do cd b;done;", strings.Repeat("for i in a;do ", 200) + "cd b" + strings.Repeat(";done", 200) + ";",
		"if cd a;then cd b;fi;" + space, "cd a&>b;", "cd a;(ls &>b);" + space, "# a b\n", "ls;# b c\n", "{ cd a; } 2>&-;" + space, "ls *;cd a\n", "cd a\n"} {
		line := strings.Repeat(part, maxRead/len(part)-1) + "a"
		start := time.Now()
		if _, _, ok := lex(line); !ok {
			t.Errorf("%s is not read", part)
		}
		Paths(line, 2048, around)
		Others(line, nil)
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%s: %v", part, d)
		}
	}
}

// Bash, zsh and dash write in no other folders than those that are told for a line.
func TestShellsWriteInNoOtherFolder(t *testing.T) {
	for name, args := range map[string][]string{"bash": {"bash", "-c"}, "zsh": {"zsh", "-f", "-c"},
		"bash at a terminal": {"bash", "--norc", "-i", "-s"}, "zsh at a terminal": {"zsh", "-f", "-i", "-o", "autocd", "-s"},
		"dash": {"dash", "-c"}, "dash at a terminal": {"dash", "-i", "-s"}} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(args[0]); err != nil && args[0] != "bash" {
				t.Skipf("the folders of a write are compared with those of %s, which is not installed", args[0])
			} else if err != nil {
				t.Fatalf("the folders of a write are compared with those of bash, which is needed: %v", err)
			}
			writesAsTold(t, args)
		})
	}
}

// writesAsTold runs random lines in a shell, and compares the folders in which it writes with those that are told.
func writesAsTold(t *testing.T, shell []string) {
	random := rand.New(rand.NewPCG(4711, 1))
	parts := []string{"cd sub", "cd sub/deep", "cd ..", "cd ../..", "cd -", "cd none", "touch mark", "touch mark",
		"touch mark", "true", "false", "cd none/../sub", "cd sub/none/..", "cd sub < none", "cd '~/sub'",
		"mkdir none", "mv sub other", "cd .", "cd sub 2>/dev/null", "cd sub >&9", "cd ''", "cd", "cd ~/sub",
		"HOME=$PWD", "CDPATH=sub", "cd deep", "cd sub deep", "cd root", "eval 'cd ..'", "..", "sub/", "cd =ls",
		"echo none*", "echo $((1/0))", "echo ~none", "cd s?b", "cd sub<1-5>x", "cd $(true)", "cd \"$(true)\"",
		"chdir sub", "cd $\"sub\"", "cd $'sub'", "time cd sub", "cd sub &>/dev/null", "true &>/dev/null", "cd sub 12>/dev/null",
		"cd sub # x", "# a; cd sub", "for i in 1 2; do touch mark; cd ..; done"}
	var line func(depth int) string
	line = func(depth int) string {
		a := parts[random.IntN(len(parts))]
		if depth == 0 {
			return a
		}
		a, b := line(depth-1), line(depth-1)
		switch random.IntN(17) {
		case 0:
			return "( " + a + "); " + b
		case 1:
			return a + " || " + b
		case 2:
			return a + " | " + b
		case 3:
			return "if " + a + "; then " + b + "; fi"
		case 4:
			return "! " + a + " && " + b
		case 5:
			return "{ " + a + "; } && " + b
		case 6:
			return a + " & wait; " + b
		case 7, 8, 9:
			return a + "; " + b
		case 10:
			return "{ " + a + " >&2; " + b + "; } 2>&-"
		case 11, 12, 13:
			return a + "\n" + b
		}
		return a + " && " + b
	}
	lines := []string{"echo $((1/0)); cd sub\ncd ..; touch mark", "echo none*; cd sub\ncd ..; touch mark",
		"cd sub<1-5>x; touch mark", "cd sub; ..; touch mark", "HOME=$PWD/sub; cd; touch mark",
		"CDPATH=..; cd c; touch mark", "true | cd sub; touch mark", "for i in 1 2; do touch mark; cd ..; done",
		"{ cd sub >&2; cd ..; touch mark; } 2>&-", "chdir sub; touch mark", "cd sub deep; touch mark",
		"UID=1; cd sub\ncd ..; touch mark", "cd sub >&9; cd ..; touch mark", "cd sub && true & wait; touch mark",
		"cd $(true); touch mark", "cd sub; touch mark; cd ..; touch mark",
		"cd sub 2>/dev/null && cd .. && touch mark", "cd $\"sub\"; cd ..; touch mark", "cd $'sub'; cd ..; touch mark",
		"time cd sub; cd ..; touch mark", "cd sub &>/dev/null && cd .. && touch mark", "cd sub 12>/dev/null; cd ..; touch mark",
		"cd sub && true &>/dev/null; cd ..; touch mark", "cd sub # x\ncd ..\ntouch mark", "true # ; cd ..\ntouch mark",
		"# it's\ntouch 'mark'\ncd .. # '", "cd sub && ls | true &>/dev/null; cd ..; touch mark"}
	for range 60 {
		lines = append(lines, line(1+random.IntN(3)))
	}
	wrote := 0
	for _, s := range lines {
		if _, _, ok := lex(s); !ok { // such a line waits for a person
			continue
		}
		dir := t.TempDir()
		top := filepath.Join(dir, strings.Repeat("a/", 33), "c") // a line has too few parts to leave dir
		for _, sub := range []string{top + "/sub/deep", top + "/sub3x", dir + "/home/sub"} {
			if err := os.MkdirAll(sub, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		at := func(path string) string {
			if rest, ok := strings.CutPrefix(path, "~"); ok {
				return filepath.Join(dir, "home", rest)
			}
			return filepath.Join(top, path)
		}
		found, _ := Paths(s, 1000, Around{Folder: func(path string) bool {
			info, err := os.Stat(at("") + "/" + path)
			return err == nil && info.IsDir()
		}})
		told := map[string]bool{}
		for _, p := range found {
			for _, dir := range p.Names {
				told[at(dir)] = told[at(dir)] || p.Folder
				told["?"] = told["?"] || p.Folder && p.Lost
			}
		}
		run := exec.Command(shell[0], append(shell[1:len(shell):len(shell)], s)...)
		if shell[len(shell)-1] == "-s" {
			run = exec.Command(shell[0], shell[1:]...)
			run.Stdin = strings.NewReader(s + "\n")
		}
		run.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir + "/home"} // without OLDPWD, to which cd - would lead
		run.Dir = top
		_ = run.Run() // many lines fail
		if told["?"] {
			continue
		}
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if filepath.Base(path) == "mark" {
				wrote++
				if dir := filepath.Dir(path); !told[dir] {
					moved := strings.Replace(dir, "/c/other", "/c/sub", 1) // the folder was moved after the write
					if !told[moved] {
						t.Errorf("%q: wrote in %s", s, strings.TrimPrefix(dir, top))
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if wrote < 8 {
		t.Errorf("only %d files were written", wrote)
	}
}
