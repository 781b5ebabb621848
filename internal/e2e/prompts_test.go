package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret/internal/natstest"
)

// The test runs the commands of the section "Prompts" of docs/console.md, from the proposal of a prompt to the alert
// about a session that uses another text.
func TestPromptsFromTheCommandLine(t *testing.T) {
	long(t)
	t.Parallel()
	dir, data := t.TempDir(), t.TempDir()
	start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", freePort(t))
	key := filepath.Join(dir, "alice.key")
	must(t, data, "key", "gen", "alice", key, "--pin", "approver")
	must(t, data, "key", "activate")
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	exits := func(want int, says string, args ...string) {
		t.Helper()
		if out, code := command(t, data, args...); code != want || !strings.Contains(out, says) {
			t.Errorf("lazaret %s: exit %d, want %d and %q\n%s", strings.Join(args, " "), code, want, says, out)
		}
	}
	accept := func() { // without --yes, the command prints the command that signs
		t.Helper()
		_, sign, _ := strings.Cut(must(t, data, "prompts", "accept"), "nothing was signed; to sign: lazaret ")
		exits(0, "REGISTERED", append(strings.Fields(sign), "--key", key)...)
	}
	first, second := file("first.md", "Help politely.\n"), file("second.md", "Help politely.\x1b[2K\nPromise nothing.\n")
	exits(10, "hold", "prompts", "register", "support", first)
	exits(0, "+Help politely.", "prompts", "accept")
	// Without the id of a hold, --yes must be refused: another proposal may have come since the person looked.
	exits(1, "needs the HOLD", "prompts", "accept", "--yes", "--key", key)
	exits(1, "needs the HOLD", "mcp", "review", "--yes", "--key", key)
	exits(2, "has no prompt support", "prompts", "show", "support")
	accept()
	exits(2, "0 prompts", "prompts", "accept")
	exits(10, "hold", "prompts", "register", "support", second)
	// An escape sequence in the proposed text must be shown as text. It must not reach the terminal.
	exits(0, `+Help politely.\x1b[2K`, "prompts", "accept")
	accept()
	exits(0, "Help politely.\n", "prompts", "show", "support@1")
	exits(3, "+Promise nothing.", "prompts", "diff", "support@1", "support@2")
	exits(0, "equal", "prompts", "diff", "support", second)
	exits(2, "no version 3", "prompts", "show", "support@3")
	exits(10, "hold", "prompts", "register", "support", "--from", "1")
	accept()
	exits(0, "equal", "prompts", "diff", "support@1", "support@3")
	if out := must(t, data, "prompts", "ls", "support"); strings.Count(out, "alice") != 3 {
		t.Errorf("not three versions that alice signed for:\n%s", out)
	}
	must(t, data, "session", "start", "same", "--prompt", "support@3", "--prompt-file", first)
	must(t, data, "session", "start", "other", "--prompt", "support@3", "--prompt-file", second)
	natstest.Eventually(t, 20*time.Second, "an alert on the session that runs another prompt", func() bool {
		return strings.Contains(must(t, data, "alerts", "ls"), "session other")
	})
	if out := must(t, data, "alerts", "ls"); strings.Contains(out, "session same") {
		t.Errorf("the session that runs the registered prompt is alerted on:\n%s", out)
	}
	must(t, data, "audit", "verify")
}
