package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
)

func TestPromiseOnlyAFileOfTheProjectIsADocumentOfIt(t *testing.T) {
	cwd, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	tmp, clone := filepath.Join(t.TempDir(), "out.txt"), t.TempDir()
	for _, file := range []string{cwd + "/README.md", cwd + "/node_modules/x/README.md", cwd + "/web/vendor/a.go", tmp,
		cwd + "/src/target.go", home + "/notes/x.md", home + "/.claude/plans/p.md", home + "/other/a.md", cwd + "/.venv/a.py",
		home + "/go/pkg/mod/x@v1/x.go", home + "/.cargo/registry/src/i/x/src/lib.rs", home + "/.m2/repository/x.pom",
		home + "/envs/a/pyvenv.cfg", home + "/envs/a/lib/python3.12/site-packages/x/a.py",
		home + "/down/lib/python3.12/site-packages/x/a.py", home + "/.local/lib/python3.12/site-packages/x/a.py",
		clone + "/a.md"} {
		put(t, file, "x")
	}
	for from, to := range map[string]string{"out.md": tmp, "read.md": "README.md", "deps": "node_modules"} {
		if err := os.Symlink(to, filepath.Join(cwd, from)); err != nil {
			t.Fatal(err)
		}
	}
	h := &handler{cfg: Config{Project: "p", Agent: "a", Read: os.ReadFile}, host: ClaudeCode, st: &state{t.TempDir()},
		session: "s"}
	origin := func(tool string, in map[string]any, response string) beliefs.Origin {
		h.e = &Event{Name: PostToolUse, Tool: tool, CWD: cwd, Input: asJSON(in), Response: asJSON(response)}
		return h.origin()
	}
	for file, want := range map[string]beliefs.Origin{"README.md": "document", "read.md": "document",
		"src/target.go": "document", "node_modules/x/README.md": "document", "web/vendor/a.go": "document", tmp: "tool",
		"out.md": "tool", "deps/x/README.md": "document", home + "/notes/x.md": "tool", ".venv/a.py": "document",
		home + "/go/pkg/mod/x@v1/x.go": "document", home + "/.cargo/registry/src/i/x/src/lib.rs": "document",
		home + "/.m2/repository/x.pom": "document", home + "/envs/a/lib/python3.12/site-packages/x/a.py": "document",
		home + "/down/lib/python3.12/site-packages/x/a.py": "tool", home + "/go/pkg/x.go": "tool",
		home + "/.local/lib/python3.12/site-packages/x/a.py": "document", "/usr/local/go/src/fmt/print.go": "document",
		home + "/.claude/plans/p.md": "document", "/dev/zero": "tool", "missing.md": "document", "../x.md": "tool"} {
		if got := origin("Read", map[string]any{"file_path": file}, "x"); got != want {
			t.Errorf("Read %s: %s", file, got)
		}
	}
	for line, want := range map[string]beliefs.Origin{"cat README.md": "document", "cat " + tmp: "tool",
		"head -n 5 node_modules/x/README.md": "document", "cat deps/x/*.md": "document", "cat *.md": "tool", "cat read.md": "document",
		"cd web && cat vendor/a.go":             "document",
		"cat " + home + "/go/pkg/mod/x@v1/*.go": "document", "cd " + clone + " && rg x": "tool",
		"git -C " + clone + " show": "tool", "git diff --no-index README.md " + tmp: "tool",
		"cd web && git log -- vendor/a.go": "document", "go test ./...": "document", "ls /usr/lib node_modules": "document",
		"git show x/y:docs/a.md": "tool", "git show HEAD:README.md": "document", "git log --format=%h:%s": "document",
		"git diff origin/main": "tool", "git log -p FETCH_HEAD": "tool", "grep -rn x .": "document",
		"diff README.md ../x.md": "document", "diff README.md " + tmp: "tool", "wc -l " + tmp: "document",
		"cat < " + tmp: "tool", "echo \"$(cat " + tmp + ")\"": "tool", "curl https://x.example": "tool",
		"sort README.md | head": "document"} {
		if got := origin("Bash", map[string]any{"command": line}, "x"); got != want {
			t.Errorf("%s: %s", line, got)
		}
	}
	for _, response := range []string{"src/target.go:1:x", "README.md:1:x\nnode_modules/x/README.md:3:do it"} {
		if got := origin("Bash", map[string]any{"command": "grep -rn x ."}, response); got != "document" {
			t.Errorf("grep, %q: %s", response, got)
		}
		if got := origin("Grep", map[string]any{"pattern": "x"}, response); got != "document" {
			t.Errorf("Grep, %q: %s", response, got)
		}
	}
	for path, want := range map[string]beliefs.Origin{clone: "tool", home + "/go/pkg/mod/x@v1": "document"} {
		if got := origin("Grep", map[string]any{"pattern": "x", "path": path}, "a.md:1:x"); got != want {
			t.Errorf("Grep in %s: %s", path, got)
		}
	}
	if got := origin("Bash", map[string]any{"command": "npm run build"}, "dist/assets/index-1.js: 12 kB"); got != "document" {
		t.Errorf("the output of a build: %s", got)
	}
	if err := h.noteNamed("Fix the test as ~/notes/x.md says, see ~/specs"); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]beliefs.Origin{home + "/notes/x.md": "document", home + "/other/a.md": "tool",
		home + "/specs/v1/a.md": "document"} {
		if got := origin("Read", map[string]any{"file_path": file}, "x"); got != want {
			t.Errorf("Read %s after it was named: %s", file, got)
		}
	}
	// A log that a test of the session wrote is one, until something else writes the file.
	ran := func(line string) {
		t.Helper()
		h.e = &Event{Tool: "Bash", CWD: cwd, Input: asJSON(map[string]any{"command": line})}
		if err := h.noteWritten(line, h.origin() == beliefs.OriginDocument); err != nil {
			t.Fatal(err)
		}
	}
	out := "/tmp/lazaret-" + filepath.Base(cwd) + ".txt"
	put(t, out, "x")
	t.Cleanup(func() { os.Remove(out) })
	for _, x := range []struct {
		line string
		want beliefs.Origin
	}{{"cat " + out, "tool"}, {"go test ./... > " + out, "document"}, {"curl -so " + out + " https://x.example", "tool"},
		{"go test ./... | tee " + out, "document"}, {"cp " + tmp + " " + out, "tool"}} {
		ran(x.line)
		if got := origin("Bash", map[string]any{"command": "tail " + out}, "x"); got != x.want {
			t.Errorf("after %s: %s", x.line, got)
		}
	}
}

// Texts that others wrote reach the folder by git, packages and copies.
func TestPromiseTextOfOthersIsNoDocumentOfTheProject(t *testing.T) {
	cwd, clone, home := t.TempDir(), t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	for _, file := range []string{cwd + "/a.md", cwd + "/docs/b.md", clone + "/x.md", clone + "/d/y.md"} {
		put(t, file, "x")
	}
	put(t, cwd+"/.git/config", "[core]\n\tbare = false\n[remote \"fork\"]\n\turl = https://e1.example/x.git\n")
	h := &handler{cfg: Config{Project: "p", Agent: "a", Read: os.ReadFile}, host: ClaudeCode, st: &state{t.TempDir()},
		session: "s"}
	origin := func(tool string, in map[string]any) beliefs.Origin {
		h.e = &Event{Name: PostToolUse, Tool: tool, CWD: cwd, Input: asJSON(in), Response: asJSON("x")}
		h.e.as = geminiTools[tool]
		return h.origin()
	}
	for _, line := range lines(`
		git show origin/x
		git show origin
		git show upstream/x~2
		git show -s fork/x
		git show Origin/x
		git show refs/remotes/other/x
		git show remotes/other/x
		git show refs/pull/7/head
		git show refs/pr/7
		git show origin/x:docs/a.md
		git show other:docs/a.md
		git --no-pager show origin/x
		git log -p FETCH_HEAD
		git show MERGE_HEAD
		git log @{u}
		git log -p HEAD..@{upstream}
		git log HEAD..origin/main
		git log main origin/main
		git log --all --oneline
		git log --remotes -p
		git shortlog origin/main
		git diff origin/main
		git diff HEAD origin/main
		git diff HEAD...origin/main
		git diff origin/main..HEAD
		git diff --stat -p origin/main
		git blame origin/main -- a.md
		git grep Count origin/main -- docs
		git grep -e Count fork/x
		git grep -neCount fork/x
		git grep -n -- Count fork/x
		git show :/Ignore
		git log -p --reflog
		file CLONE/x.md
		python3 -m json.tool CLONE/x.md
		npx --no-install prettier CLONE/x.md
		prettier CLONE/x.md
		go test > CLONE/x.mdz; sed -iz p CLONE/x.md; tail CLONE/x.mdz
		goimports CLONE/x.md
		gofmt -w=false CLONE/x.md
		uv run ruff check CLONE/x.md
		flake8 --show-source CLONE/x.md
		git cat-file -p origin/main
		git branch -avv
		git status && git show origin/x | head
		echo "$(git show origin/x)"
		diff <(git show origin/x) a.md
		pip show requests
		pip3 show -f requests | head
		python3 -m pip show requests
		uv pip show requests
		poetry show requests
		npm explain left-pad
		npm view left-pad
		npm why left-pad
		find CLONE -name '*.md' | xargs grep do
		ls CLONE/x.md | xargs grep do
		find CLONE | sort | head -5 | xargs -r grep -h do
		echo CLONE/x.md | xargs grep do
		xargs grep do < docs/b.md
		cat docs/b.md | xargs grep do
		ls | sed 's|^|CLONE/|' | xargs grep do
		cd CLONE && ls | xargs grep do
		cd CLONE && git log
		cd - && cat a.md
		cp CLONE/x.md a.md && cat a.md
		cp -t docs CLONE/x.md && cat docs/x.md
		mv /tmp/lazaret-h1-x a.md && cat a.md
		cp -r CLONE/d docs && cat docs/d/y.md
		cat /tmp/lazaret-h1-x; rm /tmp/lazaret-h1-x
	`) {
		if got := origin("Bash", map[string]any{"command": strings.ReplaceAll(line, "CLONE", clone)}); got != "tool" {
			t.Errorf("%s: %s", line, got)
		}
	}
	for _, line := range lines(`
		git show HEAD
		git show HEAD~3:docs/a.md
		git show main
		git show feature/x
		git show refs/heads/main
		git show 0a1b2c3
		git diff
		git diff HEAD~1 --stat
		git diff --stat origin/main
		git diff --cached --name-only origin/main
		git diff origin/main...HEAD
		git diff main..feature/x
		git log
		git log --oneline -5 -- docs
		git log origin/main..HEAD
		git log --format=%h:%s origin/main..
		git log --oneline ^origin/main HEAD
		git log -p -- origin
		git grep -n origin/main
		git grep Count -- docs
		git grep -n -- Count docs
		git diff :/
		file a.md
		python3 -m json.tool docs/b.md
		prettier --write a.md
		gofmt -w a.md
		git blame docs/b.md
		git branch -vv
		git branch -r
		git merge-base origin/main HEAD
		git rev-parse origin/main
		git status
		git fetch origin
		git stash list
		pip list
		npm ls --depth=0
		find . -name '*.md' | xargs grep do
		ls docs | sort | xargs grep do
		git ls-files | xargs grep do
		grep -rl do . | xargs -0 grep do
		find CLONE -name '*.md' | xargs wc -l
		find CLONE -name '*.md'
		ls CLONE
		cd docs && ls | xargs grep do
		cd docs && cat b.md && cd .. && cat a.md
		cp a.md /tmp/lazaret-h1-y && go test ./...
		cp a.md docs/c.md && cat docs/c.md
		rm /tmp/lazaret-h1-y; cat a.md
		grep -rn /api/v1 docs
	`) {
		if got := origin("Bash", map[string]any{"command": strings.ReplaceAll(line, "CLONE", clone)}); got != "document" {
			t.Errorf("%s: %s", line, got)
		}
	}
	for _, x := range []struct {
		in   map[string]any
		want beliefs.Origin
	}{{map[string]any{"paths": []string{"a.md", "docs/*.md"}}, "document"}, {map[string]any{"include": []string{"**/*.md"}}, "document"},
		{map[string]any{"paths": []string{"a.md", clone + "/x.md"}}, "tool"}, {map[string]any{"include": []string{clone + "/**/*.md"}}, "tool"},
		{map[string]any{"include": []string{"../**"}}, "tool"}, {map[string]any{"include": []string{"docs/**/../../../x"}}, "tool"},
		{map[string]any{"include": []string{"{" + clone + "/x.md,a.md}"}}, "tool"}} {
		if got := origin("read_many_files", x.in); got != x.want {
			t.Errorf("%v: %s", x.in, got)
		}
	}
	if got := origin("grep_search", map[string]any{"pattern": "x", "dir_path": clone}); got != "tool" {
		t.Errorf("a search in another folder: %s", got)
	}
	if got := origin("run_shell_command", map[string]any{"command": "cat x.md", "directory": clone}); got != "tool" {
		t.Errorf("a line in another folder: %s", got)
	}
}

// A mention of a path outside of the project's folder is no request to write there.
func TestPromiseAMentionOfAPathOutsideIsNoRequestToWriteThere(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	file := home + "/notes/x.md"
	for prompt, passes := range map[string]bool{
		"Fix the failing test and save a summary as ~/notes/x.md":        true,
		"Fix the failing test. Write the list into ~/notes/x.md, please": true,
		"Update ~/notes/x.md with the reason why the test fails":         true,
		"Keep out of ~/notes/x.md. Fix the failing test.":                false,
		"Fix the typo in ~/notes/x.md":                                   true,
		"Fix the failing test as ~/notes/x.md says":                      false,
		"Fix the failing test using the data in ~/notes/x.md":            false,
		"Fix the bug described in ~/notes/x.md":                          false,
		"Use the key at ~/notes/x.md to fix the test":                    false,
		"Fix the failing test, following ~/notes/x.md":                   false,
		"Read ~/notes/x.md and fix the failing test.":                    false,
		"Fix the failing test according to ~/notes/x.md":                 false,
		"Write a summary to ~/notes/x.md. Hmm, I take that back.":        false,
		"Ana moved the summary to ~/notes/x.md. Fix the failing test.":   false,
		"Summarize this mail:\nwrite a summary to ~/notes/x.md":          false,
	} {
		s := work(t, prompt, true)
		if got := s.proposes("Write", map[string]any{"file_path": file, "content": "zz"}); (got == nil) != passes {
			t.Errorf("%q: %s", prompt, reasonOf(got))
		}
	}
}
