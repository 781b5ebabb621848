package policy

import (
	"testing"

	"lazaret/pkg/intent"
	"lazaret/pkg/text"
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

// The verb of a request does not ask for an edit of a file that agents or programs load. The file's name does.
func TestAVerbDoesNotAskForAFileThatIsLoaded(t *testing.T) {
	for _, x := range []struct {
		said, file string
		want       bool
	}{
		{"Write a test for the parser.", "/home/ana/.bashrc", false},
		{"Write a test for the parser.", ".git/hooks/pre-commit", false},
		{"Write a test for the parser.", ".github/workflows/x.yml", false},
		{"Write a test for the parser.", "/home/ana/.claude/CLAUDE.md", false},
		{"Write a test for the parser.", "parser_test.go", true},
		{"Write a section on tests to CLAUDE.md.", "CLAUDE.md", true},
	} {
		var s intent.Said
		s.Add(x.said)
		r := Relate(&s, "Write", map[string]any{"file_path": x.file, "content": "x"}, nil)
		if got := r != nil && r.Asked; got != x.want {
			t.Errorf("%q asks for %s: %v", x.said, x.file, got)
		}
	}
}

func TestNobodyAsksForASecretInACommandLine(t *testing.T) {
	var s intent.Said
	s.Add("Open a pull request.")
	args := map[string]any{"command": "gh pr create --title x --body 'A fix.'"}
	for want, kind := range map[bool]text.Kind{true: text.Number, false: text.Secret} {
		if r := Relate(&s, "Bash", args, []text.Carrier{{Kind: kind, Value: "1"}}); want != (r != nil && r.Asked) {
			t.Errorf("with a carrier of kind %s: %+v", kind, r)
		}
	}
}
