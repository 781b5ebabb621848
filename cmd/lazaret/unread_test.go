package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A misspelled name in JSON that a person wrote has no effect, so the command says that it does not know the name.
func TestANameThatACommandDoesNotKnowInJSONIsNoted(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	servers := write("servers.json", `{"mcpServers":{"files":{"command":"true","arg":["x"]}},"inputs":[]}`)
	known := write("known.json", `{"mcpServers":{"files":{"type":"stdio","command":"true","args":["x"],"env":{"A":"b"}}}}`)
	session := write("session.jsonl", `{"session_id":"s","steps":[{"kind":"user","content":"hello","tol":"x"}],"sume":1}`)
	line := write("line.jsonl", `{"id":"l","content":"hello","tool":"web.fetch"}`)
	nowhere := []string{"--server", "nats://127.0.0.1:1", "--data", dir}
	open := []string{"--listen", "0.0.0.0:0", "--data", dir} // refused without a certificate
	for _, c := range []struct {
		args []string
		want []string // names; none: there is no note
	}{
		{append([]string{"mcp", "serve", "--config", servers}, open...), []string{`"mcpServers.files.arg"`, `"inputs"`}},
		{append([]string{"mcp", "serve", "--config", known}, open...), nil},
		{append([]string{"replay", session}, nowhere...), []string{`"steps.tol"`, `"sume"`}},
		{append([]string{"replay", line}, nowhere...), nil},
		{[]string{"policy", "explain", "get_x", "--annotations", `{"readOnlyHit":false}`}, []string{`"readOnlyHit"`}},
		{[]string{"policy", "explain", "get_x", "--annotations", `{"readOnlyHint":true,"title":"x"}`}, nil},
	} {
		out, _ := command(t, "", c.args...)
		if noted := strings.Contains(out, "NOTE: "); noted != (c.want != nil) {
			t.Errorf("%v: the output has a note: %v: %s", c.args, noted, out)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not name %s: %s", c.args, want, out)
			}
		}
	}
}
