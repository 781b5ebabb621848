package hook

import (
	"path"
	"strings"
)

// memoryFiles are names of files that coding agents read into their context at
// every start, in lower case: the agents' documentation names them.
var memoryFiles = map[string]bool{
	"claude.md": true, "claude.local.md": true, "agents.md": true, "agents.override.md": true, "agent.md": true,
	"gemini.md": true, "memory.md": true, "copilot-instructions.md": true, "skill.md": true,
	".cursorrules": true, ".windsurfrules": true, ".clinerules": true, ".goosehints": true, ".rules": true,
}

// memoryFolders are folders whose files are read so, wherever they lie.
var memoryFolders = []string{"memory", "memories", "memory-bank", ".clinerules"}

// memoryParts are folders of agents' own, of which these parts are read.
var memoryParts = []string{
	"/.claude/agents/", "/.claude/commands/", "/.claude/skills/", "/.claude/rules/", "/.claude/output-styles/",
	"/.cursor/rules/", "/.windsurf/rules/", "/.github/instructions/", "/.codex/prompts/", "/.agents/skills/",
}

// IsMemoryFile says whether an agent reads a file as its memory. Letter case
// makes no difference, since it does not on every file system.
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
	for _, dir := range strings.Split(path.Dir(p), "/") {
		for _, m := range memoryFolders {
			if dir == m {
				return true
			}
		}
	}
	return false
}

// memoryInCommand is the first memory file that a command line names; empty if
// it names none. It does not know whether the command writes: naming one is
// enough to be looked at.
func memoryInCommand(command string) string {
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\r\n'\"`;|&<>()=,:{}", r) })
	for _, w := range words {
		if IsMemoryFile(w) && strings.ContainsAny(w, "./") {
			return w
		}
	}
	return ""
}

// changes says whether a command line may write at all: one that only reads a
// memory file is no write to it.
func changes(command string) bool {
	if strings.ContainsAny(command, ">`") || strings.Contains(command, "$(") {
		return true
	}
	for _, part := range strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(";|&\n", r) }) {
		f := strings.Fields(part)
		if len(f) > 0 && !readers[path.Base(f[0])] {
			return true
		}
	}
	return false
}

// readers are commands that write nothing by themselves.
var readers = map[string]bool{"cat": true, "head": true, "tail": true, "less": true, "more": true, "grep": true,
	"rg": true, "wc": true, "ls": true,
	"stat": true, "file": true, "diff": true, "cmp": true, "cd": true, "pwd": true, "echo": true, "nl": true,
	"md5sum": true, "sha256sum": true}
