package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"lazaret/internal/natstest"
)

// block is a block of a page:
//
//	```console            commands after "$ ", and their output, which is compared
//	```sh                 commands without output
//	```console background, ```sh background   each runs until the end of the page
//	```console norun, ```sh norun             not run; notRun has the reason
//	```json, ```yaml      data, which must be valid
//	```js                 a part of a module, which must be valid
//	```text               anything else
//	<!-- file: NAME -->   the block below is written to NAME; a second one is appended
//	<!-- test: COMMAND --> a command that prepares the page's preconditions
//
// In output lines, … stands for any text, and a line with only … for any lines.
type block struct {
	page, info, file string
	line             int
	lines            []string
}

func (b block) place() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

var hidden = regexp.MustCompile(`^<!-- (test|file): (.*) -->$`)

// readBlocks returns the blocks of a page in the order of the page.
func readBlocks(t *testing.T, root, page string) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	var open *block
	file, blank := "", true
	for i, line := range strings.Split(string(text), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		mark := hidden.FindStringSubmatch(line)
		switch {
		case isFence && open == nil:
			open, file = &block{page: page, info: fence, file: file, line: i + 1}, ""
		case isFence:
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.lines = append(open.lines, line)
		case len(mark) > 0 && mark[1] == "test":
			blocks = append(blocks, block{page: page, info: "sh", line: i + 1, lines: []string{mark[2]}})
		case mark != nil:
			file = mark[2]
		case blank && strings.HasPrefix(line, "    "):
			t.Errorf("%s:%d: an indented block: fence it, with one of console, sh, json, yaml, js, text", page, i+1)
		}
		blank = strings.TrimSpace(line) == ""
	}
	if open != nil {
		t.Errorf("%s: the block is not closed", open.place())
	}
	return blocks
}

// step is a command of a page with the output that the page shows.
type step struct {
	line    int
	command string
	shown   []string
}

// steps returns the commands of a block.
func (b block) steps() []step {
	console := strings.HasPrefix(b.info, "console")
	var out []step
	more := false
	for i, line := range b.lines {
		command, isCommand := strings.CutPrefix(line, "$ ")
		if !console {
			command, isCommand = line, strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#")
		}
		switch {
		case more:
			out[len(out)-1].command += "\n" + line
			more = strings.HasSuffix(line, `\`)
		case isCommand:
			out = append(out, step{line: b.line + 1 + i, command: command})
			more = strings.HasSuffix(command, `\`)
		case console && len(out) > 0:
			out[len(out)-1].shown = append(out[len(out)-1].shown, line)
		}
	}
	return out
}

// shell is a bash process in which the commands of a page run, one after the other.
type shell struct {
	t     *testing.T
	dir   string
	in    io.WriteCloser
	out   *bufio.Reader
	kill  func()
	ports *strings.Replacer
	ids   map[string]string // id on the page → id in this run
	last  map[string]string // by its first letter, which gives the kind: the last id that was printed
}

func newShell(t *testing.T, dir string, env []string, ports *strings.Replacer) *shell {
	t.Helper()
	c := exec.Command("bash", "--norc")
	c.Dir, c.Env = dir, env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		c.Wait()
	})
	kill := func() { syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	s := &shell{t: t, kill: kill, dir: dir, in: in, out: bufio.NewReader(out), ports: ports,
		ids: make(map[string]string), last: make(map[string]string)}
	s.run("shopt -s expand_aliases")
	return s
}

const commandEnds = "--- the command ended with "

// run runs a command. It returns the output and the exit code.
func (s *shell) run(command string) (string, string) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null 2>&1\necho \"%s$?\"\n", command, commandEnds); err != nil {
		s.t.Fatalf("%s: %v", command, err)
	}
	defer time.AfterFunc(2*time.Minute, s.kill).Stop()
	var b strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if before, code, ok := strings.Cut(line, commandEnds); ok {
			b.WriteString(before)
			return b.String(), strings.TrimSpace(code)
		}
		b.WriteString(line)
		if err != nil {
			s.t.Fatalf("%s: the shell ended: %v\n%s", command, err, b.String())
		}
	}
}

var (
	// Ids of beliefs, holds and incidents: a letter and 16 others.
	aged = regexp.MustCompile(`\b[bhi][0-9a-v]{16}\b`)
	// Ids of events, digests, keys.
	long16   = regexp.MustCompile(`[0-9A-Za-z+/_-]{16,}=*`)
	kindOf   = map[string]string{"HOLD": "h", "BELIEF": "b"}
	standing = regexp.MustCompile(`\b(HOLD|BELIEF)\b`)
	moment   = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?|\d{8}T\d{6}Z-\w{8}|\b[\d.]+ ms\b`)
	counted  = regexp.MustCompile(`(ledger entry|intake message|revision|_seq":|elapsed_us":)( ?)[0-9a-f]+(?:\.\d+)?`)
	printed  = regexp.MustCompile(`\s*…\s*|` + moment.String() + `|` + counted.String() +
		`|` + long16.String() + `|\d{3,}(?:\.\d\b)?|\s+`)
	exitSaid = regexp.MustCompile(`exit (?:code )?(\d+)`)
)

// here returns a command of a page with the ids and ports of this run in the place of those on the page.
func (s *shell) here(command string) string {
	command = s.ports.Replace(command)
	command = standing.ReplaceAllStringFunc(command, func(w string) string { return s.last[kindOf[w]] })
	for shown, is := range s.ids {
		command = strings.ReplaceAll(command, shown, is)
	}
	return aged.ReplaceAllStringFunc(command, func(id string) string {
		if is := s.last[id[:1]]; is != "" && !slices.Contains(slices.Collect(maps.Values(s.ids)), id) {
			return is
		}
		return id
	})
}

// pattern converts a line of output on a page to a regular expression. Each group of the expression matches an id.
// pattern also returns these ids as they are on the page.
func (s *shell) pattern(line string) (*regexp.Regexp, []string) {
	var ids []string
	var b strings.Builder
	line, at := strings.TrimRight(line, " "), 0
	b.WriteString(`^`)
	for _, m := range printed.FindAllStringIndex(line, -1) {
		b.WriteString(regexp.QuoteMeta(line[at:m[0]]))
		w := line[m[0]:m[1]]
		at = m[1]
		switch {
		case strings.Contains(w, "…"):
			b.WriteString(`.*`)
		case strings.TrimSpace(w) == "":
			b.WriteString(`\s+`)
		case moment.FindString(w) == w:
			b.WriteString(`(?:` + moment.String() + `)`)
		case counted.FindString(w) == w:
			c := counted.FindStringSubmatch(w)
			b.WriteString(regexp.QuoteMeta(c[1]+c[2]) + `[0-9a-f]+(?:\.\d+)?`)
		case !strings.ContainsFunc(w, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }):
			// a number of three digits or more, or the position of a ledger entry, may differ
			b.WriteString(`\d+(?:\.\d+)?`)
		case !strings.ContainsAny(w, "0123456789"):
			b.WriteString(regexp.QuoteMeta(w))
		case s.ids[w] != "":
			b.WriteString(regexp.QuoteMeta(s.ids[w]))
		default:
			b.WriteString(`([0-9A-Za-z+/_=-]{12,})`)
			ids = append(ids, w)
		}
	}
	b.WriteString(regexp.QuoteMeta(line[at:]) + `\s*$`)
	return regexp.MustCompile(b.String()), ids
}

// compare compares the lines that a page shows with the output of a command. It returns the first line that the output
// does not have.
func (s *shell) compare(shown []string, output string) (string, bool) {
	have := strings.Split(strings.TrimRight(output, "\n"), "\n")
	have = slices.DeleteFunc(have, func(l string) bool { return strings.TrimSpace(l) == "" })
	skip := false
	for _, line := range shown {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if strings.TrimSpace(line) == "…" {
			skip = true
			continue
		}
		re, ids := s.pattern(line)
		for len(have) > 0 && skip && !re.MatchString(have[0]) {
			have = have[1:]
		}
		if len(have) == 0 {
			return line, false
		}
		m := re.FindStringSubmatch(have[0])
		if m == nil {
			return line, false
		}
		for i, id := range ids {
			s.ids[id] = m[i+1]
		}
		have, skip = have[1:], false
	}
	if len(have) > 0 && !skip {
		return "(the end; printed beyond it: " + have[0] + ")", false
	}
	return "", true
}

// answers matches the commands whose exit code is a verdict: 10 and 11 are not failures.
var answers = regexp.MustCompile(`lazaret (decide|remember|recall|gate|import|policy explain)\b`)

// try runs a command of a page and compares its output with the page.
func (s *shell) try(b block, st step) {
	s.t.Helper()
	command := s.here(st.command)
	for i := range st.shown {
		st.shown[i] = s.ports.Replace(st.shown[i])
	}
	began := time.Now()
	output, code := s.run(command)
	s.t.Logf("%s:%d: %.1f s: %s", b.page, st.line, time.Since(began).Seconds(), command)
	want := []string{"0"}
	if answers.MatchString(command) {
		want = append(want, "10", "11")
	}
	if m := exitSaid.FindStringSubmatch(st.command); m != nil {
		want = append(want, m[1])
	}
	if len(st.shown) > 0 && strings.HasPrefix(st.shown[0], "lazaret: ") {
		want = []string{"1", "2"}
	}
	if !slices.Contains(want, code) {
		s.t.Errorf("%s:%d: %s\nexit code %s, expected %v:\n%s", b.page, st.line, command, code, want, output)
	}
	if len(strings.TrimSpace(strings.Join(st.shown, ""))) > 0 {
		if line, ok := s.compare(st.shown, output); !ok {
			s.t.Errorf("%s:%d: %s\nthe page shows:\n%s\nit printed:\n%s\nfirst line that differs: %s",
				b.page, st.line, command, strings.Join(st.shown, "\n"), output, line)
		}
	}
	for _, id := range aged.FindAllString(output, -1) {
		s.last[id[:1]] = id
	}
}

// background starts a command that runs until the end of the page. It waits until the command has printed a line.
func (s *shell) background(command string) {
	s.t.Helper()
	out := filepath.Join(s.t.TempDir(), "out")
	pid, _ := s.run("set -m; ( " + s.here(command) + "\n) >" + out + " 2>&1 & set +m; echo $!")
	pid = strings.TrimSpace(pid)
	s.t.Cleanup(func() { exec.Command("kill", "-INT", "--", "-"+pid).Run() })
	natstest.Eventually(s.t, time.Minute, "a line of "+command, func() bool {
		text, err := os.ReadFile(out)
		return err == nil && strings.Contains(string(text), "\n")
	})
}

// write writes a block to the file that the page names.
func (b block) write(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, b.file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Join(b.lines, "\n") + "\n"); err != nil {
		t.Fatal(err)
	}
}

// check runs the commands of a block or checks that its data is valid, depending on the kind of block.
func (s *shell) check(b block, unrun map[string]bool) {
	s.t.Helper()
	if b.file != "" {
		b.write(s.t, s.dir)
	}
	text := strings.Join(b.lines, "\n")
	kind, way, _ := strings.Cut(b.info, " ")
	switch {
	case kind == "text" && way == "":
	case kind == "json" && way == "":
		if !json.Valid([]byte(text)) {
			s.t.Errorf("%s: the block is not JSON", b.place())
		}
	case kind == "yaml" && way == "":
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			s.t.Errorf("%s: %v", b.place(), err)
		}
	case kind == "js" && way == "":
		c := exec.Command("node", "--check", "--input-type=module", "-")
		c.Stdin = strings.NewReader(text)
		if out, err := c.CombinedOutput(); err != nil {
			s.t.Errorf("%s: %v\n%s", b.place(), err, out)
		}
	case kind != "console" && kind != "sh":
		s.t.Errorf("%s: the block is marked %q: mark it with one of console, sh, json, yaml, js, text", b.place(), b.info)
	case way == "norun":
		first, found := b.page+": "+b.steps()[0].command, false
		for name := range notRun {
			if strings.HasPrefix(first, name) {
				unrun[name], found = true, true
			}
		}
		if !found {
			s.t.Errorf("%s: the block is not run: run it, or give a reason in notRun under %q", b.place(), first)
		}
	case way == "background":
		for _, st := range b.steps() {
			s.background(st.command)
		}
	case way == "":
		for _, st := range b.steps() {
			s.try(b, st)
		}
	default:
		s.t.Errorf("%s: %q is none of norun and background", b.place(), way)
	}
}

// freshClone returns a folder with the files that a clone of the repository has.
func freshClone(t *testing.T) string {
	t.Helper()
	list, err := exec.Command("git", "-C", "../..", "ls-files", "-z", "-co", "--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := exec.Command("bash", "-c", "xargs -0 cp --parents -t "+dir+" 2>/dev/null")
	c.Dir, c.Stdin = "../..", strings.NewReader(string(list))
	if out, err := c.CombinedOutput(); err != nil {
		t.Logf("a file of the index is missing: %v %s", err, out)
	}
	return dir
}

// linked returns a folder with links to the files of a clone. The clone's data folder is left out.
func linked(t *testing.T, clone string) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(clone)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "data" {
			continue
		}
		if err := os.Symlink(filepath.Join(clone, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var offered = map[string]*regexp.Regexp{
	"4222": regexp.MustCompile(`nats://127\.0\.0\.1:\d+`),
	"4280": regexp.MustCompile(`http://127\.0\.0\.1:\d+/v1`),
	"4281": regexp.MustCompile(`http://localhost:\d+/login`),
}

// pipelineOfAPage starts a pipeline in a folder, by make run or directly. It returns a replacer for the text of a page:
// default ports become those of the pipeline.
func pipelineOfAPage(t *testing.T, dir string, env []string, command ...string) *strings.Replacer {
	t.Helper()
	p := startWith(t, func(c *exec.Cmd) {
		path, err := exec.LookPath(command[0])
		if err != nil {
			path = filepath.Join(dir, command[0])
		}
		c.Path, c.Args, c.Dir, c.Env, c.Err = path, command, dir, env, nil
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}, "open the console", "pipeline")
	t.Cleanup(func() {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT)
		select {
		case <-p.done:
		case <-time.After(30 * time.Second):
			syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	// In commands, also replace folders and other ports by those of the test, and shorten a wait of a minute.
	at := t.TempDir()
	pairs := []string{"wait=60s", "wait=1s", "/backup", at + "/backup", "/safe", at + "/safe"}
	for _, usual := range []string{"8780"} {
		pairs = append(pairs, usual, freePort(t))
	}
	for _, v := range env {
		if home, ok := strings.CutPrefix(v, "HOME="); ok {
			pairs = append(pairs, "/home/ana", home)
		}
	}
	for usual, form := range offered {
		natstest.Eventually(t, time.Minute, "a line like "+form.String(), func() bool { return form.MatchString(p.output()) })
		u, err := url.Parse(form.FindString(p.output()))
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, usual, u.Port())
	}
	return strings.NewReplacer(pairs...)
}
