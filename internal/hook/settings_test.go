package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSettingsThatLoseTheHookAreBlockedAndRaiseAnAlert(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	cfg, c := agent(t)
	cfg.Handler = Handler{Command: "/bin/lazaret-hook claude --data /d", Timeout: 35 * time.Second}
	cwd := t.TempDir()
	user := filepath.Join(home, ".claude", "settings.json")
	project := filepath.Join(cwd, ".claude", "settings.json")
	local := filepath.Join(cwd, ".claude", "settings.local.json")
	text := func() string {
		b, err := ClaudeCode.With(nil, cfg.Handler)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}()
	replaced := func(old, by string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in %s", old, text)
		}
		return strings.Replace(text, old, by, 1)
	}
	const command, off = "/bin/lazaret-hook claude --data /d", `{"disableAllHooks": true}`
	kept := map[string]map[string]string{
		"the user's":              {user: text},
		"the project's":           {project: text, local: `{"model": "opus"}`, user: `{"disableAllHooks": false}`},
		"the local one's":         {local: text},
		"twice":                   {user: text, project: text},
		"another agent's as well": {user: text, project: strings.ReplaceAll(text, "/d", "/e")},
		"longer":                  {user: strings.ReplaceAll(text, `"timeout": 35`, `"timeout": 60`)},
		"in parts":                {user: text, project: `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}`},
	}
	lost := map[string]map[string]string{
		"no files":                    {},
		"empty":                       {project: "{}"},
		"broken":                      {project: `{"hooks": `},
		"off in the local file":       {project: text, local: off},
		"off in the user's file":      {project: text, user: off},
		"off in the project's file":   {user: text, project: off},
		"off in the same file":        {project: replaced("{", `{"disableAllHooks": true,`)},
		"off by another value":        {project: text, local: `{"disableAllHooks": 1}`},
		"another event":               {project: replaced(`"PreToolUse"`, `"PreToolUsed"`)},
		"a comment":                   {project: replaced(command, "true # "+command)},
		"every one a comment":         {project: strings.ReplaceAll(text, command, "true # "+command)},
		"without its output":          {project: strings.ReplaceAll(text, command, command+" >/dev/null")},
		"open":                        {project: strings.ReplaceAll(text, command, command+" --fail-open")},
		"another pipeline":            {project: strings.ReplaceAll(text, "/d", "/e")},
		"a narrower matcher":          {project: replaced(`"PreToolUse": [`+"\n      {", `"PreToolUse": [{"matcher": "Bash",`)},
		"a shorter time":              {project: replaced(`"timeout": 35`, `"timeout": 1`)},
		"a time that is too long":     {project: replaced(`"timeout": 35`, `"timeout": 99999999`)},
		"async":                       {project: replaced(`"timeout": 35`, `"timeout": 35, "async": true`)},
		"a condition":                 {project: replaced(`"timeout": 35`, `"timeout": 35, "if": "Bash(ls)"`)},
		"a weaker one beside it":      {user: text, project: replaced(`"timeout": 35`, `"timeout": 1`)},
		"other files for the hook":    {user: text, project: `{"env": {"HOME": "/tmp/x"}}`},
		"other settings of the hook":  {user: text, project: `{"env": {"XDG_CONFIG_HOME": "/tmp/x"}}`},
		"an event that is not a list": {project: replaced(`"PreToolUse": [`, `"PreToolUse": null, "x": [`)},
	}
	n := 0
	try := func(name string, files map[string]string) *Answer {
		for _, file := range []string{user, project, local} {
			if text, ok := files[file]; ok {
				put(t, file, text)
			} else if err := os.RemoveAll(file); err != nil {
				t.Fatal(err)
			}
		}
		n++
		// The start of the session was not recorded, and the agent works in a folder below that of the project.
		cfg.Folder, cfg.State = cwd, t.TempDir()
		return say(t, cfg, c, filepath.Join(cwd, "sub"), ConfigChange, `,"source":"project_settings"`)
	}
	for name, files := range kept {
		if a := try(name, files); a != nil {
			t.Errorf("kept, %s: %+v", name, a)
		}
	}
	for name, files := range lost {
		if a := try(name, files); a == nil || a.Decision != "block" || !strings.Contains(a.Reason, "hook-removed") ||
			!strings.Contains(a.Reason, "settings") {
			t.Errorf("lost, %s: %+v", name, a)
		}
	}
	// Settings that cannot be parsed, beside those with the hook, get no verdict.
	put(t, user, text)
	put(t, project, "{")
	if err := os.RemoveAll(local); err != nil {
		t.Fatal(err)
	}
	e := `{"session_id":"s1","cwd":"` + cwd + `","hook_event_name":"ConfigChange"}`
	if _, a, _, err := answered(t, cfg, c, ClaudeCode, []byte(e)); err == nil || !strings.Contains(err.Error(), project) {
		t.Errorf("broken settings: %+v, %v", a, err)
	}
}

func TestLayersOfSettings(t *testing.T) {
	with := Handler{Command: "/bin/lazaret-hook claude --data /d", Timeout: time.Second, URL: "http://127.0.0.1:4280/v1/hooks/claude"}
	b, err := ClaudeCode.With(nil, with)
	if err != nil {
		t.Fatal(err)
	}
	has := Layer{File: "user", Text: b}
	managed := Layer{File: "managed", Managed: true, Text: b}
	layer := func(text string) Layer { return Layer{File: "other", Text: []byte(text)} }
	admin := func(text string) Layer { return Layer{File: "admin", Managed: true, Text: []byte(text)} }
	for name, x := range map[string]struct {
		layers []Layer
		kept   bool
	}{
		"alone":                          {[]Layer{has}, true},
		"managed, and off for others":    {[]Layer{managed, layer(`{"disableAllHooks": true}`)}, true},
		"managed, and off for all":       {[]Layer{managed, admin(`{"disableAllHooks": true}`)}, false},
		"of the user, beside others":     {[]Layer{has, admin(`{"allowManagedHooksOnly": true}`)}, false},
		"managed, the only ones":         {[]Layer{managed, admin(`{"allowManagedHooksOnly": true}`)}, true},
		"a list of URLs without it":      {[]Layer{has, layer(`{"allowedHttpHookUrls": ["https://x.example/*"]}`)}, false},
		"lists of URLs, one with it":     {[]Layer{has, layer(`{"allowedHttpHookUrls": []}`), admin(`{"allowedHttpHookUrls": ["http://127.0.0.1:*"]}`)}, true},
		"a list of variables without it": {[]Layer{has, layer(`{"httpHookAllowedEnvVars": []}`)}, false},
		"another URL":                    {[]Layer{layer(strings.Replace(string(b), "127.0.0.1", "127.0.0.2", 1))}, false},
		"another header":                 {[]Layer{layer(strings.Replace(string(b), "Bearer $", "Bearer ", 1))}, false},
	} {
		file, why, err := ClaudeCode.Lost(x.layers, with)
		if (why == "") != x.kept || err != nil || file == "" && why != "" {
			t.Errorf("%s: %q, %q, %v", name, file, why, err)
		}
	}
	// A plugin has no entry, but settings can turn its hooks off.
	if _, why, err := ClaudeCode.Lost(nil, Handler{}); why != "" || err != nil {
		t.Errorf("a plugin: %s, %v", why, err)
	}
	if _, why, _ := ClaudeCode.Lost([]Layer{layer(`{"disableAllHooks": true}`)}, Handler{}); why == "" {
		t.Error("a plugin whose hooks are off is not lost")
	}
}
