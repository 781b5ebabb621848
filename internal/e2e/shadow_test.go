package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret/internal/backtest"
	"lazaret/internal/natstest"
	"lazaret/streams"

	shipped "lazaret/rules"
)

// A candidate rule set is compared with the active one: first on live entries, then on the entries of the ledger.
func TestRulesInTheShadowOfThoseInForce(t *testing.T) {
	long(t)
	t.Parallel()
	data, addr := t.TempDir(), freePort(t)
	dir := filepath.Join(t.TempDir(), "rules")
	if err := os.CopyFS(dir, shipped.FS()); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(dir, "write-path", "keys.yaml"), "memory.key.lowerAscii() in lists.protected_keys",
		"memory.key == 'nobody'")
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr)
	shadow := start(t, "watching:", "lazaret", "rules", "shadow", dir, "--data", data)
	command(t, data, "remember", "--origin", "agent", "--key", "system_prompt", "Be brief.")
	for range 2000 {
		if strings.Contains(shadow.output(), "-protected-key") {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	other := filepath.Join(t.TempDir(), "other") // the same rules under another title
	if err := os.CopyFS(other, shipped.FS()); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(other, "provenance", "pack.yaml"), "title: Origins of actions and decisions", "title: Origins")
	must(t, data, "rules", "activate", other, "--skip-tests")
	natstest.Eventually(t, time.Minute, "the shadow hears of an activation", func() bool {
		return strings.Contains(shadow.output(), "put in force")
	})
	shadow.interrupt()
	if n := strings.Count(shadow.output(), "put in force"); n != 1 {
		t.Errorf("of an activation it speaks %d times:\n%s", n, shadow.output())
	}
	if out := shadow.output(); !strings.Contains(out, "no longer held (allow, was hold) -protected-key") ||
		!strings.Contains(out, "1 rules differ") {
		t.Errorf("the shadow says\n%s", out)
	}
	export := filepath.Join(t.TempDir(), "export.jsonl")
	for _, args := range [][]string{{"--since", "1d", "--export", export}, {"--ledger", "--full"},
		{"--against", "shipped", export}} {
		out, code := command(t, data, append([]string{"rules", "backtest", dir, "--json"}, args...)...)
		var r backtest.Report
		if err := streams.Unmarshal([]byte(out), &r); err != nil || code != 2 || r.Flips[backtest.NoLongerHeld] != 1 ||
			len(r.Samples) != 1 {
			t.Errorf("backtest %v: exit %d, %v: %s", args, code, err, out)
		}
	}
	// The active rule set is now not the shipped one. backtest must read it from the ledger.
	must(t, data, "rules", "activate", dir, "--skip-tests")
	if out := must(t, data, "rules", "backtest", dir, "--ledger"); !strings.Contains(out, "no rule differs") {
		t.Error(out)
	}
	up.interrupt()
}

func edit(t *testing.T, file, from, to string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := strings.Replace(string(b), from, to, 1)
	if s == string(b) {
		t.Fatalf("%s does not hold %q", file, from)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
		t.Fatal(err)
	}
}
