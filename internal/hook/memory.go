package hook

import (
	"cmp"
	"encoding/json"
	"path"
	"path/filepath"
	"strings"

	"lazaret/internal/content"
	"lazaret/pkg/shell"
	"lazaret/streams"
)

// memoryFiles are the lower-case names of files that coding agents load into their context at every
// start, according to their documentation.
var memoryFiles = map[string]bool{
	"claude.md": true, "claude.local.md": true, "agents.md": true, "agents.override.md": true, "agent.md": true,
	"gemini.md": true, "memory.md": true, "copilot-instructions.md": true, "skill.md": true,
	".cursorrules": true, ".windsurfrules": true, ".clinerules": true, ".goosehints": true, ".rules": true,
}

// memoryFolders are folders, anywhere in a path, whose files are loaded the same way.
var memoryFolders = []string{"memory", "memories", "memory-bank", ".clinerules"}

// memoryParts are parts of the paths of agents' own folders whose files are loaded the same way.
var memoryParts = []string{
	"/.claude/agents/", "/.claude/commands/", "/.claude/skills/", "/.claude/rules/", "/.claude/output-styles/",
	"/.cursor/rules/", "/.windsurf/rules/", "/.github/instructions/", "/.codex/prompts/", "/.agents/skills/",
}

// IsMemoryFile reports whether an agent loads a file as its memory. It ignores letter case, as some
// file systems do.
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

// memoryInCommand returns the first memory file that a command line names, or "". It does not check
// whether the command writes to it.
func memoryInCommand(command string) string {
	words := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(" \t\r\n'\"`;|&<>()=,:{}", r) })
	for _, w := range words {
		if IsMemoryFile(w) && strings.ContainsAny(w, "./") {
			return w
		}
	}
	return ""
}

// memory returns the memory write that a call makes, or nil.
func (h *handler) memory() *streams.Memory {
	file, words := h.memoryWritten()
	if file == "" {
		return nil
	}
	return &streams.Memory{Head: h.head(""), Key: h.fileKey(file), Content: cmp.Or(words, "(emptied)"),
		Category: "instructions", Source: "tool:" + h.e.Tool}
}

// memoryWritten returns the memory file that a call writes and the new text; file is "" if there is
// none.
func (h *handler) memoryWritten() (file, words string) {
	in := h.input()
	switch h.e.tool() {
	case "Write", "Edit", "MultiEdit", "NotebookEdit":
		file = cmp.Or(in.File, in.Notebook)
		parts := []string{in.Content, in.New, in.Source}
		for _, e := range in.Edits {
			parts = append(parts, e.New)
		}
		words = strings.Join(nonEmpty(parts), "\n")
	case "Bash":
		if file = memoryInCommand(in.Command); !shell.Writes(in.Command) {
			return "", ""
		}
		return file, in.Command
	case "apply_patch": // Codex
		words = strings.Join(content.Strings(h.e.Input), "\n")
		for _, f := range shell.Patched(words) {
			if IsMemoryFile(f) {
				return f, words
			}
		}
		return "", ""
	case "Memory": // Gemini CLI adds a fact to its memory file
		return "GEMINI.md", in.Fact
	case "Read", "Grep", "Glob", "LS", "NotebookRead":
		return "", ""
	default: // an editing tool whose name is not known here
		if h.e.native == "" || h.e.mcp {
			return "", ""
		}
		file, words = in.File, strings.Join(content.Strings(h.e.Input), "\n")
	}
	if !IsMemoryFile(file) {
		return "", ""
	}
	return file, words
}

// fileKey returns the memory key of a file.
func (h *handler) fileKey(file string) string {
	rel, err := filepath.Rel(h.e.CWD, file)
	if err == nil && filepath.IsAbs(file) && !strings.HasPrefix(rel, "..") {
		file = rel
	}
	return "file:" + streams.Clip(filepath.ToSlash(file), 900)
}

func nonEmpty(in []string) (out []string) {
	for _, s := range in {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// input has the fields of tool inputs that name a source or destination.
type input struct {
	File, Notebook, URL, Query, Command, Content, New, Source, Fact string

	Edits []struct {
		New string `json:"new_string"`
	}
}

func (h *handler) input() (in input) {
	// Tools have inputs of many shapes. A field of an unexpected type counts as missing.
	var raw map[string]json.RawMessage
	if json.Unmarshal(h.e.Input, &raw) != nil {
		return in
	}
	for _, f := range []struct {
		to    *string
		names []string
	}{
		{&in.File, []string{"file_path", "absolute_path", "target_file", "path"}}, {&in.Notebook, []string{"notebook_path"}},
		{&in.URL, []string{"url"}}, {&in.Query, []string{"query"}}, {&in.Command, []string{"command"}},
		{&in.Content, []string{"content", "contents"}}, {&in.New, []string{"new_string"}},
		{&in.Source, []string{"new_source"}}, {&in.Fact, []string{"fact"}},
	} {
		for _, name := range f.names {
			if *f.to == "" {
				_ = json.Unmarshal(raw[name], f.to)
			}
		}
	}
	_ = json.Unmarshal(raw["edits"], &in.Edits)
	return in
}
