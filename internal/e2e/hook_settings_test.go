package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lazaret/internal/embedded"
)

// TestSettingsThatTurnTheInstalledHookOffAreBlocked runs the commands of the installed settings in the same way as the
// host. The session's start was not recorded. Settings that turn the hook off must be blocked.
func TestSettingsThatTurnTheInstalledHookOffAreBlocked(t *testing.T) {
	long(t)
	t.Parallel()
	h := newHooked(t, embedded.Config{})
	for name, flags := range map[string][]string{
		"project": nil,
		"user":    {"--user", "--wait=1s"},
		"other":   {"--settings", "more settings.json"},
		"http":    {"--http", "http://127.0.0.1:4280"},
	} {
		home, project := t.TempDir(), t.TempDir()
		env := append(os.Environ(), "HOME="+home, "CLAUDE_PROJECT_DIR="+project, "CLAUDE_PLUGIN_ROOT=")
		run := func(stdin string, args ...string) (string, error) {
			c := exec.Command(args[0], args[1:]...)
			c.Dir, c.Env, c.Stdin = project, env, strings.NewReader(stdin)
			var out bytes.Buffer
			c.Stdout, c.Stderr = &out, &out
			err := c.Run()
			return out.String(), err
		}
		install := append([]string{filepath.Join(bin, "lazaret"), "hook", "claude", "--install", "--data", h.data}, flags...)
		if out, err := run("", install...); err != nil {
			t.Fatalf("%s: %v, %s", name, err, out)
		}
		file := map[string]string{"user": filepath.Join(home, ".claude/settings.json"),
			"other": filepath.Join(project, "more settings.json")}[name]
		if file == "" {
			file = filepath.Join(project, ".claude/settings.json")
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var settings struct {
			Hooks map[string][]struct {
				Hooks []struct{ Command string }
			}
		}
		if err := json.Unmarshal(b, &settings); err != nil {
			t.Fatal(err)
		}
		event, err := json.Marshal(h.event("ConfigChange", map[string]any{"source": "local_settings", "session_id": "s-" + name,
			"cwd": home}))
		if err != nil {
			t.Fatal(err)
		}
		changed := func() string {
			t.Helper()
			out, err := run(string(event), "sh", "-c", settings.Hooks["ConfigChange"][0].Hooks[0].Command)
			if err != nil {
				t.Fatalf("%s: %v, %s", name, err, out)
			}
			return out
		}
		if out := changed(); out != "" {
			t.Errorf("%s, as installed: %s", name, out)
		}
		put := func(file, text string) {
			t.Helper()
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		local := filepath.Join(project, ".claude/settings.local.json")
		put(local, `{"disableAllHooks": true}`)
		if out := changed(); !strings.Contains(out, `"decision":"block"`) || !strings.Contains(out, "disableAllHooks") {
			t.Errorf("%s, turned off: %s", name, out)
		}
		put(local, "{}")
		put(file, strings.ReplaceAll(string(b), "claude --project", "claude --fail-open --project"))
		if out := changed(); !strings.Contains(out, `"decision":"block"`) || !strings.Contains(out, "hook-removed") {
			t.Errorf("%s, with --fail-open: %s", name, out)
		}
		put(file, string(b))
		if out := changed(); out != "" {
			t.Errorf("%s, restored: %s", name, out)
		}
		if name != "user" {
			continue
		}
		status := func() string {
			out, _ := run("", filepath.Join(bin, "lazaret"), "connect", "status", "--data", h.data)
			return out
		}
		if out := status(); !strings.Contains(out, "  guarded      its own tools") {
			t.Errorf("status: %s", out)
		}
		put(local, `{"disableAllHooks": true}`)
		if out := status(); !strings.Contains(out, "NOT guarded  its own tools: "+local+": disableAllHooks") {
			t.Errorf("status of hooks that are off: %s", out)
		}
	}
}
