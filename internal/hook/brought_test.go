package hook

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
)

// An agent downloads a page into a file of the project, or copies a file from elsewhere, and reads it in a later call.
// The text must not count as one of the project's documents.
func TestAFileThatACommandBroughtFromOutsideIsNoDocument(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	read := func(t *testing.T, h *handler, cwd, file string) beliefs.Origin {
		t.Helper()
		var got [2]beliefs.Origin
		for i, in := range []*Event{
			{Tool: "Read", Input: asJSON(map[string]any{"file_path": file})},
			{Tool: "Bash", Input: asJSON(map[string]any{"command": "cat " + file})},
		} {
			in.Name, in.CWD, in.Response = PostToolUse, cwd, asJSON("x")
			h.e = in
			got[i] = h.origin()
		}
		if got[0] != got[1] {
			t.Errorf("%s: Read returns %s, cat prints %s", file, got[0], got[1])
		}
		return got[0]
	}
	for _, x := range []struct {
		line  string
		tool  []string // files whose text is from outside after the line
		still []string // files whose text is the project's own
	}{
		{"curl -so n.md https://x.example/a", []string{"n.md", "./n.md", "docs/../n.md"}, []string{"README.md", "docs/a.md"}},
		{"curl -sO https://x.example/a/n.md?v=1", []string{"n.md"}, []string{"README.md"}},
		{"wget -q https://x.example/a/n.md", []string{"n.md"}, []string{"README.md"}},
		{"curl -sO x.example/a/n.md", []string{"n.md"}, []string{"README.md"}},
		{"wget -q -P docs https://x.example/a/n.md", []string{"docs/n.md"}, []string{"docs/a.md", "README.md"}},
		{"curl -sO --output-dir docs https://x.example/a/n.md", []string{"docs/n.md"}, []string{"docs/a.md"}},
		{"wget -q -r https://x.example/a/", []string{"x.example/a/index.html"}, []string{"docs/a.md", "README.md"}},
		{"cd docs && wget -q https://x.example/a/n.md", []string{"docs/n.md"}, []string{"docs/a.md"}},
		{"curl -s https://x.example/a | tee docs/n.md", []string{"docs/n.md"}, []string{"docs/a.md"}},
		{"curl -s https://x.example/a | jq . > n.md", []string{"n.md"}, []string{"README.md"}},
		{"curl -s https://x.example/a > n.md && sed -i s/a/b/ README.md", []string{"n.md"}, []string{"README.md"}},
		{"cp OUT/x.md n.md", []string{"n.md"}, []string{"README.md"}},
		{"cp OUT/x.md docs", []string{"docs/x.md"}, []string{"docs/a.md"}},
		{"mv OUT/x.md .", []string{"x.md"}, []string{"README.md"}},
		{"cp OUT/*.md docs/", []string{"docs/x.md", "docs/y.md"}, []string{"docs/a.md"}},
		{"cat README.md OUT/x.md > n.md", []string{"n.md"}, []string{"README.md"}},
		{"cat < OUT/x.md >> docs/a.md", []string{"docs/a.md"}, []string{"README.md"}},
		{"git clone --depth 1 https://x.example/r.git", []string{"r/README.md"}, []string{"README.md"}},
		{"cd docs && git -c a.b=c clone https://x.example/r.git sub", []string{"docs/sub/d/a.md"}, []string{"docs/a.md"}},
		{"cp README.md n.md", nil, []string{"n.md", "README.md"}},
		{"cat README.md docs/a.md > n.md", nil, []string{"n.md"}},
		{"ls OUT > n.md", nil, []string{"n.md"}},
		{"go test ./... > n.md", nil, []string{"n.md"}},
	} {
		t.Run(x.line, func(t *testing.T) {
			cwd, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			out := t.TempDir()
			for _, file := range []string{cwd + "/README.md", cwd + "/docs/a.md", out + "/x.md", out + "/y.md"} {
				put(t, file, "x")
			}
			line := strings.ReplaceAll(x.line, "OUT", out)
			for _, lookup := range []bool{true, false} {
				h := &handler{cfg: Config{Project: "p", Agent: "a"}, host: ClaudeCode, st: &state{t.TempDir()}, session: "s"}
				if lookup {
					h.cfg.Read = os.ReadFile
				} else if into := regexp.MustCompile(`(OUT\S*|-P|-dir) docs`); into.MatchString(x.line) {
					continue // the gateway does not know which files are in a folder, so all of docs is from outside
				}
				h.e = &Event{Name: PostToolUse, Tool: "Bash", CWD: cwd, Input: asJSON(map[string]any{"command": line})}
				if err := h.noteBrought(line); err != nil {
					t.Fatal(err)
				}
				for _, file := range x.tool {
					put(t, filepath.Join(cwd, file), "x")
					if got := read(t, h, cwd, file); got != beliefs.OriginTool {
						t.Errorf("%s is %s, files are looked up: %v", file, got, lookup)
					}
				}
				for _, file := range x.still {
					put(t, filepath.Join(cwd, file), "x")
					if got := read(t, h, cwd, file); got != beliefs.OriginDocument {
						t.Errorf("%s is %s, files are looked up: %v", file, got, lookup)
					}
				}
			}
		})
	}
}

// A file that came from outside, and that is copied on, moved or replaced in later calls.
func TestWhatCameFromOutsideIsFollowedUntilTheAgentReplacesIt(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	cwd, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &handler{cfg: Config{Project: "p", Agent: "a", Read: os.ReadFile}, host: ClaudeCode, st: &state{t.TempDir()},
		session: "s"}
	origin := func(file string) beliefs.Origin {
		put(t, filepath.Join(cwd, file), "x")
		h.e = &Event{Name: PostToolUse, Tool: "Read", CWD: cwd, Input: asJSON(map[string]any{"file_path": file})}
		return h.origin()
	}
	for _, line := range []string{"curl -so a.md https://x.example/a", "cp a.md b.md", "mv b.md c.md",
		"head -5 c.md > d.md"} {
		h.e = &Event{Name: PostToolUse, Tool: "Bash", CWD: cwd, Input: asJSON(map[string]any{"command": line})}
		if err := h.noteBrought(line); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"a.md", "b.md", "c.md", "d.md"} {
			put(t, filepath.Join(cwd, file), "x")
		}
	}
	for _, file := range []string{"a.md", "b.md", "c.md", "d.md"} {
		if got := origin(file); got != beliefs.OriginTool {
			t.Errorf("%s is %s", file, got)
		}
	}
	write := func(event string) {
		t.Helper()
		in := asJSON(map[string]any{"file_path": "d.md", "content": "x"})
		h.e = &Event{Name: event, Tool: "Write", CWD: cwd, Input: in}
		if err := h.noteReplaced(); err != nil {
			t.Fatal(err)
		}
	}
	write(PostToolUseFailure)
	if got := origin("d.md"); got != beliefs.OriginTool {
		t.Errorf("after the agent failed to replace it, d.md is %s", got)
	}
	write(PostToolUse)
	if got := origin("d.md"); got != beliefs.OriginDocument {
		t.Errorf("after the agent replaced it, d.md is %s", got)
	}
	if got := origin("a.md"); got != beliefs.OriginTool {
		t.Errorf("after the agent replaced another file, a.md is %s", got)
	}
}

// The host moves its working folder into a repository that the agent has cloned.
func TestAClonedRepositoryStaysFromOutsideIfTheAgentWorksInIt(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	cwd, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, cwd+"/r/README.md", "x")
	h := &handler{cfg: Config{Project: "p", Agent: "a", Read: os.ReadFile}, host: ClaudeCode, st: &state{t.TempDir()},
		session: "s"}
	line := "git clone https://x.example/r"
	h.e = &Event{Name: PostToolUse, Tool: "Bash", CWD: cwd, Input: asJSON(map[string]any{"command": line})}
	if err := h.noteBrought(line); err != nil {
		t.Fatal(err)
	}
	in := asJSON(map[string]any{"file_path": "README.md"})
	h.e = &Event{Name: PostToolUse, Tool: "Read", CWD: cwd + "/r", Input: in}
	if got := h.origin(); got != beliefs.OriginTool {
		t.Errorf("README.md is %s", got)
	}
}

// When the hook hears of mv, no file matches its pattern any more.
func TestFilesThatAPatternMovedIntoTheProjectAreFromOutside(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	cwd, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for _, file := range []string{cwd + "/docs/a.txt", out + "/x.md", out + "/y.md"} {
		put(t, file, "x")
	}
	h := &handler{cfg: Config{Project: "p", Agent: "a", Read: os.ReadFile}, host: ClaudeCode, st: &state{t.TempDir()},
		session: "s"}
	for _, line := range []string{"mv " + out + "/x*.md docs", "mv " + out + "/*.md ."} {
		sh := exec.Command("sh", "-c", line)
		sh.Dir = cwd
		if said, err := sh.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		h.e = &Event{Name: PostToolUse, Tool: "Bash", CWD: cwd, Input: asJSON(map[string]any{"command": line})}
		if err := h.noteBrought(line); err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string]beliefs.Origin{"docs/x.md": "tool", "y.md": "tool", "docs/a.txt": "document"} {
		h.e = &Event{Name: PostToolUse, Tool: "Read", CWD: cwd, Input: asJSON(map[string]any{"file_path": file})}
		if got := h.origin(); got != want {
			t.Errorf("%s is %s", file, got)
		}
	}
}
