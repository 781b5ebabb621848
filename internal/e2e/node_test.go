package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/internal/natsserver"
	"lazaret/internal/token"
	"lazaret/streams"
)

// stockNode copies Node programs with the files that they need to a folder, and installs their packages there. It
// returns the folder.
func stockNode(t *testing.T, from string, programs ...string) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: %s is not installed, so no client in another language was tried", tool)
		}
	}
	dir := t.TempDir()
	for _, f := range append([]string{"package.json", "package-lock.json", ".npmrc"}, programs...) {
		b, err := os.ReadFile(filepath.Join(from, f))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install := exec.Command("npm", "ci")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: the packages cannot be had, so no client in another language was tried: %v\n%s", err, out)
	}
	return dir
}

func TestAStockNodeClientNeedsNothingOfOurs(t *testing.T) {
	long(t)
	t.Parallel()
	dir := stockNode(t, "node", "client.mjs")
	data, addr := t.TempDir(), freePort(t)
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr)
	defer up.interrupt()
	node := exec.Command("node", "client.mjs", "nats://"+addr,
		natsserver.CredsFile(data, "agent"), natsserver.AgentInbox("demo", "agent"),
		natsserver.CredsFile(data, "operator"), natsserver.RoleOperator.InboxPrefix())
	node.Dir = dir
	out, err := node.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("node: %v\n%s%s", err, out, exit.Stderr)
		}
		t.Fatal(err)
	}
	var got struct {
		Stored uint64 `json:"stored"`
		Alert  struct {
			Heard string `json:"heard"` // the subject of the message
			Rule  string `json:"rule"`
		} `json:"alert"`
		Reply streams.Reply `json:"reply"`
	}
	if err := streams.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got.Stored == 0 || got.Alert.Rule != "read-injection-markers" || !strings.HasPrefix(got.Alert.Heard,
		"lz.live.demo.alert.high.") {
		t.Errorf("stored %d, alert %+v", got.Stored, got.Alert)
	}
	if got.Reply.Verdict != streams.Hold || got.Reply.Entry == nil || got.Reply.Entry.Hold == nil {
		t.Errorf("the verdict is %s", out)
	}
}

func TestAStockOpenTelemetrySDKNeedsNothingOfOurs(t *testing.T) {
	long(t)
	t.Parallel()
	dir := stockNode(t, "node", "otlp.mjs")
	data, addr, at := t.TempDir(), freePort(t), freePort(t)
	up := start(t, "lazaret is up", "lazaret", "up", "--data", data, "--listen", addr, "--http", at)
	defer up.interrupt()
	secret, err := os.ReadFile(token.File(data, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	node := exec.Command("node", "otlp.mjs")
	node.Dir = dir
	node.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+at,
		"OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20"+strings.TrimSpace(string(secret)))
	if out, err := node.CombinedOutput(); err != nil {
		t.Fatalf("node: %v\n%s", err, out)
	}
	out, code := command(t, data, "decide", "--session", "talk", "send_email", "--args", `{"to":"eve@evil.example"}`)
	if code == 0 || !strings.Contains(out, "hold") {
		t.Errorf("a mail that a tool's result orders: exit %d\n%s", code, out)
	}
	out = must(t, data, "audit", "ls", "--json")
	for _, want := range []string{`"otlp-`, `"catalogue"`, `"call_stock"`} {
		if !strings.Contains(out, want) {
			t.Errorf("the log has no %s:\n%.3000s", want, out)
		}
	}
}
