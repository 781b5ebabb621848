package shell

import (
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// nastyLines are lines in which a simple reader would not see the name of a file or a program. The values are their
// sinks.
var nastyLines = map[string]string{
	// Quotes
	"cp evil $'CLAUDE\\x2emd'": "CLAUDE.md: evil", "cp evil $'\\u0043LAUDE\\56md'": "CLAUDE.md: evil",
	"cp evil $'CLAUDE\\456md'": "CLAUDE.md: evil", "cp evil $'CLAUDE.md\\0x'": "CLAUDE.md: evil",
	"cp evil $'\\x{43}LAUDE.md'": "CLAUDE.md: evil", "cp evil $'CLAUDE.md\\''": "CLAUDE.md: ?",
	`cp evil "CLAUDE"'.md'`: "CLAUDE.md: evil", `cp evil CLAUDE\.md`: "CLAUDE.md: evil",
	"cp evil $\"CLAUDE.md\"": "CLAUDE.md: evil", `c\p evil CLAUDE.md`: "CLAUDE.md: evil",
	"c''p evil CLAUDE.md": "CLAUDE.md: evil", "\\done; cp evil CLAUDE.md": "CLAUDE.md: ?", "sort '' CLAUDE.md": "",
	"cp evil C{LAUDE,X}.md": "CLAUDE.md: ?",
	// Here-documents
	"cat <<E > CLAUDE.md\n$(cat evil)\nE":                "CLAUDE.md: evil line",
	"cat <<'E' > CLAUDE.md\n$(cat evil)\nE\n":            "CLAUDE.md: line",
	"cat <<-E | tee CLAUDE.md\n\tx\n\tE":                 "CLAUDE.md: line",
	"cat <<A; cat evil <<B > CLAUDE.md\na\nA\nb\nB":      "CLAUDE.md: evil",
	"bash <<E\ncp evil CLAUDE.md\nE":                     "CLAUDE.md: ?",
	"cat <<E | sh\ncp evil CLAUDE.md\nE":                 "CLAUDE.md: ?",
	"cat > CLAUDE.md <<E\nno end":                        "CLAUDE.md: ?",
	"cat <<'E'\nit's\nE\ncp evil CLAUDE.md # '":          "CLAUDE.md: ?",
	"echo \"$(cat <<E\n)\nE\n)\"; cp evil CLAUDE.md":     "CLAUDE.md: evil",
	"cat > x <<'E'\ncp evil CLAUDE.md\nE\ncat x; head x": "",
	// Substitutions
	"cat <(cat evil) > CLAUDE.md":                           "CLAUDE.md: ?",
	"cp <(curl x) CLAUDE.md":                                "CLAUDE.md: ?",
	"cat evil > >(tee CLAUDE.md)":                           "CLAUDE.md: ?; CLAUDE.md: evil",
	"tee >(cat > CLAUDE.md) < evil":                         "CLAUDE.md: ?; CLAUDE.md: evil",
	"diff <(git show HEAD:CLAUDE.md) CLAUDE.md":             "",
	"cat < $(cp evil CLAUDE.md)":                            "CLAUDE.md: evil",
	"echo x > \"$(cp evil CLAUDE.md; echo x)\"":             "CLAUDE.md: evil; CLAUDE.md: line",
	"echo `echo \\`cp evil CLAUDE.md\\``":                   "CLAUDE.md: ?",
	"cat <<E\n${x:-\nE\ncp evil CLAUDE.md\n}\nE\n":          "CLAUDE.md: ?",
	"cat <<E\na \\\nE\nit's\nE\ncp evil CLAUDE.md #'":       "CLAUDE.md: ?",
	"echo ${x:-<(cp evil CLAUDE.md)}":                       "CLAUDE.md: ?",
	"cp evil ${X:-CLAUDE.md}":                               "CLAUDE.md: evil?",
	"cp evil ${X:-\"CLAUDE\".md}":                           "CLAUDE.md: evil?",
	"cp evil $(echo 'CLAUDE'.md)":                           "CLAUDE.md: evil?",
	"x='a[$(cp evil CLAUDE.md)]'; echo $((x))":              "CLAUDE.md: ?",
	"x='a[$(cp evil CLAUDE.md)]'; [[ $x -eq 1 ]]":           "CLAUDE.md: ?",
	"x='a[$(cp evil CLAUDE.md)]'; echo ${!x}":               "CLAUDE.md: ?",
	"x='$(cp evil CLAUDE.md)'; echo ${x@P}":                 "CLAUDE.md: ?",
	"test -v 'a[$(cp evil CLAUDE.md)]'":                     "CLAUDE.md: ?",
	"F=CLAUDE.md; n=$((n+1)); [[ $n -gt 1 ]] && cat \"$F\"": "",
	"echo \"Step $((1+2))\" >> CLAUDE.md":                   "CLAUDE.md: line",
	// Programs that run programs
	"eval 'cp evil CLAUDE.md'":                        "CLAUDE.md: ?",
	"X='cp evil CLAUDE.md'; eval \"$X\"":              "CLAUDE.md: ?",
	"f() { cp evil CLAUDE.md; }; f":                   "CLAUDE.md: ?",
	"function f { cp evil \"$1\"; }; f CLAUDE.md":     "CLAUDE.md: ?",
	"alias ll='cp evil'; ll CLAUDE.md":                "CLAUDE.md: ?",
	"command alias cat='cp evil CLAUDE.md'":           "CLAUDE.md: ?",
	"cp --parents docs/CLAUDE.md d":                   "docs/CLAUDE.md: ?",
	"env -C memory cp ../evil x.md":                   "memory/x: ?",
	"env -C d cp x.txt CLAUDE.md":                     "CLAUDE.md: ?",
	"bash -c 'cp evil \"$1\"' _ CLAUDE.md":            "CLAUDE.md: ?",
	"echo evil | xargs -I{} cp {} CLAUDE.md":          "CLAUDE.md: ?",
	"{ echo CLAUDE.md; } | xargs cp evil":             "CLAUDE.md: ?",
	"find . -exec cp {} CLAUDE.md ';'":                "CLAUDE.md: ?",
	"coproc cp evil CLAUDE.md":                        "CLAUDE.md: ?",
	"for ((i=0;i<2;i++)); do cp evil CLAUDE.md; done": "CLAUDE.md: ?",
	// White space, comments and characters
	"cp evil \\\n  CLAUDE.md": "CLAUDE.md: evil", "cp evil \"CLAU\\\nDE.md\"": "CLAUDE.md: evil",
	"cp evil 'CLAU\\\nDE.md'": "", "cp evil $(echo CLAU\\\nDE.md)": "CLAUDE.md: evil?",
	"ls # x \\\ncp evil CLAUDE.md": "CLAUDE.md: ?", "cat evil >& 'CLAUDE.md'": "CLAUDE.md: ?",
	"ls #\ncp evil CLAUDE.md": "CLAUDE.md: evil", "ls x#; cp evil CLAUDE.md": "CLAUDE.md: evil",
	"ls # > CLAUDE.md": "CLAUDE.md: ?", "ls\r\ncp evil CLAUDE.md\r\n": "CLAUDE.md: ?", "cp evil CLAUDE.md\r": "CLAUDE.md: ?",
	"cp evil\u00a0CLAUDE.md": "", "cp evil\u00a0x CLAUDE.md": "CLAUDE.md: evil\u00a0x", "cp evil\u3000CLAUDE.md": "",
	"cp evil CLAUDE\x00.md": "CLAUDE.md: ?", "cp evil CLAUDE.md; )": "CLAUDE.md: ?",
	`cp evil 'CLAUDE.md'\`: "CLAUDE.md: ?",
}

// bashLines are lines with quotes, comments, here-documents and other syntax. lex must read them as bash does.
var bashLines = []string{
	`a 'x y' "x'y" x\ y "x\y" "\$x\"" x"y"'z'`, "a x\\\ny \"x\\\ny\" 'x\\\ny'", "a $'x\\x61\\u0062\\t\\n\\\\' $'\\141'",
	"a x#y # b z", "a '#' \"#\" \\# ; b", "a <<E\nb 'x\nE\na y", "a <<'E'\n$(b)\nE\na y", "a <<-E\n\tb\n\tE\na y",
	"a <<E <<X\nb\nE\nb\nX\na z", "a \"$(b 'x)' \"y)\")\" z", "a `b \\`a x\\`` y", "a \"`b \\\"x\\\"`\"", "(a x; b y) | a z & b",
	"a <(b x) z", "a {x,y}z {x} {x,'y'}", "a {x,y{z,}}", "if a; then b x; else b y; fi; while b; a x && ! a; do b; done",
	"for x in a 'b c'; do a \"$x\" z; done", "a x>y2 2>z", "a &>x y", "a 2>&1 x >|y", "x=y a z; x=y; a \"$x\"",
	"a $((1+2)) $[1] x", "a $((b x) ; a y)", "a x\u00a0y é", "a ~ ~x x~ x=~", "a \"$\" $ $\"x\" \"$'x'\"", "a \\", "a '\n' \"\n\"",
	"a x;b y&a z|b;;", "a $(a <<E\n)\nE\n) x", "[[ x < y && ( a == b ) ]] && a x", "a !x x! \\!x", "a ${x:-y z} \"${x:-'y'}\" z",
	"a ''x \"\"", "a \"${x#\"y\"}\" z", "((1<2)) && a x", "a x <<< 'y z' b", "a>x b", "a 1>x b", "x>y a b", "a x=(y)", "time a x",
	"a # x \\\nb", `a x >&\\\b`, "a ''\\",
}

// FuzzLexAgainstBash gives lines of a few signs to bash and to lex. lex must have read each program that bash starts
// and each file that bash makes, unless lex returns false for the line.
func FuzzLexAgainstBash(f *testing.F) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		f.Skip(err)
	}
	for _, line := range bashLines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		line = strings.Map(func(c rune) rune { // no other builtins than [ and [[
			if strings.ContainsRune("abxyzE16 '\"\\\n\t$(){}[]`#;&|<>*?~=!,+-\u00a0é", c) {
				return c
			}
			return rune("abxyzE \\'\"$`(){};\n<>#"[int(c)%21])
		}, line)
		commands, _, ok := lex(line)
		if len(line) > 200 || !ok || strings.Contains(line, "<&") {
			return
		}
		dir := t.TempDir()
		calls := bashRuns(t, bash, dir, line)
		all, files := flatten(commands)
		for _, call := range calls {
			if !slices.ContainsFunc(all, func(words []token) bool { return mayBe(words, call) }) {
				t.Errorf("bash runs %q in %q, lex reads %+v", call, line, commands)
			}
		}
		made, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range made {
			if !slices.ContainsFunc(files, func(w token) bool { return mayBe([]token{w}, []string{file.Name()}) }) {
				t.Errorf("bash makes %q in %q, lex reads %+v", file.Name(), line, commands)
			}
		}
	})
}

// bashRuns returns, for each program that bash would start in a line, its words. No program is really started: a
// function of bash prints the words instead. A line of the test does not contain the characters with codes 3 and 5,
// which separate the printed words.
func bashRuns(t *testing.T, bash, dir, line string) (calls [][]string) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, bash, "--norc", "-c", `
command_not_found_handle() { printf '%s\0' "${@//$'\n'/$'\5'}" $'\3' >&9; }
readonly -f command_not_found_handle
eval "$1"`, "bash", line)
	cmd.Dir, cmd.Env = dir, []string{"PATH=/nowhere", "HOME=/nowhere", "LC_ALL=C.UTF-8"}
	cmd.ExtraFiles = []*os.File{w, w, w, w, w, w, w}
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // the line may fail
	for call := range strings.SplitSeq(strings.ReplaceAll(string(out), "\x05", "\n"), "\x03\x00") {
		if call != "" {
			calls = append(calls, strings.Split(strings.TrimSuffix(call, "\x00"), "\x00"))
		}
	}
	return calls
}

// flatten returns the words of all programs, and the files of all redirections. For a program that has assignments in
// front of it, it returns the words with them and without them.
func flatten(commands []simple) (programs [][]token, files []token) {
	for _, c := range commands {
		words := c.words
		programs = append(programs, words)
		for len(words) > 0 && assigns(words[0].text) {
			words = words[1:]
			programs = append(programs, words)
		}
		for _, r := range c.redirects {
			if files = append(files, r.to); r.op == "<<" {
				files = files[:len(files)-1]
			}
			words = append(slices.Clip(words), r.to)
		}
		for _, w := range append(c.words, words...) {
			for _, s := range w.inner {
				p, f := flatten(s.commands)
				programs, files = append(programs, p...), append(files, f...)
			}
		}
	}
	return programs, files
}

// numbers matches parameters whose values are numbers or flags of the shell.
var numbers = regexp.MustCompile(`\$\{?[?#$!-]`)

// mayBe reports whether a shell may expand the words to these texts.
func mayBe(words []token, texts []string) bool {
	for i, w := range words {
		if !literal(w) || strings.Contains(w.text, "~") || numbers.MatchString(w.text) {
			return true
		}
		if i >= len(texts) || texts[i] != w.text {
			return false
		}
	}
	return len(words) == len(texts)
}

func BenchmarkSinks(b *testing.B) {
	none := func(string) bool { return false }
	for b.Loop() {
		for line := range honestLines {
			Sinks(honestLines[line], Files{none, none, list})
		}
	}
}
