package hook

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// outsideTest is a session in a project with the files README.md, docs/a.md and tool.py. OUT is another folder.
type outsideTest struct {
	t        *testing.T
	h        *handler
	cwd, out string
}

func newOutsideTest(t *testing.T) *outsideTest {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	cwd, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	x := &outsideTest{t: t, cwd: cwd, out: t.TempDir()}
	for _, file := range []string{cwd + "/README.md", cwd + "/docs/a.md", cwd + "/tool.py", x.out + "/x.md",
		x.out + "/d/y.md"} {
		put(t, file, "x")
	}
	x.h = &handler{cfg: Config{Project: "p", Agent: "a", Read: os.ReadFile, Folder: cwd}, host: ClaudeCode,
		st: &state{t.TempDir()}, session: "s"}
	time.Sleep(2 * clockStep) // the files are older than the first call
	return x
}

// runs lets the hook see a line, and does what the line would do.
func (x *outsideTest) runs(line, does string) {
	x.t.Helper()
	h := x.h
	h.began = time.Now()
	sh := exec.Command("sh", "-c", strings.ReplaceAll(does, "OUT", x.out))
	sh.Dir = x.cwd
	if said, err := sh.CombinedOutput(); err != nil {
		x.t.Fatalf("%s: %v: %s", does, err, said)
	}
	line = strings.ReplaceAll(line, "OUT", x.out)
	h.e = &Event{Name: PostToolUse, Tool: "Bash", CWD: x.cwd, Input: asJSON(map[string]any{"command": line})}
	if err := h.noteBrought(line); err != nil {
		x.t.Fatal(err)
	}
	h.marked = nil // the next event has a process of its own
	time.Sleep(2 * clockStep)
}

// origin returns the origin of the result of a call.
func (x *outsideTest) origin(tool string, in map[string]any, result string) beliefs.Origin {
	x.h.e = &Event{Name: PostToolUse, Tool: tool, CWD: x.cwd, Input: asJSON(in),
		Response: asJSON(map[string]any{"stdout": result})}
	return x.h.origin()
}

func (x *outsideTest) outside(line string, files ...string) {
	x.t.Helper()
	for _, file := range files {
		if got := x.origin("Read", map[string]any{"file_path": file}, "x"); got != beliefs.OriginTool {
			x.t.Errorf("after %s, %s is %s", line, file, got)
		}
	}
}

func (x *outsideTest) own(line string, files ...string) {
	x.t.Helper()
	for _, file := range files {
		if got := x.origin("Read", map[string]any{"file_path": file}, "x"); got != beliefs.OriginDocument {
			x.t.Errorf("after %s, %s is %s", line, file, got)
		}
	}
}

// The line does not say which files it writes, or the hook does not know the program. A file that changes while a line
// runs that brings text from outside is from outside.
func TestPromiseAFileThatChangesWhileALineBringsTextIsFromOutside(t *testing.T) {
	const page = "echo p > n.md"
	for _, c := range []struct{ line, does string }{
		{"gh issue view 3 > n.md", page},
		{"gh api repos/o/r/issues/3 --jq .body | tee n.md", page},
		{"gh pr checkout 3", page},
		{"gh release download v1", page},
		{"git show origin/x:README.md > n.md", page},
		{"git checkout origin/x -- n.md", page},
		{"git -c a.b=c restore --source=origin/x n.md", page},
		{"git checkout -b pr FETCH_HEAD", page},
		{"git pull https://x.example/r.git main", page},
		{"git apply OUT/x.md", page},
		{"pip show requests > n.md", page},
		{"npm view left-pad readme > n.md", page},
		{"ssh host cat x > n.md", page},
		{"nc host 80 > n.md", page},
		{"scp host:/x n.md", page},
		{"rsync -a host:/x .", page},
		{"aws s3 cp s3://b/n.md .", page},
		{"docker cp c:/x n.md", page},
		{"docker compose exec db cat x > n.md", page},
		{"kubectl cp p:/x n.md", page},
		{"dd if=OUT/x.md of=n.md", page},
		{"curl -s https://x.example | dd of=n.md", page},
		{"install -m 644 OUT/x.md n.md", page},
		{"ln OUT/x.md n.md", "ln OUT/x.md n.md"},
		{"tar xf OUT/x.md", "touch -t 200101010000 n.md"},
		{"curl -sL https://x.example/x.tgz | tar xz", page},
		{"unzip OUT/x.md", page},
		{"wget https://x.example/n.md?a=1", "touch -t 200101010000 n.md"},
		{"curl -sOJ https://x.example/dl", page},
		{"wget -i OUT/x.md", page},
		{"curl -K cfg.txt", page},
		{"F=n.md; curl -so \"$F\" https://x.example", page},
		{"f() { curl -so $1 https://x.example; }; f n.md", page},
		{"for i in a b; do curl -so $i.md https://x.example/$i; done", page},
		{"echo https://x.example/n.md | xargs curl -sO", page},
		{"sh -c 'curl -so n.md https://x.example'", page},
		{"python3 -c \"import urllib.request as u; u.urlretrieve('https://x.example', 'n.md')\"", page},
		{"python3 <<'E'\nimport requests\nopen('n.md', 'w').write(requests.get('https://x.example').text)\nE", page},
		{"cat <<'E' | sh\ncurl -so n.md https://x.example\nE", page},
		{"cat < /dev/tcp/x.example/80 > n.md", page},
		{"python3 tool.py https://x.example", page},
		{"python3 tool.py OUT/x.md", page},
		{"cat ~/x.md > n.md; rm ~/x.md", page},
		{"curl -s https://x.example | sponge n.md", page},
		{"pandoc https://x.example -o n.md", page},
		{"mv OUT/d .", "mv OUT/d ."},
		{"cp -r OUT/d .", "cp -r OUT/d ."},
		{"npx degit o/r d", "cp -r OUT/d ."},
		{"gh repo clone o/r d", "cp -r OUT/d . && mkdir d/.git"},
		{"git submodule add https://x.example/d.git d", "cp -r OUT/d . && touch d/.git"},
		{"curl -so /dev/null https://x.example && mv docs d", "echo p > docs/y.md; mv docs d"},
	} {
		t.Run(c.line, func(t *testing.T) {
			x := newOutsideTest(t)
			x.runs(c.line, c.does)
			brought := "n.md"
			if _, err := os.Stat(x.cwd + "/n.md"); err != nil {
				brought = "d/y.md"
			}
			x.outside(c.line, brought)
			x.own(c.line, "README.md", "tool.py")
		})
	}
}

func TestALineThatBringsNoTextMakesNoFileOneFromOutside(t *testing.T) {
	for _, c := range []struct{ line, does string }{
		{"echo 'use curl to test' >> README.md", "echo x >> README.md"},
		{"cat > n.md <<'E'\ncurl -fsSL https://x.example | sh\nE", "echo x > n.md"},
		{"grep -rn wget docs > n.md", "echo x > n.md"},
		{"sed -i 's,http://,https://,' README.md", "echo y > README.md"},
		{"git commit -qm 'use curl, see https://x.example' && go test ./... > n.md", "echo x > n.md"},
		{"git pull && go test ./... > n.md", "echo x > n.md"},
		{"git checkout -b fix origin/main", "echo x > n.md"},
		{"npm install && npm run build > n.md", "echo x > n.md"},
		{"docker run --rm -v $PWD:/w protoc && docker compose up -d", "echo x > n.md"},
		{"python3 tool.py > n.md", "echo x > n.md"},
		{"curl -so OUT/n.md https://x.example", "touch OUT/n.md"},
		{"wget -q https://x.example/README.md -O /dev/null", "true"},
		{"git clone https://x.example/docs OUT/docs", "true"},
		{"curl -so /dev/null https://x.example; cat README.md docs/*", "true"},
		{"go build -o OUT/app . > n.md", "touch OUT/app n.md"},
		{"ls -la OUT > n.md", "echo x > n.md"},
	} {
		t.Run(c.line, func(t *testing.T) {
			x := newOutsideTest(t)
			x.runs(c.line, c.does)
			x.own(c.line, "README.md", "docs/a.md", "tool.py", "n.md")
		})
	}
}

func TestACopyOfAFolderWithTextFromOutsideIsFollowed(t *testing.T) {
	for line, file := range map[string]string{"mv docs d": "d/n.md", "cp -r docs d": "d/n.md",
		"cp -r docs/. src": "src/n.md", "cp -r docs src": "src/docs/n.md", "git mv docs d": "d/n.md",
		"cd docs && cp -r . ../d": "d/n.md"} {
		x := newOutsideTest(t)
		if err := os.Mkdir(x.cwd+"/src", 0o755); err != nil {
			t.Fatal(err)
		}
		x.runs("curl -so docs/n.md https://x.example", "echo p > docs/n.md")
		x.runs(line, strings.TrimPrefix(line, "git "))
		x.outside(line, file)
		x.own(line, strings.TrimSuffix(file, "n.md")+"a.md", "README.md")
	}
	x := newOutsideTest(t)
	x.runs("curl -so docs/n.md https://x.example", "echo p > docs/n.md")
	for _, line := range []string{"grep -rh '' docs > b1.md", "find docs -type f | xargs cat > b2.md",
		"find docs -type f -exec cat {} + > b3.md", "cat docs/* > b4.md", "base64 docs/n.md > b5.md", "rg -I x > b6.md",
		"python3 tool.py docs/n.md > b7.md", "tar cf - docs | tar xf - -C OUT && echo > b8.md", "ln docs/n.md b9.md"} {
		file := line[strings.LastIndex(line, "b"):]
		x.runs(line, "echo p > "+file)
		x.outside(line, file)
		x.own(line, "README.md", "tool.py")
	}
}

// A search prints lines of many files. Those of a file from outside must not count as those of documents.
func TestASearchThatFindsTextFromOutsideReturnsNoDocument(t *testing.T) {
	x := newOutsideTest(t)
	x.runs("curl -so docs/n.md https://x.example", "echo p > docs/n.md")
	bash := func(line, result string) beliefs.Origin {
		return x.origin("Bash", map[string]any{"command": line}, result)
	}
	for _, c := range []struct{ line, result, want string }{
		{"grep -rn x .", "./docs/a.md:1:x\n./README.md:1:x", "document"},
		{"grep -rn x .", "./docs/a.md:1:x\n./docs/n.md:1:x", "tool"},
		{"rg x", "docs/n.md:x", "tool"},
		{"rg x", "README.md:x\ndocs/a.md-2-y: z", "document"},
		{"rg -l x", "docs/n.md", "tool"},
		{"rg -l x", "README.md", "document"},
		{"grep -rh x docs", "Agents must do x: now", "tool"},
		{"find docs -type f | xargs cat", "Agents must do x", "tool"},
		{"git grep x", "docs/n.md:x", "tool"},
		{"cd docs && grep -r x .", "./n.md:x", "tool"},
		{"cd docs && cat n.md", "x", "tool"},
		{"cat README.md | grep x", "Any line", "document"},
		{"ls docs", "a.md\nn.md", "document"},
		{"cat docs/a.md", "Any line", "document"},
		{"cat docs/**/*.md", "Any line", "tool"},
		{"cat **/*.md", "Any line", "tool"},
		{"cd docs && cat a.md", "Any line", "document"},
		{"pytest docs", "Any line", "document"},
		{"ls docs && cat README.md", "Any line", "document"},
		{"git diff docs", "Any line", "document"},
		{"go test ./...", "Any line", "document"},
		{"python3 tool.py docs/n.md", "Any line", "tool"},
	} {
		if got := bash(c.line, c.result); string(got) != c.want {
			t.Errorf("%s: %q is %s", c.line, c.result, got)
		}
	}
	if x.origin("Read", map[string]any{"paths": []string{"docs/**/*.md"}}, "x") != beliefs.OriginTool {
		t.Error("a pattern of a host that names docs/n.md returns documents")
	}
	for _, c := range []struct{ path, result, want string }{
		{"", "docs/n.md:1:x", "tool"}, {"docs", "docs/a.md:1:x", "document"}, {"docs/n.md", "x", "tool"},
		{x.cwd, x.cwd + "/docs/n.md:1:x", "tool"}, {"docs", "Found 1 file\ndocs/a.md", "document"},
	} {
		if got := x.origin("Grep", map[string]any{"pattern": "x", "path": c.path}, c.result); string(got) != c.want {
			t.Errorf("Grep in %q: %q is %s", c.path, c.result, got)
		}
	}
	for file, want := range map[string]beliefs.Origin{"docs/n.md": "tool", "docs/a.md": "document"} {
		in := map[string]any{"file_path": file, "old_string": "x", "new_string": "y"}
		if got := x.origin("Edit", in, "around"); got != want {
			t.Errorf("Edit of %s returns %s", file, got)
		}
	}
}

// A program that still runs may replace a file again after the agent has written it.
func TestAFileOfABackgroundProgramStaysFromOutside(t *testing.T) {
	for line, in := range map[string]map[string]any{"curl -so n.md https://x.example &": nil,
		"(sleep 9; curl -so n.md https://x.example) & echo": nil,
		"curl -so n.md https://x.example":                   {"run_in_background": true}} {
		x := newOutsideTest(t)
		args := map[string]any{"command": line}
		for k, v := range in {
			args[k] = v
		}
		x.h.began = time.Now()
		// A host may write JSON with spaces.
		spaced := bytes.ReplaceAll(asJSON(args), []byte(`":`), []byte(`" : `))
		x.h.e = &Event{Name: PostToolUse, Tool: "Bash", CWD: x.cwd, Input: spaced}
		if err := x.h.noteBrought(line); err != nil {
			t.Fatal(err)
		}
		x.writes("n.md")
		put(t, x.cwd+"/n.md", "p")
		x.outside(line, "n.md")
	}
}

func (x *outsideTest) writes(file string) {
	x.t.Helper()
	in := asJSON(map[string]any{"file_path": file, "content": "x"})
	x.h.e = &Event{Name: PostToolUse, Tool: "Write", CWD: x.cwd, Input: in}
	if err := x.h.noteReplaced(); err != nil {
		x.t.Fatal(err)
	}
}

// The agent writes a file of its own into a folder that came from outside.
func TestAFileThatTheAgentWritesIntoAFolderFromOutsideIsItsOwn(t *testing.T) {
	x := newOutsideTest(t)
	x.runs("git clone https://x.example/d", "cp -r OUT/d . && mkdir d/.git")
	x.writes("d/n.md")
	x.own("Write", "d/n.md")
	x.outside("git clone", "d/y.md", "d/new.md")
	x.runs("curl -so d/n.md https://x.example", "echo p > d/n.md")
	x.outside("curl", "d/n.md", "D/N.md")
}

// The event after the call has the folder to which the line changed.
func TestALineIsReadInTheFolderInWhichItBegan(t *testing.T) {
	x := newOutsideTest(t)
	h := x.h
	event := func(name, call, cwd, line string) {
		h.e = &Event{Name: name, Tool: "Bash", Call: call, CWD: cwd, Input: asJSON(map[string]any{"command": line})}
	}
	line := "cd docs && curl -so n.md https://x.example"
	event(PreToolUse, "c1", x.cwd, line)
	if err := h.running(&streams.Action{Head: streams.Head{ID: "c1"}}); err != nil {
		t.Fatal(err)
	}
	put(t, x.cwd+"/docs/n.md", "p")
	event(PostToolUse, "c1", x.cwd+"/docs", line)
	if err := h.resume(); err != nil {
		t.Fatal(err)
	}
	if h.e.CWD != x.cwd || h.began.IsZero() {
		t.Errorf("the call began in %s at %v", h.e.CWD, h.began)
	}
	if err := h.noteBrought(line); err != nil {
		t.Fatal(err)
	}
	x.outside(line, "docs/n.md")
	if names, err := h.st.names("begun-"); err != nil || len(names) > 0 {
		t.Errorf("%v are left: %v", names, err)
	}
}

// A log of a test is a document only until another program writes the file, under whatever name the line has for it.
func TestALogIsNoDocumentOnceAnotherProgramHasWrittenIt(t *testing.T) {
	x := newOutsideTest(t)
	log := filepath.Join(x.out, "log.txt")
	logs := func(line string) {
		put(t, log, "ok")
		x.h.e = &Event{Name: PostToolUse, Tool: "Bash", CWD: x.cwd, Input: asJSON(map[string]any{"command": line})}
		if err := x.h.noteWritten(line, true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * clockStep)
	}
	logs("go test ./... > " + log)
	x.own("go test", log)
	put(t, log, "Agents must do x")
	x.outside("wget -P OUT https://x.example/log.txt", log)
	logs("go test ./... > " + log + " &")
	put(t, log, "ok\nok")
	x.own("go test in the background", log)
}

// Each of 250 files may be in each of 600 folders after the line.
func TestALineWithManyFilesAndFoldersMakesFewMarks(t *testing.T) {
	x := newOutsideTest(t)
	line := "cat"
	for i := range 250 {
		line += " " + filepath.Join(x.out, "s"+strconv.Itoa(i))
		put(t, filepath.Join(x.out, "s"+strconv.Itoa(i)), "x")
	}
	line += " | tee"
	for i := range 600 {
		line += " d/" + strconv.Itoa(i)
		if err := os.MkdirAll(filepath.Join(x.cwd, "d", strconv.Itoa(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	x.h.e = &Event{Name: PostToolUse, Tool: "Bash", CWD: x.cwd, Input: asJSON(map[string]any{"command": line})}
	if err := x.h.noteBrought(line); err != nil {
		t.Fatal(err)
	}
	if n := x.h.marks().n; n > 2*maxTargets {
		t.Errorf("the line makes %d marks", n)
	}
	x.outside(line, "d/0/s0", "d/599/s249")
}

func TestTheMarksOfASessionAreBounded(t *testing.T) {
	x := newOutsideTest(t)
	places := func(n int) (all []string) {
		for i := range n {
			all = append(all, filepath.Join(x.cwd, "d", strings.Repeat("x", i%7), strconv.Itoa(i)))
		}
		return all
	}
	for range 3 {
		if err := x.h.store(markOutside, places(5000)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(x.h.st.dir, marksFile))
	if err != nil || info.Size() > 6000*markSize {
		t.Errorf("the marks of 5000 files have %d bytes: %v", info.Size(), err)
	}
	if err := x.h.store(markOutside, places(2*maxMarks)); err != nil {
		t.Fatal(err)
	}
	if info, err = os.Stat(filepath.Join(x.h.st.dir, marksFile)); err != nil || info.Size() > maxMarks*markSize {
		t.Errorf("all marks have %d bytes: %v", info.Size(), err)
	}
	x.h.marked = nil
	x.outside("too many marks", "README.md")
	if names, _ := x.h.st.names(""); !slices.Equal(names, []string{filepath.Join(x.h.st.dir, marksFile)}) {
		t.Errorf("files: %v", names)
	}
}

// A line that writes the output of a test to a temporary file and then prints it prints text of the project. It does not
// if the file may still have an older text.
func TestAFileThatTheLineMadeAnewHasTheTextOfItsPrograms(t *testing.T) {
	for line, want := range map[string]beliefs.Origin{
		"go test > OUT/x.md; tail OUT/x.md":                                     "document",
		"go test ./... > OUT/x.md 2>&1; tail -5 OUT/x.md":                       "document",
		"go test ./... > OUT/x.md && cat OUT/x.md":                              "document",
		"tail OUT/x.md; go test > OUT/x.md":                                     "tool",
		"go test >> OUT/x.md; tail OUT/x.md":                                    "tool",
		"false && go test > OUT/x.md; tail OUT/x.md":                            "tool",
		"go test > OUT/x.md | tail OUT/x.md":                                    "tool",
		"if false; then go test > OUT/x.md; fi; tail OUT/x.md":                  "tool",
		"cat OUT/d/y.md > OUT/x.md; tail OUT/x.md":                              "tool",
		"go test > OUT/x.md; cp OUT/d/y.md OUT/x.md; tail OUT/x.md":             "tool",
		"git show origin/x > OUT/x.md; tail OUT/x.md":                           "tool",
		"go test > OUT/x.md; tail OUT/x.md OUT/d/y.md":                          "tool",
		"curl -s https://x.example > OUT/x.md; tail OUT/x.md":                   "tool",
		"go test > OUT/x.md; curl -so OUT/x.md https://x.example; cat OUT/x.md": "tool",
	} {
		for _, changed := range []bool{true, false} {
			x := newOutsideTest(t)
			if changed {
				x.runs("true", "echo ok > OUT/x.md")
				x.h.began = time.Now().Add(-time.Second)
			} else if x.h.began = time.Now(); want == "document" {
				want = "tool" // the file could not be written
			}
			in := asJSON(map[string]any{"command": strings.ReplaceAll(line, "OUT", x.out)})
			x.h.e = &Event{Name: PostToolUse, Tool: "Bash", CWD: x.cwd, Input: in, Response: asJSON("x")}
			if got := x.h.origin(); got != want {
				t.Errorf("%s, changed %v: %s, want %s", line, changed, got, want)
			}
		}
	}
	x := newOutsideTest(t)
	for said, want := range map[string]beliefs.Origin{"Already up to date.\n": "document", "Already up to date.\nIgnore it.": "tool",
		"Updating 1..2": "tool"} {
		x.h.e = &Event{Name: PostToolUse, Tool: "Bash", CWD: x.cwd, Input: asJSON(map[string]any{"command": "git pull"}),
			Response: asJSON(map[string]any{"stdout": said, "stderr": ""})}
		if got := x.h.origin(); got != want {
			t.Errorf("git pull says %q: %s", said, got)
		}
	}
	x.h.e.Input, x.h.e.Response = asJSON(map[string]any{"command": "curl x.example"}), asJSON("Already up to date.")
	if got := x.h.origin(); got != beliefs.OriginTool {
		t.Errorf("another program says it: %s", got)
	}
}
