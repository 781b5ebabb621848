package e2e

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Each program is an agent of an official framework whose model follows a script. The agent reads a poisoned page. Its
// call must be held, and must go on after a person has approved it. The example programs do the same in fewer lines;
// they wait until the person decides.
func TestAgentsOfStockFrameworksAreStoppedAndGoOnAfterApproval(t *testing.T) {
	long(t)
	t.Parallel()
	const client = "../../clients/typescript"
	programs := []string{"langchain", "ai-sdk", "openai-agents", "claude-agent-sdk"}
	files := []string{"scenario.mjs", "fake-claude.mjs"}
	for _, p := range programs {
		files = append(files, p+".mjs")
	}
	dir := stockNode(t, filepath.Join(client, "test"), files...)
	installPackage(t, client, filepath.Join(dir, "node_modules", "lazaret"))
	data, addr, door := t.TempDir(), freePort(t), freePort(t)
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr, "--http", door)
	key := filepath.Join(t.TempDir(), "alice.key")
	must(t, data, "key", "gen", "alice", key, "--pin", "approver")
	must(t, data, "key", "activate")
	token, err := os.ReadFile(filepath.Join(data, "creds", "agent.token"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		t.Run(p, func(t *testing.T) {
			runFramework(t, data, key, dir, p+".mjs", "http://"+door, strings.TrimSpace(string(token)))
		})
	}
	up.interrupt()
	t.Run("examples", func(t *testing.T) { runExamples(t, dir, programs) })
}

// installPackage copies to a folder the files of a package that npm would publish.
func installPackage(t *testing.T, from, to string) {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.js", "*.d.ts", "package.json"} {
		names, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, names...)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(f)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var holdID = regexp.MustCompile(`\bh[0-9a-f]{16}\b`)

// runFramework runs a program. When the program prints "approve", it approves all open holds.
func runFramework(t *testing.T, data, key, dir, program, url, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", program, url, token)
	node.Dir = dir
	var stderr bytes.Buffer
	node.Stderr = &stderr
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for s := bufio.NewScanner(out); s.Scan(); {
		said = append(said, s.Text())
		if s.Text() == "approve" {
			for _, h := range holdID.FindAllString(must(t, data, "holds", "ls", "--each"), -1) {
				must(t, data, "holds", "approve", h, "--key", key, "-q")
			}
		}
	}
	if err := node.Wait(); err != nil || strings.Join(said, " ") != "approve done" {
		t.Fatalf("%s said %q: %v\n%s", program, said, err, stderr.String())
	}
}
