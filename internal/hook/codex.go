package hook

import "strings"

// Codex describes OpenAI's Codex: https://developers.openai.com/codex/hooks. It uses Claude Code's names of
// events and fields. It does not know the decision "ask", and treats "allow" as an error. If a hook blocks a
// result, Codex shows the model the hook's reason in place of the result.
var Codex = &Host{Name: "codex", Title: "Codex", File: ".codex/hooks.json",
	Events: []string{SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, SubagentStop, PreCompact, PostCompact},
	Note:   "Codex runs a new hook only after you have accepted it: type /hooks there",
	memory: []string{"AGENTS.md", "AGENTS.override.md", "~/.codex/AGENTS.md"}, Catalogue: "codex",
	decode: func(b []byte) (*Event, error) {
		e, err := read[Event](b)
		if err != nil {
			return nil, err
		}
		e.mcp = strings.HasPrefix(e.Tool, "mcp__")
		return e, nil
	},
	encode: func(e *Event, a *Answer) any {
		if text, ok := a.output(); ok {
			return &Answer{Decision: "block", Reason: text}
		}
		why, ok := a.refusal()
		switch {
		case !ok:
			return nil
		case e.Name == PreToolUse:
			return &Answer{Specific: &Specific{Event: PreToolUse, Decision: "deny", Reason: why}}
		case e.Name == PreCompact || e.Name == PostCompact:
			return map[string]any{"continue": false, "stopReason": why}
		}
		return &Answer{Decision: "block", Reason: why}
	},
}
