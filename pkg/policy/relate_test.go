package policy

import (
	"testing"

	"lazaret/pkg/intent"
)

// The name of a shell tool asks for none of its lines, whatever the argument with the line is called and whichever JSON
// type it has.
func TestPromiseTheNameOfAShellToolAsksForNoLine(t *testing.T) {
	const shell, command = "Use bash to list the files.", "Run a shell command that lists the files on the server."
	for _, x := range []struct {
		said, tool string
		args       map[string]any
	}{
		{shell, "bash", map[string]any{"command": "rm -rf x"}},
		{shell, "bash", map[string]any{"command": []any{"rm", "-rf", "x"}}},
		{shell, "bash", map[string]any{"cmd": "rm -rf x"}},
		{shell, "bash", map[string]any{"input": "rm -rf x"}},
		{shell, "bash", map[string]any{"input": map[string]any{"command": "rm -rf x"}}},
		{command, "run_shell_command", map[string]any{"command": "rm -rf x"}},
		{command, "run_shell_command", map[string]any{"command": []any{"rm", "-rf", "x"}}},
		{command, "run_shell_command", map[string]any{"script": "rm -rf x"}},
		{command, "run_command", map[string]any{"commandLine": "rm -rf x"}},
		{command, "mcp__term2__run_command", map[string]any{"command": "rm -rf x"}},
		{command, "container.run_command", map[string]any{"command": "rm -rf x"}},
		{command, "server_run_command", map[string]any{"command": "rm -rf x"}},
		{command, "server_list_files", map[string]any{"command": "rm -rf x"}},
		{command, "list_files", map[string]any{"run": map[string]any{"cmd": []any{"rm", "x"}}}},
	} {
		var s intent.Said
		s.Add(x.said)
		if r := Relate(&s, x.tool, x.args, nil); r != nil && r.Asked {
			t.Errorf("%q asks for %s %v", x.said, x.tool, x.args)
		}
	}
	for _, x := range []struct {
		said, tool string
		args       map[string]any
	}{
		{"Please run `make deploy`.", "Bash", map[string]any{"command": "make deploy", "description": "deploy"}},
		{"List the files.", "list_files", map[string]any{"command": "view"}},
		{"List the files.", "list_files", map[string]any{"path": "src"}},
	} {
		var s intent.Said
		s.Add(x.said)
		if r := Relate(&s, x.tool, x.args, nil); r == nil || !r.Asked {
			t.Errorf("%q does not ask for %s %v", x.said, x.tool, x.args)
		}
	}
}
