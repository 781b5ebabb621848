package hook_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lazaret/internal/hook"
)

const theirs = `{
  "model": "opus",
  "hooks": {
    "PostToolUse": [
      {"matcher": "Edit", "hooks": [{"type": "command", "command": "gofmt -l ."}]}
    ],
    "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]
  },
  "permissions": {"deny": ["WebFetch"]}
}
`

func TestInstallLeavesWhatIsOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".claude", "settings.json")
	read := func() string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	install := func(command string) {
		if err := hook.ClaudeCode.Install(file, hook.Handler{Command: command, Timeout: 35 * time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	install("/bin/lazaret hook claude --data /d")
	if !json.Valid([]byte(read())) {
		t.Errorf("no JSON: %s", read())
	}
	for _, e := range hook.ClaudeCode.Events {
		if !strings.Contains(read(), `"`+e+`"`) {
			t.Errorf("no hook for %s", e)
		}
	}
	if found, err := hook.ClaudeCode.Uninstall(file); !found || err != nil || strings.TrimSpace(read()) != "{}" {
		t.Errorf("%v, left is %s", err, read())
	}
	if err := os.WriteFile(file, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	install("/bin/lazaret hook claude --data /d")
	install("/other/lazaret-hook claude --data /e")
	install("/other/lazaret hook claude --data /e")
	got := read()
	if strings.Count(got, "hook claude") != len(hook.ClaudeCode.Events) || strings.Contains(got, "/bin/lazaret") ||
		!strings.Contains(got, "gofmt -l .") || !strings.Contains(got, `"timeout": 35`) {
		t.Errorf("%s", got)
	}
	if !json.Valid([]byte(got)) {
		t.Errorf("no JSON: %s", got)
	}
	if i, j := strings.Index(got, `"model"`), strings.Index(got, `"permissions"`); i < 0 || j < i {
		t.Errorf("the order has changed: %s", got)
	}
	if i, err := os.Stat(file); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
	if _, err := hook.ClaudeCode.Uninstall(file); err != nil {
		t.Fatal(err)
	}
	if read() != theirs {
		t.Errorf("left is %s", read())
	}
	for _, f := range []string{file, file + ".missing"} {
		if found, err := hook.ClaudeCode.Uninstall(f); found || err != nil {
			t.Errorf("%s without entries: %v, %v", f, found, err)
		}
	}
	if _, err := os.Stat(file + ".missing"); err == nil {
		t.Error("an uninstallation wrote a file that was missing")
	}
	if err := os.WriteFile(file, []byte(`{"hooks": `), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := hook.ClaudeCode.Install(file, hook.Handler{Command: "x hook claude", Timeout: time.Second}); err == nil ||
		read() != `{"hooks": ` {
		t.Errorf("a broken file became %s, %v", read(), err)
	}
}

func TestAKnownEventInAnotherSpellingIsAnError(t *testing.T) {
	for _, x := range []struct {
		host       *hook.Host
		name, want string
	}{
		{hook.ClaudeCode, "pretooluse", "PreToolUse"}, {hook.ClaudeCode, "preToolUse", "PreToolUse"},
		{hook.ClaudeCode, "pre_tool_use", "PreToolUse"}, {hook.ClaudeCode, " PreToolUse", "PreToolUse"},
		{hook.ClaudeCode, "userpromptsubmit", "UserPromptSubmit"}, {hook.Codex, "POSTTOOLUSE", "PostToolUse"},
		{hook.Cursor, "pretooluse", "preToolUse"}, {hook.Gemini, "beforeTool", "BeforeTool"},
		{hook.Gemini, "pretooluse", "PreToolUse"},
		{hook.ClaudeCode, "PreToolUse", ""}, {hook.ClaudeCode, "NewEvent2027", ""}, {hook.ClaudeCode, "Notification", ""},
		{hook.Cursor, "preToolUse", ""}, {hook.Gemini, "BeforeToolSelection", ""}, {hook.ClaudeCode, "", ""},
	} {
		e, err := x.host.Decode([]byte(`{"session_id":"s","hook_event_name":"` + x.name + `","tool_name":"Bash"}`))
		if x.want == "" {
			if err != nil {
				t.Errorf("%s %q: %v", x.host.Name, x.name, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s %q is %+v, %v; want an error that names %s", x.host.Name, x.name, e, err, x.want)
		}
	}
}
