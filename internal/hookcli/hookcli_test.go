package hookcli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret/internal/hook"
)

// A command line that --install writes is recognized, and a process that was started by it makes the same line from
// its arguments.
func TestInstalledLinesAreRecognized(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ana's programs")
	exe := filepath.Join(dir, "lazaret")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	plain := CommandLine(exe, "claude", "demo", "agent", "/d")
	for text, timeout := range map[string]time.Duration{
		plain:                                35 * time.Second,
		plain + " --wait=30s --timeout=5s":   80 * time.Second,
		plain + " --hold=ask --state='/s t'": 35 * time.Second,
	} {
		got, err := Installed(hook.ClaudeCode, text, "/d")
		if err != nil || got.Command != text || got.Timeout != timeout {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, why := range map[string]string{
		"true # " + plain: "not in the form", plain + " >/dev/null": "not in the form",
		plain + " || true": "not in the form",
		plain + " &":       "not in the form", plain + " $X": "not in the form", plain + " --fail-open=true": "--fail-open",
		plain + " x": "argument", plain + " --no-such": "no-such", strings.Replace(plain, "/d", "/e", 1): "pipeline of /d",
		strings.Replace(plain, "claude", "codex", 1): "does not name", "/no/lazaret-hook claude --data /d": "cannot start",
	} {
		if _, err := Installed(hook.ClaudeCode, text, "/d"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", text, err, why)
		}
	}
}
