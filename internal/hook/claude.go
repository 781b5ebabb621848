package hook

import "strings"

// OwnTools is the name by which policies refer to the built-in tools of Claude Code.
const OwnTools = "claude-code"

// ClaudeCode describes Claude Code: https://code.claude.com/docs/en/hooks.
var ClaudeCode = &Host{Name: "claude", Title: "Claude Code", File: ".claude/settings.json",
	Events: handled,
	// The matcher of FileChanged lists the files to watch.
	Matchers: map[string]string{FileChanged: "CLAUDE.md|CLAUDE.local.md|AGENTS.md|MEMORY.md"},
	HTTP:     true, Replaces: true, Asks: true, Catalogue: OwnTools, off: "disableAllHooks",
	local: []string{".claude/settings.local.json"},
	managed: map[string]string{"linux": "/etc/claude-code", "darwin": "/Library/Application Support/ClaudeCode",
		"windows": `C:\Program Files\ClaudeCode`},
	decode: func(b []byte) (*Event, error) {
		e, err := read[Event](b)
		if err != nil {
			return nil, err
		}
		e.mcp = strings.HasPrefix(e.Tool, "mcp__")
		return e, nil
	},
	encode: func(_ *Event, a *Answer) any {
		if a == nil {
			return nil
		}
		return a
	},
}
