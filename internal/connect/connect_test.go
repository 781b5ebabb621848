package connect

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"lazaret/internal/hook"
)

// The configurations have comments, unusual spacing, other settings, secrets and HTTP servers, as real
// ones do.
var home = map[string]string{
	".claude/settings.json": "{\n\t\"model\": \"opus\",\n\t\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", " +
		"\"command\": \"say done\"}]}]}\n}",
	".claude.json": `{"numStartups": 12, "mcpServers": {
    "files": {"type":"stdio","command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","/home/ana/no\u0074es & <more>"],"env":{"KEY":"s3cret"}},
    "remote": {"type": "http", "url": "https://mcp.example/mcp"}, "keyed": {"type":"http","url":"https://mcp.example/k","headers":{"X-Key":"s3cret"}},
    "events": {"type": "sse", "url": "https://mcp.example/sse"}, "closed": {"url": "https://closed.example/mcp", "type": "http"}},
  "projects": {"/home/ana/shop": {"allowedTools": [], "mcpServers": {"db": {"command": "db-mcp"}}}}}
`,
	".codex/config.toml": `# my settings
model = "gpt-5"   # the good one

[mcp_servers.docs]
command = 'docs-server'
args = [
  "--root", # where
  "C:\\docs",
]
startup_timeout_sec = 20

[mcp_servers."my server"]
args=[]
command="run it"   # spaced

[mcp_servers.bare]
command = "bare"
env = { "A" = "b" }

[mcp_servers.web]
url = "https://mcp.example/mcp" # far
enabled = true

[mcp_servers.signed]
url = "https://mcp.example/mcp"
bearer_token_env_var = "KEY"

[profiles.x]
command = "not a server"
`,
	".cursor/mcp.json":   `{"mcpServers":{}}`,
	".cursor/hooks.json": "{\n    \"version\": 1,\n    \"hooks\": {\"stop\": [{\"command\": \"say done\"},],}, // mine\n}",
	".gemini/settings.json": "{\r\n  \"theme\": \"dark\",\r\n  \"mcpServers\": { \"git\": { \"args\": [], " +
		"\"command\": \"uvx\" },\r\n \"g\": {\"httpUrl\":\"https://mcp.example/g\", \"timeout\": 5}, " +
		"\"old\": {\"url\":\"https://mcp.example/old\"} }\r\n}\r\n",
	".config/Code/User/mcp.json": "{\n  // servers of mine\n  \"servers\": {\n    \"time\": { \"type\": \"stdio\", " +
		"\"command\": \"uvx\", \"args\": [\"mcp-time\",], }, // trailing commas\n  },\n}\n",
}

func setUp(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range home {
		write(t, filepath.Join(dir, name), text)
	}
	return Config{Home: dir, Record: filepath.Join(t.TempDir(), "record", "connect.json"),
		Wrap: func(s Server) (Server, bool) {
			args := []string{"mcp", "--data", "/d", "--", s.Command + s.URL}
			return Server{Name: s.Name, Command: "/opt/lazaret", Args: append(args, s.Args...)},
				!strings.Contains(s.URL, "closed")
		},
		Handler: installed,
		Installed: func(h *hook.Host, line string) (hook.Handler, error) {
			if line != installed(h).Command {
				return hook.Handler{}, errors.New("another line")
			}
			return installed(h), nil
		}}
}

func installed(h *hook.Host) hook.Handler {
	return hook.Handler{Command: "/opt/lazaret hook " + h.Name + " --data /d", Timeout: 25 * time.Second}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// tree returns every file of a folder with its mode.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		i, _ := d.Info()
		all[path] = i.Mode().String() + string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(a, b map[string]string) bool {
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return len(a) == len(b)
}

func apply(t *testing.T, cfg Config) {
	t.Helper()
	changes, err := Plan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := Apply(cfg, changes); err != nil {
		t.Fatal(err)
	}
}

func TestUndoRestoresEveryConfigurationByteForByte(t *testing.T) {
	cfg := setUp(t)
	before := tree(t, cfg.Home)
	if _, err := Plan(cfg); err != nil || !same(before, tree(t, cfg.Home)) {
		t.Fatalf("a plan changes files, %v", err)
	}
	apply(t, cfg)
	after := tree(t, cfg.Home)
	if same(before, after) {
		t.Fatal("nothing was changed")
	}
	apply(t, cfg)
	if !same(after, tree(t, cfg.Home)) {
		t.Error("a second time changes what the first one wrote")
	}
	if _, err := Undo(cfg); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, cfg.Home); !same(before, got) {
		t.Errorf("after undo:\n%v\nbefore:\n%v", got, before)
	}
	if done, err := Undo(cfg); err != nil || len(done) != 0 {
		t.Errorf("a second undo finds %v, %v", done, err)
	}
}

func TestEveryServerWithACommandIsStartedThroughLazaretAndTheRestOfTheFileStays(t *testing.T) {
	cfg := setUp(t)
	apply(t, cfg)
	found, err := Status(cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"files": "guarded npx -y @modelcontextprotocol/server-filesystem /home/ana/notes & <more>", "remote": "guarded https://mcp.example/mcp",
		"keyed": "remote the host signs in to it (headers)", "events": "remote lazaret mcp cannot reach it by sse",
		"closed": "remote https://closed.example/mcp", "signed": "remote the host signs in to it (bearer_token_env_var)",
		"g": "guarded https://mcp.example/g", "old": "remote lazaret mcp cannot reach it by sse",
		"/home/ana/shop: db": "guarded db-mcp", "docs": `guarded docs-server --root C:\docs`, "my server": "guarded run it",
		"bare": "guarded bare",
		"web":  "guarded https://mcp.example/mcp", "git": "guarded uvx", "time": "guarded uvx mcp-time",
	}
	for _, f := range found {
		if f.Error != "" || f.Host != "VS Code" && f.Hooks != "installed" {
			t.Errorf("%+v", f)
		}
		for _, m := range f.MCP {
			if got := m.State + " " + strings.Join(m.Command, " ") + m.URL + m.Why; got != want[m.Name] {
				t.Errorf("%s is %q, want %q", m.Name, got, want[m.Name])
			}
			delete(want, m.Name)
		}
	}
	if len(want) > 0 || len(found) != 5 {
		t.Errorf("%d hosts, not found: %v", len(found), want)
	}
	for file, keeps := range map[string][]string{
		".claude/settings.json": {"\n\t\"model\": \"opus\",\n", `"say done"`},
		".claude.json": {`"remote": {"type": "stdio", "command": "/opt/lazaret", "args": ["mcp", "--data", "/d", ` +
			`"--", "https://mcp.example/mcp"]}`, `"env":{"KEY":"s3cret"}`, `{"numStartups": 12, "mcpServers": {`, `"allowedTools": []`},
		".codex/config.toml": {"# my settings\nmodel = \"gpt-5\"   # the good one", "   # spaced",
			"command = \"/opt/lazaret\"\nargs = [\"mcp\", \"--data\", \"/d\", \"--\", " +
				"\"https://mcp.example/mcp\"] # far\nenabled = true",
			"env = { \"A\" = \"b\" }", "[profiles.x]\ncommand = \"not a server\"\n"},
		".codex/hooks.json":          {`"SessionStart"`, `/opt/lazaret hook codex --data /d`, `"timeout": 25`},
		".cursor/hooks.json":         {`{"command": "say done"},`, "// mine", `"failClosed": true`, `"beforeReadFile"`},
		".gemini/settings.json":      {"{\r\n  \"theme\": \"dark\",\r\n", `"BeforeTool"`, `"timeout": 25000`},
		".config/Code/User/mcp.json": {"// servers of mine", "// trailing commas"},
	} {
		b, err := os.ReadFile(filepath.Join(cfg.Home, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "settings.json") && !json.Valid(b) {
			t.Errorf("%s is not JSON: %s", file, b)
		}
		for _, k := range keeps {
			if !strings.Contains(string(b), k) {
				t.Errorf("%s lost %q:\n%s", file, k, b)
			}
		}
	}
}

func TestUndoOfAFileThatAHostChangedTakesOutOnlyWhatWasPutIn(t *testing.T) {
	cfg := setUp(t)
	apply(t, cfg)
	file := filepath.Join(cfg.Home, ".claude.json")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Replace(string(b), `"numStartups": 12`, `"numStartups": 13`, 1))
	apply(t, cfg) // nothing new to wire
	if _, err := Undo(cfg); err != nil {
		t.Fatal(err)
	}
	b, err = os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(b); !strings.Contains(s, `"numStartups": 13`) || strings.Contains(s, "lazaret") ||
		!strings.Contains(s, `"command":"npx"`) ||
		!strings.Contains(s, `"remote": {"type": "http", "url": "https://mcp.example/mcp"}`) {
		t.Errorf("%s", s)
	}
}

func TestWhatWasPutInIsTakenOutOfEveryKindOfFile(t *testing.T) {
	cfg := setUp(t)
	var files []string
	for _, h := range Hosts {
		for _, f := range h.MCP {
			if home[f.Path] != "" {
				files = append(files, filepath.Join(cfg.Home, f.Path))
			}
		}
	}
	before, err := Status(cfg)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, cfg)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, string(b)+"\n")
	}
	if _, err := Undo(cfg); err != nil {
		t.Fatal(err)
	}
	after, err := Status(cfg)
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("after: %+v, %v\nbefore: %+v", after, err, before)
	}
}

func TestAFileThatCannotBeReadIsNotTouchedAndIsNamed(t *testing.T) {
	cfg := setUp(t)
	write(t, filepath.Join(cfg.Home, ".cursor/mcp.json"), `{"mcpServers":{"a":{"command":"x"}`)
	write(t, filepath.Join(cfg.Home, ".codex/config.toml"), "mcp_servers = { a = { command = \"x\" } }\n")
	before := tree(t, cfg.Home)
	changes, err := Plan(cfg)
	if err == nil || !strings.Contains(err.Error(), "mcp.json") || !strings.Contains(err.Error(), "inline table") {
		t.Errorf("%v", err)
	}
	if err := Apply(cfg, changes); err != nil {
		t.Fatal(err)
	}
	after := tree(t, cfg.Home)
	for _, file := range []string{".cursor/mcp.json", ".codex/config.toml"} {
		if path := filepath.Join(cfg.Home, file); before[path] != after[path] {
			t.Errorf("%s is now %s", file, after[path])
		}
	}
	found, err := Status(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if (f.Host == "Cursor" || f.Host == "Codex") && f.Guarded() {
			t.Errorf("%s is taken for guarded", f.Host)
		}
	}
}

func TestHooksThatAreTurnedOffOrWeakenedDoNotGuard(t *testing.T) {
	cfg := setUp(t)
	apply(t, cfg)
	cfg.Folder = t.TempDir()
	state := func(host string) Found {
		t.Helper()
		all, err := Status(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if f.Host == host {
				return f
			}
		}
		t.Fatalf("no %s", host)
		return Found{}
	}
	local := filepath.Join(cfg.Folder, ".claude/settings.local.json")
	for file, text := range map[string]string{local: `{"disableAllHooks": true}`,
		filepath.Join(cfg.Folder, ".claude/settings.json"): `{"env": {"HOME": "/tmp/x"}}`} {
		write(t, file, text)
		if f := state("Claude Code"); f.Hooks != "changed" || f.Guarded() || f.File != file || f.Why == "" {
			t.Errorf("%s: %+v", text, f)
		}
		write(t, file, `{"model": "opus"}`)
		if f := state("Claude Code"); f.Hooks != "installed" {
			t.Errorf("%+v", f)
		}
	}
	// The hooks are only in the settings of the project. Status must report them as installed, with the file of the
	// project.
	home, project := filepath.Join(cfg.Home, ".claude/settings.json"), filepath.Join(cfg.Folder, ".claude/settings.json")
	b, err := os.ReadFile(home)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	write(t, project, text)
	write(t, home, "{}")
	if f := state("Claude Code"); f.Hooks != "installed" || f.File != project {
		t.Errorf("hooks of the project: %+v", f)
	}
	write(t, home, text)
	write(t, project, "{}")
	for _, x := range []struct{ host, file, old, by string }{
		{"Claude Code", ".claude/settings.json", `"timeout": 25`, `"timeout": 1`},
		{"Claude Code", ".claude/settings.json", `"timeout": 25`, `"timeout": 25, "async": true`},
		{"Claude Code", ".claude/settings.json", "/opt/lazaret hook", "true # /opt/lazaret hook"},
		{"Claude Code", ".claude/settings.json", "--data /d", "--data /d --fail-open"},
		{"Claude Code", ".claude/settings.json", `"PreToolUse"`, `"PreToolUsed"`},
		{"Codex", ".codex/hooks.json", "--data /d", "--data /e"},
		{"Cursor", ".cursor/hooks.json", `"failClosed": true`, `"failClosed": false`},
		{"Gemini CLI", ".gemini/settings.json", `"timeout": 25000`, `"timeout": 25`},
	} {
		file := filepath.Join(cfg.Home, x.file)
		b, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(b), x.old) {
			t.Fatalf("%s: %v, %s", x.file, err, b)
		}
		write(t, file, strings.Replace(string(b), x.old, x.by, 1))
		if f := state(x.host); f.Hooks != "changed" || f.Why == "" || f.Guarded() {
			t.Errorf("%s: %+v", x.by, f)
		}
		write(t, file, string(b))
		if f := state(x.host); f.Hooks != "installed" {
			t.Errorf("restored: %+v", f)
		}
	}
}
