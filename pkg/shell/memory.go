package shell

import (
	"path"
	"strings"
)

// memoryFiles are the lower-case names of files that coding agents load into their context at every
// start, according to their documentation.
var memoryFiles = map[string]bool{
	"claude.md": true, "claude.local.md": true, "agents.md": true, "agents.override.md": true, "agent.md": true,
	"gemini.md": true, "memory.md": true, "copilot-instructions.md": true, "skill.md": true,
	".cursorrules": true, ".windsurfrules": true, ".clinerules": true, ".goosehints": true, ".rules": true,
}

// sourceCode are the endings of source code. A file with such an ending does not count as memory in one of
// memoryFolders, because a package may be called memory.
var sourceCode = map[string]bool{".c": true, ".cc": true, ".cpp": true, ".cs": true, ".css": true,
	".go": true, ".h": true, ".hpp": true, ".html": true, ".java": true, ".js": true, ".jsx": true,
	".kt": true, ".mjs": true, ".php": true,
	".proto": true, ".py": true, ".rb": true, ".rs": true, ".scala": true, ".sql": true, ".swift": true, ".ts": true,
	".tsx": true, ".zig": true}

// memoryFolders are names of folders. An agent loads the files in such a folder into its context at every start, except
// source code. The folder may be anywhere in a path.
var memoryFolders = []string{"memory", "memories", "memory-bank", ".clinerules"}

// memoryParts are parts of paths inside the agents' own folders. An agent loads the files there into its context at
// every start.
var memoryParts = []string{
	"/.claude/agents/", "/.claude/commands/", "/.claude/skills/", "/.claude/rules/", "/.claude/output-styles/",
	"/.cursor/rules/", "/.windsurf/rules/", "/.github/instructions/", "/.codex/prompts/", "/.agents/skills/",
}

// IsMemoryFile reports whether an agent loads a file into its context at every start, as its memory. It ignores letter
// case, because some file systems do.
func IsMemoryFile(file string) bool {
	p := strings.ToLower(path.Clean("/" + strings.ReplaceAll(file, `\`, "/")))
	if memoryFiles[path.Base(p)] {
		return true
	}
	for _, part := range memoryParts {
		if strings.Contains(p, part) {
			return true
		}
	}
	if sourceCode[path.Ext(p)] {
		return false
	}
	for _, dir := range strings.Split(path.Dir(p), "/") {
		for _, m := range memoryFolders {
			if dir == m {
				return true
			}
		}
	}
	return false
}
