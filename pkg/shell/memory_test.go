package shell

import "testing"

func TestMemoryFilesAreKnown(t *testing.T) {
	for file, want := range map[string]bool{
		"/home/ana/p/CLAUDE.md": true, "CLAUDE.local.md": true, "docs/AGENTS.md": true, "/home/ana/p/claude.MD": true,
		"/home/ana/.claude/projects/p/memory/notes.md": true, `C:\p\Memories\a.md`: true, ".cursorrules": true,
		"/p/.claude/agents/helper.md": true, "/p/.claude/skills/x/run.md": true, "/p/x/../.cursor/rules/a.mdc": true,
		"/p/.github/copilot-instructions.md": true, "/p/memory-bank/active.md": true,
		"/p/README.md": false, "/p/memory.go": false, "/p/src/memory_test.go": false, "/p/claude.md.txt": false,
		"/p/.claude/settings.json": false, "/p/internal/memory/store.go": false, "/p/src/memory/notes.txt": true,
	} {
		if got := IsMemoryFile(file); got != want {
			t.Errorf("%s: %v", file, got)
		}
	}
}
