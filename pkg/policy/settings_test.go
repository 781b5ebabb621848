package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// A tool that edits a file that programs run or read as settings has the level of the command line that does the same.
func TestEditsOfSettingsHaveTheLevelOfTheCommandThatDoesTheSame(t *testing.T) {
	p := shipped(t)
	class := func(tool, of string, args map[string]any) Class {
		b, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return p.Class(Call{Tool: tool, Of: of, Args: b, Project: "p", Agent: "a"})
	}
	for _, file := range []string{".claude/settings.json", "/home/ana/.claude/settings.json",
		"/home/ana/shop/.claude/settings.local.json", "a/../.Claude/hooks/pre.sh", `C:\p\.claude\settings.json`, ".codex/config.toml",
		".mcp.json", ".cursor/hooks.json", "/home/ana/.gemini/settings.json", ".github/workflows/ci.yml", ".git/hooks/pre-commit",
		".claude/worktrees/fix/.claude/settings.json", ".claude/agents/helper.md"} {
		bash := class("Bash", "claude-code", map[string]any{"command": "cp a '" + file + "'"})
		if bash.Level != beliefs.L4 || !bash.Has(EffectExec) {
			t.Errorf("cp to %s: %s", file, show(bash))
		}
		for _, x := range []struct {
			tool, of string
			args     map[string]any
		}{
			{"Write", "claude-code", map[string]any{"file_path": file, "content": "{}"}},
			{"Edit", "claude-code", map[string]any{"file_path": file, "old_string": "a", "new_string": "b"}},
			{"MultiEdit", "claude-code", map[string]any{"file_path": file, "edits": []any{}}},
			{"NotebookEdit", "claude-code", map[string]any{"notebook_path": file, "new_source": "b"}},
			{"apply_patch", "codex", map[string]any{"input": "*** Begin Patch\n*** Update File: " + file + "\n@@\n-a\n+b\n"}},
			{"apply_patch", "codex", map[string]any{"command": []any{"apply_patch", "*** Add File: a\n*** Move to: " + file}}},
			{"write_file", "gemini-cli", map[string]any{"file_path": file, "content": "{}"}},
			{"search_replace", "cursor", map[string]any{"file_path": file, "new_string": "{}"}},
			{"move_file", "", map[string]any{"source": "a", "destination": file}},
		} {
			got := class(x.tool, x.of, x.args)
			if got.Level != bash.Level || got.Floor != bash.Floor || got.Floor != streams.Hold || !got.Has(EffectExec) {
				t.Errorf("%s of %s: %s, and cp has %s", x.tool, file, show(got), show(bash))
			}
		}
	}
	for _, file := range []string{"main.go", "/home/ana/claude/settings.json", "docs/.claude.md", ".gitignore",
		"/home/ana/.claude/projects/shop/memory/notes.md", ".claude/worktrees/fix/main.go", ".claude/plans/next.md"} {
		for tool, of := range map[string]string{"Write": "claude-code", "write_file": "gemini-cli"} {
			got := class(tool, of, map[string]any{"file_path": file, "content": ".claude/settings.json"})
			if got.Level != beliefs.L3 {
				t.Errorf("%s of %s: %s", tool, file, show(got))
			}
		}
	}
	for _, name := range []string{"filePath", "newPath", "target"} {
		if got := class("write_file", "", map[string]any{name: ".claude/settings.json"}); got.Level != beliefs.L4 {
			t.Errorf("write_file by %s: %s", name, show(got))
		}
	}
	for tool, args := range map[string]map[string]any{"Read": {"file_path": ".claude/settings.json"},
		"Glob": {"path": ".claude"}} {
		if got := class(tool, "claude-code", args); got.Level != beliefs.L1 {
			t.Errorf("%s: %s", tool, show(got))
		}
	}
	if got := class("apply_patch", "codex", map[string]any{"input": strings.Repeat("*** Update File: a.go\n", 3)}); got.Level !=
		beliefs.L3 {
		t.Errorf("a patch of code: %s", show(got))
	}
}
