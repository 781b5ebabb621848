package hook

// Host is a coding agent with hooks: how its settings name them.
type Host struct {
	Name   string // of its command: lazaret hook NAME
	Title  string
	File   string   // settings, in the home folder or a project's
	Events []string // those that Install asks for
	Flat   bool     // an event's list holds the handlers themselves
	Millis bool     // the timeout is in milliseconds
}

// ClaudeCode is Claude Code: https://code.claude.com/docs/en/hooks.
var ClaudeCode = &Host{Name: "claude", Title: "Claude Code", File: ".claude/settings.json",
	Events: []string{SessionStart, SessionEnd, UserPromptSubmit, PreToolUse, PostToolUse, PostToolUseFailure}}

// Hosts are those that have a command.
var Hosts = []*Host{ClaudeCode}
