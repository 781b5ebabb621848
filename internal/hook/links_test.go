package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
