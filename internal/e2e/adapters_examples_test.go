package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret/internal/natstest"
)

// exampleAgents is a pipeline for the examples of the adapters.
type exampleAgents struct {
	data, key string
	env       []string
}

func newExampleAgents(t *testing.T) *exampleAgents {
	t.Helper()
	x := &exampleAgents{data: t.TempDir(), key: filepath.Join(t.TempDir(), "alice.key")}
	door := freePort(t)
	start(t, "lazaret is up", "lazaret", "up", "--data", x.data, "--listen", freePort(t), "--http", door)
	must(t, x.data, "key", "gen", "alice", x.key, "--pin", "approver")
	must(t, x.data, "key", "activate")
	token, err := os.ReadFile(filepath.Join(x.data, "creds", "agent.token"))
	if err != nil {
		t.Fatal(err)
	}
	x.env = append(os.Environ(), "LAZARET_URL=http://"+door, "LAZARET_TOKEN="+strings.TrimSpace(string(token)))
	return x
}

// run runs an example program. It waits until the program's call is held, approves the call, and checks the program's
// output.
func (x *exampleAgents) run(t *testing.T, c *exec.Cmd) {
	t.Helper()
	p := &process{t: t, name: c.Path, cmd: c, done: make(chan struct{})}
	c.Env = append(x.env, c.Env...)
	c.Stdout, c.Stderr = p, p
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.Wait(); close(p.done) }()
	defer p.kill()
	var holds []string
	natstest.Eventually(t, time.Minute, "the call is held, or the example has ended", func() bool {
		select {
		case <-p.done:
			return true
		default:
		}
		holds = holdID.FindAllString(must(t, x.data, "holds", "ls", "--each"), -1)
		return len(holds) > 0
	})
	if before := p.output(); strings.Contains(before, "sent to") || len(holds) == 0 {
		t.Fatalf("before the approval it says\n%s", before)
	}
	for _, h := range holds {
		must(t, x.data, "holds", "approve", h, "--key", x.key, "-q")
	}
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("it does not end:\n%s", p.output())
	}
	said := p.output()
	if c.ProcessState.ExitCode() != 0 || strings.Count(said, "eve@evil.example") == 0 ||
		!strings.Contains(said, "sent to eve@evil.example") && !strings.Contains(said, `"shown":"sent"`) {
		t.Errorf("after the approval it says\n%s", said)
	}
}

// runExamples runs examples of the TypeScript client in a folder in which their packages are installed.
func runExamples(t *testing.T, dir string, names []string) {
	x := newExampleAgents(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("../../clients/typescript/examples", name+".mjs"))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "example-"+name+".mjs"), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			c := exec.Command("node", "example-"+name+".mjs")
			c.Dir, c.Env = dir, []string{"CLAUDE=" + filepath.Join(dir, "fake-claude.mjs")}
			x.run(t, c)
		})
	}
}

func TestTheExamplesOfPythonAdapters(t *testing.T) {
	long(t)
	t.Parallel()
	x := newExampleAgents(t)
	for _, name := range []string{"langgraph", "adk", "openai"} {
		t.Run(name, func(t *testing.T) {
			c := exec.Command("python3", "-B", "testdata/frameworks.py", "../../clients/python/examples/"+name+"_agent.py")
			c.Env = []string{"PYTHONPATH=../gateway/testdata:../../clients/python"}
			x.run(t, c)
		})
	}
}

func TestTheExamplesOfMemoryProxies(t *testing.T) {
	long(t)
	t.Parallel()
	data := t.TempDir()
	start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", freePort(t), "--http", "off")
	for kind, file := range map[string]string{"mem0": "mem0", "graphiti": "graphiti", "langgraph": "langgraph_store",
		"cognee": "cognee"} {
		t.Run(kind, func(t *testing.T) {
			store, listen := freePort(t), freePort(t)
			start(t, "in front of", "lazaret", "memory", "proxy", "--data", data, "--kind", kind, "--upstream", "http://"+store,
				"--listen", listen)
			out, err := exec.Command("python3", "-B", "../../examples/proxies/"+file+".py",
				store[strings.LastIndex(store, ":")+1:], "http://"+listen).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			said := make(map[string]string)
			for line := range strings.Lines(string(out)) {
				what, answer, _ := strings.Cut(line, ": ")
				said[what] = answer
			}
			const mark = "[Lazaret: context only"
			found := said["found"]
			if !strings.HasPrefix(said["the user's words"], "200") || !strings.HasPrefix(said["an order of a page"], "403") ||
				!strings.Contains(found, `"The office opens at nine."`) || !strings.Contains(found, "wine") ||
				strings.Count(found, mark) != 1 || strings.Contains(found, "eve@evil.example") {
				t.Errorf("%s", out)
			}
		})
	}
}
