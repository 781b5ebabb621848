package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lazaret/internal/natstest"
)

// stockMCP is the MCP client of the TypeScript SDK in a process. It takes commands and reports results line by line.
type stockMCP struct {
	t    *testing.T
	in   *json.Encoder
	said chan map[string]any
}

func startMCP(t *testing.T, dir string, command ...string) *stockMCP {
	t.Helper()
	c := exec.Command("node", append([]string{"client.mjs"}, command...)...)
	c.Dir = dir
	var errs strings.Builder
	c.Stderr = &errs
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
	s := &stockMCP{t: t, in: json.NewEncoder(in), said: make(chan map[string]any, 64)}
	go func() {
		defer close(s.said)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var x map[string]any
			if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
				t.Errorf("the client said %s", lines.Text())
				return
			}
			s.said <- x
		}
	}()
	t.Cleanup(func() {
		in.Close()
		done := make(chan error, 1)
		go func() { done <- c.Wait() }()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the client ended with %v\n%s", err, errs.String())
			}
		case <-time.After(20 * time.Second):
			c.Process.Kill()
			t.Errorf("the client does not end\n%s", errs.String())
		}
		if t.Failed() {
			t.Log(errs.String())
		}
	})
	return s
}

// next returns the next message of the client process that has a member with this key.
func (s *stockMCP) next(key string) map[string]any {
	s.t.Helper()
	for {
		select {
		case x, ok := <-s.said:
			if !ok {
				s.t.Fatalf("the client ended before it said %q", key)
			}
			if f := x["failed"]; f != nil {
				s.t.Fatalf("the client failed: %v", f)
			}
			if x[key] != nil {
				return x
			}
		case <-time.After(60 * time.Second):
			s.t.Fatalf("the client does not say %q", key)
		}
	}
}

func (s *stockMCP) do(x map[string]any) {
	s.t.Helper()
	if err := s.in.Encode(x); err != nil {
		s.t.Fatal(err)
	}
}

// call calls a tool. It returns the text of the result and the verdict in it.
func (s *stockMCP) call(tool string, args map[string]any) (string, map[string]any) {
	s.t.Helper()
	s.do(map[string]any{"call": tool, "args": args})
	x := s.next("called")
	meta, _ := x["_meta"].(map[string]any)
	verdict, _ := meta["lazaret/verdict"].(map[string]any)
	content, _ := x["content"].([]any)
	if len(content) == 0 {
		s.t.Fatalf("%v", x)
	}
	return content[0].(map[string]any)["text"].(string), verdict
}

// TestAPoisonedFileBehindTheStockFilesystemServer plays the transcript of docs/mcp.md with lazaret's commands, the
// official server and an official client.
func TestAPoisonedFileBehindTheStockFilesystemServer(t *testing.T) {
	long(t)
	t.Parallel()
	dir := stockNode(t, "mcp", "client.mjs")
	data, notes, addr := t.TempDir(), t.TempDir(), freePort(t)
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr)
	defer up.interrupt()
	key := filepath.Join(t.TempDir(), "alice.key")
	must(t, data, "key", "gen", "alice", key, "--pin", "approver")
	must(t, data, "key", "activate")
	minutes, decisions := filepath.Join(notes, "meeting.txt"), filepath.Join(notes, "decisions.txt")
	poison, err := os.ReadFile("mcp/meeting.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(minutes, poison, 0o600); err != nil {
		t.Fatal(err)
	}
	c := startMCP(t, dir, filepath.Join(bin, "lazaret"), "mcp", "--data", data, "--wait", "200ms", "--",
		"node", filepath.Join(dir, "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"), notes)
	c.next("connected")

	// The server's tools are not accepted yet.
	c.do(map[string]any{"list": true})
	if got := c.next("tools")["tools"].([]any); len(got) != 0 {
		t.Fatalf("shown before they were accepted: %v", got)
	}
	must(t, data, "holds", "approve", heldID(t, data), "--key", key)
	c.next("changed")
	c.do(map[string]any{"list": true})
	if got := c.next("tools")["tools"].([]any); !slices.Contains(got, any("write_file")) {
		t.Fatalf("accepted, and shown are %v", got)
	}

	// Reading the file must be allowed. Its content must stay unverified.
	said, verdict := c.call("read_text_file", map[string]any{"path": minutes})
	if said != string(poison) || verdict != nil {
		t.Errorf("it read %q, %v", said, verdict)
	}
	var beliefs []struct {
		Kind string
		Axes struct{ Truth, Retrieval string }
	}
	natstest.Eventually(t, time.Minute, "the belief", func() bool {
		decode(t, must(t, data, "beliefs", "ls", "--json", "--where",
			`content contains "Minutes" || content contains "read_text_file"`), &beliefs)
		return len(beliefs) == 2
	})
	for _, b := range beliefs {
		want := map[string]string{"envelope": "supported", "content": "unverified"}[b.Kind]
		if b.Axes.Truth != want {
			t.Errorf("%+v", b)
		}
	}

	// The write for which the file asks must be held.
	write := map[string]any{"path": decisions, "content": "approved by the board\n"}
	said, verdict = c.call("write_file", write)
	if verdict["verdict"] != "hold" || !strings.Contains(said, "HELD") ||
		!strings.Contains(said, "action-from-instruction") {
		t.Errorf("%q, %v", said, verdict)
	}
	if _, err := os.Stat(decisions); err == nil {
		t.Fatal("the file was written")
	}
	// After an approval with a key, one write must go through. The log must verify.
	hold := heldID(t, data)
	if hold != verdict["hold"] {
		t.Errorf("%s waits, and the model heard of %v", hold, verdict["hold"])
	}
	must(t, data, "holds", "approve", hold, "--key", key)
	if said, verdict = c.call("write_file", write); verdict != nil || !strings.Contains(said, "Successfully wrote") {
		t.Errorf("approved: %q, %v", said, verdict)
	}
	if b, err := os.ReadFile(decisions); err != nil || string(b) != "approved by the board\n" {
		t.Errorf("written was %q, %v", b, err)
	}
	if said, verdict = c.call("write_file", write); verdict["verdict"] != "hold" || verdict["hold"] == hold {
		t.Errorf("approved once, called twice: %q, %v", said, verdict)
	}
	if out := must(t, data, "audit", "verify"); !strings.Contains(out, "VERIFIED") {
		t.Error(out)
	}
}

// heldID returns the id of the only open hold.
func heldID(t *testing.T, data string) string {
	t.Helper()
	var open []struct{ ID string }
	decode(t, must(t, data, "holds", "ls", "--json"), &open)
	if len(open) != 1 {
		t.Fatalf("%d holds are open", len(open))
	}
	return open[0].ID
}

func decode(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
