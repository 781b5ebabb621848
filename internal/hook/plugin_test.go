package hook

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// manifests are the files that declare a plugin, by host.
var manifests = map[string]string{"claude": ".claude-plugin/plugin.json", "codex": ".codex-plugin/plugin.json",
	"cursor": ".cursor-plugin/plugin.json", "gemini": "gemini-extension.json"}

// pluginCommand returns a command that blocks if the program is missing: a host ignores the shell's own
// exit code for that.
func pluginCommand(h *Host) string {
	return `command -v lazaret-hook >/dev/null || { echo "lazaret-hook is not in PATH, so nothing is judged" >&2; exit 2; }; ` +
		`exec lazaret-hook ` + h.Name + ` --data "$HOME/lazaret/data"`
}

// TestThePluginsOfTheHostsAreCurrent compares each plugin's hooks with those of Install. -update writes
// them.
func TestThePluginsOfTheHostsAreCurrent(t *testing.T) {
	for _, h := range Hosts {
		dir := filepath.Join("../../clients/plugins", h.Name)
		with := Handler{Command: pluginCommand(h), Timeout: 35 * time.Second}
		want, err := h.With(nil, with)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "hooks", "hooks.json")
		if *update {
			put(t, file, string(want))
		}
		got, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) || !json.Valid(got) {
			t.Errorf("%s is not what Install writes (go test ./internal/hook -run Plugins -update): %v", file, err)
		}
		if _, why, err := h.Lost([]Layer{{File: file, Text: got}}, with); why != "" || err != nil {
			t.Errorf("%s: %s, %v", file, why, err)
		}
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(manifests[h.Name])))
		if err != nil {
			t.Error(err)
			continue
		}
		var m struct{ Name, Version, Description, License string }
		if err := json.Unmarshal(b, &m); err != nil || m.Name != "lazaret" || m.Description == "" ||
			!regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(m.Version) {
			t.Errorf("the manifest for %s: %+v, %v", h.Name, m, err)
		}
		// A line comment or a trailing comma would make a host ignore the whole file.
		if !json.Valid(b) {
			t.Errorf("the manifest for %s is not JSON", h.Name)
		}
	}
}
