package hook

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A repository can bring symbolic links. A command line is judged by the files to which its words lead.
func TestPromiseAWordOfACommandLineIsJudgedByTheFileToWhichItLeads(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	s := work(t, "Fix the failing test, and run the tests", true)
	for _, dir := range []string{home + "/.ssh", home + "/other", filepath.Join(s.cwd, ".git/hooks"),
		filepath.Join(s.cwd, "pkg/a"), filepath.Join(s.cwd, "sub"), filepath.Join(s.cwd, ".github")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, home+"/.ssh/id_rsa", "key")
	put(t, home+"/other/run.py", "x")
	put(t, filepath.Join(s.cwd, "pkg/a/a.go"), "package a")
	put(t, filepath.Join(s.cwd, ".github/copilot-instructions.md"), "x")
	for from, to := range map[string]string{"cfg": "/etc", "key.txt": home + "/.ssh/id_rsa", "keys": home + "/.ssh",
		"hooks": ".git/hooks", "other": home + "/other", "x.py": home + "/other/run.py", "linked": "pkg/a",
		"sub/up": "../pkg", "out": "/tmp", "chain": "cfg", "sub/key.md": "../key.txt", "circle": "circle",
		"AGENTS.md": ".github/copilot-instructions.md", "self": "."} {
		if err := os.Symlink(to, filepath.Join(s.cwd, from)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 { // as the kernel follows them
		if err := os.Symlink(fmt.Sprintf("n%d.md", i+1), filepath.Join(s.cwd, fmt.Sprintf("n%d.md", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("key.txt", filepath.Join(s.cwd, "n30.md")); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"cat n0.md", "cat circle/x", "cat [!x]ey.txt", "cat [[:alpha:]]ey.txt", "cat [^x]ey.txt",
		"cat ~+/key.txt", "cat ~-/key.txt", "cat ~ana/key.txt", "cat [j-l]ey.txt",
		"echo x > cfg/zz", "echo x >> chain/zz", "go test ./... > cfg/zz", "go test ./... 2> cfg/zz", "cp count.go cfg/zz",
		"cp count.go cfg", "mv count.go other/x", "sed -i 's/a/b/' cfg/hosts", "tee cfg/zz < count.go", "touch other/x",
		"mkdir -p other/x", "cat key.txt", "head -n 3 key.txt", "grep . key.txt", "wc -l < key.txt", "cat keys/id_rsa",
		"cat *.txt", "cat {key,a}.txt", "cd sub && cat key.md", "cd sub && cat ../key.txt", "cat sub/*.md", "ls keys",
		"echo \"$(cat key.txt)\"", "diff key.txt count.go", "cp key.txt a.txt", "python3 x.py", "echo x > hooks/pre-commit",
		"cp count.go hooks/post-merge", "gofmt -w other/x.go", "go build -o=other/x .", "go build -o other/x .",
		"cat self/key.txt", "cd other && echo x > y", "cd cfg && touch zz", "rm -rf other/x", "echo x > circle/y",
		"timeout 5 cat key.txt", "go vet ./... && cat key.txt | head", "cat $PWD/key.txt", "cat " + s.cwd + "/key.txt",
		"cd - && rm a.txt", "if true; then cat key.txt; fi", "cat " + strings.Repeat("a ", 2100)} {
		if got := s.proposes("Bash", map[string]any{"command": line}); !denied(got) {
			t.Errorf("%.80s: %+v", line, got)
		}
	}
	for _, file := range []string{"hooks/pre-commit", "self/.git/hooks/pre-commit"} {
		if got := s.proposes("Write", map[string]any{"file_path": file, "content": "x"}); !denied(got) {
			t.Errorf("%s: %+v", file, got)
		}
	}
	for _, file := range []string{"n0.md", "circle"} {
		if got := s.proposes("Read", map[string]any{"file_path": file}); !denied(got) {
			t.Errorf("Read %s: %+v", file, got)
		}
	}
	for _, line := range []string{"cat ~+/count.go", "cat linked/[a-c].go", "cat linked/[[:alpha:]].go",
		"grep -n " + strings.Repeat("a", 4000) + " count.go",
		"echo x > linked/b.go", "cat linked/a.go", "cp count.go sub/up/a/c.go", "sed -i 's/a/b/' linked/a.go",
		"cd linked && cat a.go", "cd sub && cat up/a/a.go", "cat self/count.go", "go test ./linked/...", "ls other cfg",
		"grep -n root cfg/passwd", "go test ./... > out/lazaret-h1.log", "cat AGENTS.md", "gofmt -w linked/a.go",
		"touch linked/new/x", "cat *.go", "git add linked && git commit -m 'use other'", "ls -l", "make test",
		"(cd sub && ls) && go test ./..."} {
		if got := s.proposes("Bash", map[string]any{"command": line}); got != nil {
			t.Errorf("%s: %+v", line, got.Specific)
		}
	}
	s = work(t, "Add a line on tests to AGENTS.md", true)
	put(t, filepath.Join(s.cwd, ".github/copilot-instructions.md"), "x")
	if err := os.Symlink(".github/copilot-instructions.md", filepath.Join(s.cwd, "AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	if got := s.proposes("Write", map[string]any{"file_path": "AGENTS.md", "content": "Run make test.\n"}); got != nil {
		t.Errorf("a memory file that is a link to another: %+v", got.Specific)
	}
}

// Hosts let a call pass if the hook does not answer in time.
func TestPromiseALongLineIsHeldInTime(t *testing.T) {
	s := work(t, "Fix the failing test, and run the tests", true)
	for _, part := range []string{"a|", "cd a;", "cd a&&", "cat a|tee b;", "cp a CLAUDE.md;", "a $(a|a);", "((a))|",
		strings.Repeat("a|", 300_000)} {
		start := time.Now()
		line := strings.Repeat(part, max(1, 65_000/len(part))) + "a; cp b ~/other/x"
		if got := s.proposes("Bash", map[string]any{"command": line}); !denied(got) {
			t.Errorf("%.20s: %+v", part, got)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%.20s: %v", part, d)
		}
	}
}

// toTop goes to the folder of the repository.
const toTop = "cd \"$(git rev-parse --show-toplevel)\""

// besideOthers returns a session in the project ~/p, and the home. The folder around the project is no folder of temporary
// files.
func besideOthers(t *testing.T) (s *session, home string) {
	t.Helper()
	home = t.TempDir()
	t.Setenv("HOME", home)
	s = work(t, "Fix the failing test, and run the tests", true)
	top := home + "/p"
	s.cwd, s.cfg.Folder = top, top
	for _, dir := range []string{home + "/other", home + "/notes", top + "/sub/deep", home + "/other"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(top, "tree/f"), "x")
	put(t, filepath.Join(top, "near/f"), "x")
	for from, to := range map[string]string{"away": home + "/other", "tree/out": "../../other", "near/in": "f", "loose": "none"} {
		if err := os.Symlink(to, filepath.Join(top, from)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(top, "b"), "x")
	put(t, filepath.Join(top, "node_modules/.bin/prettier"), "x")
	for _, args := range [][]string{{top}, {top + "/nested"}, {"--bare", top + "/bare"}, {home + "/other"}} {
		if out, err := exec.Command("git", append([]string{"init", "-q"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	put(t, home+"/other/a.go", "package other")
	return s, home
}

// A line is judged by the folder in which its programs run.
func TestPromiseAWriteIsJudgedByTheFolderToWhichTheLineChanged(t *testing.T) {
	s, home := besideOthers(t)
	top := s.cwd
	outside := []string{"cd /opt && cp hosts x", "cd /etc && cp hosts x", "cd ~/other && mv a b", "cd " + home + "/other; touch a",
		"cd ~/other && mkdir a", "cd away && cp a b", "cd ~/other && make test", "cd ~/other && go test ./...",
		"cd /opt && go build", "cd ~/other && git add -A && git commit -m x", "cd - && cp a b", "cd - && cp README.md b",
		"cd ~/other && echo x > a", "cd ~/other && ls | tee a", "cd ~/other && sed -i s/a/b/ b", "cd ~ && cp a b",
		"cd / && touch a", "(cd ~/other && cp a b)", "cd sub && cd ~/other && cp a b", "false || cd ~/other; cp a b",
		"cd sub; cd " + home + "; cd other; cp a b", "if true; then cd ~/other; fi; cp a b", "cd ~/other/ && gofmt -w a.go",
		"pushd ~/other && cp a b", "env -C ~/other cp a b", "git -C ~/other mv a b", "make -C ~/other test",
		"tar -C ~/other -xf a.tar", "cd ~/other && ln -s a b", "cd ~/other && rsync a b", "cd ~/other && install a b",
		"timeout 5 cd sub && cd ~/other && cp a b", "ls | cd ~/other; cp a b", "while true; do cp a b; cd ..; done",
		"cd \"$(git rev-parse --show-toplevel)\" && cd ~/other && cp a b", "cd $X && cp a b", "cd ~ana && make test", "cd ~- && cp a b",
		"gofmt -w ~/other/a.go", "black " + home + "/other", "npx prettier --write sub/../away/a.go",
		"pytest -q " + home + "/other/a.go", "pytest ~/other/a.go::x",
		"npx prettier --write \"" + home + "/other/**/*.ts\"", "cd sub < none; cd ..; cp a b", "cd sub/none/..; cd ..; cp a b",
		"cd none/../sub; cd ..; touch a", "cd b/../sub; cd ..; touch a", "cd '~/../sub'; cp a b", "cd " + top + "/none/../sub; cd ..; cp a b",
		"ls | { ls | cd ~/other; }; cp a b", "cd $USER/../sub; cd ..; cp a b", "cd .$HOME/../sub; cp a b",
		"export GIT_WORK_TREE=/opt; " + toTop + "; cp a b", "git init sub && cd sub && " + toTop + " && cp a b",
		"mv .git x; " + toTop + " && cp a b", "cd sub 2>&9; touch a; cd ..; cp b c", "cd $\"sub\"; cd ..; cp a b", "time cd sub; cd ..; cp a b",
		"cd sub &> /dev/null && cd .. && cp a b", "cd sub 12> /dev/null; cd ..; cp a b", "cd sub # go\ncd ..\ncp a b",
		"cargo fmt -- ~/other/a.go", "npm run lint -- --fix ~/other/a.go", "python3 x.py ~/other/new", "go run . ~/other/new",
		"make clean; cd sub; cd ..; cp a b", "make; cd build; cd ..; cp a b", "python3 x.py sub; cd sub; cd ..; cp a b",
		"npm test -- sub; cd sub; cd ..; cp a b", "mkdir b; cd b; cd ..; cp a c", "false && mkdir new; cd new; cd ..; cp a c",
		"(mkdir new); cd new; cd ..; cp a c", "mkdir new < none; cd new; cd ..; cp a c", "mkdir loose; cd loose; cd ..; cp a c",
		"mkdir new && mv new x; cd new; cd ..; cp a c", "git switch x; cd sub; cd ..; cp a c", "black ../other", "prettier --check ../other",
		"tee HEAD < a; " + toTop + "; cp a b", "make > sub/HEAD; " + toTop + "; cp a b", "ruff format --diff --fix ../other",
		"cp -r tree new && echo x > new/out/f", "mv tree new; cp a new/out/f", "git mv tree new && cd new/out && touch f"}
	for i := 0; i < len(outside); i += 15 { // a session may have 20 open holds of one tool
		fresh := work(t, "Fix the failing test, and run the tests", true)
		fresh.cwd, fresh.cfg.Folder = top, top
		for _, line := range outside[i:min(i+15, len(outside))] {
			if got := fresh.proposes("Bash", map[string]any{"command": line}); !denied(got) {
				t.Errorf("%s: %+v", line, got)
			}
		}
	}
	inside := []string{"cd sub && touch a && cd .. && cp b c", "cd sub; touch a; cd ..; cp b c",
		"cd sub/deep && make test && cd - && mkdir -p c", "cd sub/deep && cd ../.. && go test ./...",
		"cd " + top + " && cp b c", "cd " + top + "/sub && go test ./... 2>&1 | tail -5", "cd " + top + "; touch c; make test",
		"cd $(git rev-parse --show-toplevel) && go test ./...", "cd \"$(git rev-parse --show-toplevel)\" && make test && cp b c",
		toTop + "; mkdir -p c", toTop + " && cd sub && make test && cd .. && git add -A", "cd sub > /dev/null && make && cd .. && cp b c",
		"cd sub/deep/.. && touch a && cd .. && cp b c", "cd sub/../sub; cd ..; touch c", "cd \"$PWD/sub\"; cd ..; touch c",
		"ls | (cd sub && wc -l > n); touch c", "pytest sub/a_test.py::x", "npx prettier --write \"sub/**/*.ts\"",
		"(cd sub && make test) && cp b c", "(cd ~/other && ls); touch c", "cd ~/other && ls -la", "cd ~/other && git log --oneline",
		"cd /tmp && touch lazaret-h1-a", "mkdir -p new && cd new && touch a && cd .. && touch c", "cd sub && ls && cd .. && git add -A",
		"cd sub && git commit -am 'mend it'", "cd sub && echo x > a", "npm test || cd sub && touch a", "cd sub/ && go vet ./... | tee out.txt",
		"gofmt -l ../other", "gofmt -d ~/other/a.go", "cd ~/other && gofmt -l .", "cd sub 2>/dev/null; touch a; cd ..; cp b c",
		"make; cd $(git rev-parse --show-toplevel) && go test ./...", "cd sub && make && " + toTop + " && cp b c",
		"gofmt -w " + top + "/count.go", "go test -run '/etc' ./...", "go vet ./... 2> /dev/null", "black --check /tmp",
		"npm test -- sub/a.js --grep=/a/b", "staticcheck ./sub/...", "python3 x.py /api/v1", "go run . sub/new", "cargo test -- --nocapture",
		"mkdir -p out; cd out; make; cd ..; cp a b1", "make; cd sub; make; cd ..; cp a b2", "set -e; make; cd sub; make; cd ..; cp a b3",
		"make 2>&1 | tee log; cd $(git rev-parse --show-toplevel) && go test ./...", "black --check ../other", "ruff format --diff ../other",
		"export CI=1; cd sub && go build ./...", "go test ./... > out.txt; " + toTop + " && cp a b4", ".venv/bin/python -m pytest",
		"cp -r near new && echo x > new/f", "cp -r tree new", "make &> /dev/null && cd sub && touch a"}
	for _, line := range inside {
		if got := s.proposes("Bash", map[string]any{"command": line}); got != nil {
			t.Errorf("%s: %s", line, reasonOf(got))
		}
	}
	// Over HTTP, too.
	s.cfg.Read = nil
	for line, passes := range map[string]bool{"cd ~/other && cp a b": false, "cd /opt && touch a": false, "cd sub && cp a b": true,
		"cd " + top + " && cp a b": true, toTop + " && go test ./...": true,
		"cd $(git rev-parse --show-toplevel) && go test ./...": false, "cd sub; touch a; cd ..; cp a b": false,
		"gofmt -l ../other": true} {
		if got := s.proposes("Bash", map[string]any{"command": line}); (got == nil) != passes {
			t.Errorf("over HTTP: %s: %s", line, reasonOf(got))
		}
	}
	// A folder that the user named as the place to write to is one.
	s = work(t, "Write the summary into ~/notes/, and fix the failing test", true)
	if got := s.proposes("Bash", map[string]any{"command": "cd ~/notes && touch a.md"}); got != nil {
		t.Errorf("in a folder that the user named: %s", reasonOf(got))
	}
}

// The shell may be in another folder than the project from the start.
func TestPromiseAWriteIsJudgedByTheFolderInWhichTheLineStarts(t *testing.T) {
	s, home := besideOthers(t)
	top := s.cwd
	for dir, passes := range map[string]bool{home + "/other": false, "/etc": false, top + "/sub": true,
		top + "/.git/hooks": false} {
		s.cwd = dir
		name := filepath.Base(dir) // so that no line is the same call as one in another folder
		for _, line := range []string{"cp a " + name, "touch " + name, "make test && mkdir " + name} {
			if got := s.proposes("Bash", map[string]any{"command": line}); (got == nil) != passes {
				t.Errorf("in %s: %s: %s", dir, line, reasonOf(got))
			}
		}
		if got := s.proposes("Bash", map[string]any{"command": toTop + "; touch " + name}); (got == nil) != passes {
			t.Errorf("in %s: to the top: %s", dir, reasonOf(got))
		}
		if got := s.proposes("Bash", map[string]any{"command": "ls -la"}); got != nil {
			t.Errorf("in %s: %s", dir, reasonOf(got))
		}
		back := "cd " + top + " && touch c"
		if got := s.proposes("Bash", map[string]any{"command": back}); got != nil {
			t.Errorf("in %s: %s: %s", dir, back, reasonOf(got))
		}
	}
	// In these, git prints another folder of the project, or none.
	for dir, passes := range map[string]bool{"nested": true, "bare": false, ".git": false} {
		s.cwd = filepath.Join(top, dir)
		if got := s.proposes("Bash", map[string]any{"command": toTop + " && touch new" + dir}); (got == nil) != passes {
			t.Errorf("in %s: to the top: %s", dir, reasonOf(got))
		}
	}
}

// If git prints nothing, cd without an argument leads to the home. A setting or a variable can make it print any folder.
func TestPromiseALineGoesOnlyToTheFolderThatGitPrints(t *testing.T) {
	s, home := besideOthers(t)
	bare := "cd $(git rev-parse --show-toplevel)"
	for name, vars := range map[string][]string{"a": {"GIT_DIR", "/none"}, "b": {"GIT_WORK_TREE", home},
		"c": {"GIT_CEILING_DIRECTORIES", ""}} {
		t.Run(vars[0], func(t *testing.T) {
			t.Setenv(vars[0], vars[1])
			for _, line := range []string{bare + "; touch " + name, toTop + "; touch " + name} {
				if got := s.proposes("Bash", map[string]any{"command": line}); (got == nil) != (vars[1] == "") {
					t.Errorf("%s: %s", line, reasonOf(got))
				}
			}
		})
	}
	put(t, s.cwd+"/.git/config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = "+home+"/other\n")
	if got := s.proposes("Bash", map[string]any{"command": bare + "; touch d"}); !denied(got) {
		t.Errorf("to core.worktree: %+v", got)
	}
	put(t, s.cwd+"/.git/config", "[core\n")
	if got := s.proposes("Bash", map[string]any{"command": bare + "; touch e"}); !denied(got) {
		t.Errorf("git fails: %+v", got)
	}
}

// A line or the environment may direct cd to another folder.
func TestPromiseALineThatSteersCdWritesInAnUnknownFolder(t *testing.T) {
	s, home := besideOthers(t)
	const unknown = "it writes in a folder that is not known"
	for _, line := range []string{"HOME=" + s.cwd + "; cd && cp a b", "CDPATH=" + home + "/other; cd sub && cp a b",
		"export CDPATH=" + home + "; cd sub && cp a b", "read HOME < b; cd ~/p && cp a b", "eval 'cd ..'; cp a b",
		"env HOME=/x true; HOME=/x; cd ~/p; cp a b", "for CDPATH in ~/other; do cd sub; cp a b; done", "..; cp a b"} {
		if got := s.proposes("Bash", map[string]any{"command": line}); !denied(got) || !strings.Contains(reasonOf(got), unknown) {
			t.Errorf("%s: %s", line, reasonOf(got))
		}
	}
	for i, cdpath := range []string{home + "/other", "", ".:" + home + "/other", ":" + home} {
		t.Setenv("CDPATH", cdpath)
		line := fmt.Sprintf("cd sub && cp a b%d", i)
		if got := s.proposes("Bash", map[string]any{"command": line}); (got == nil) != (i > 0) {
			t.Errorf("CDPATH=%s: %s", cdpath, reasonOf(got))
		}
		if got := s.proposes("Bash", map[string]any{"command": fmt.Sprintf("cd ./sub && touch c%d && cd ../ && touch d", i)}); got != nil {
			t.Errorf("CDPATH=%s: cd ./sub: %s", cdpath, reasonOf(got))
		}
	}
}

// A host runs a line in the folder of an argument, or it does not know the argument.
func TestPromiseAWriteIsJudgedByTheFolderOfTheCall(t *testing.T) {
	s, home := besideOthers(t)
	top := s.cwd
	for dir, passes := range map[string]bool{"/opt": false, home + "/other": false, "sub": true, top: true, "": true} {
		in := map[string]any{"command": "touch a" + filepath.Base(dir), "directory": dir}
		if got := s.proposes("Bash", in); (got == nil) != passes {
			t.Errorf("in %q: %s", dir, reasonOf(got))
		}
	}
	for i, in := range []map[string]any{{"command": "cd .. && touch a", "directory": "sub"},
		{"command": "touch a5", "directory": home + "/other", "workdir": top}, {"command": "cd - && touch a2", "workdir": "sub"}} {
		if got := s.proposes("Bash", in); !denied(got) {
			t.Errorf("%d: %v: %+v", i, in, got)
		}
	}
	for _, in := range []map[string]any{{"command": "touch a6 && cd sub && cp a b && cd ..; touch a7", "workdir": top},
		{"command": toTop + " && touch a8", "workdir": top}, {"command": "cd deep && touch a9", "workdir": top + "/sub"},
		{"command": "touch a10", "directory": "sub", "workdir": "."}} {
		if got := s.proposes("Bash", in); got != nil {
			t.Errorf("%v: %s", in, reasonOf(got))
		}
	}
}
