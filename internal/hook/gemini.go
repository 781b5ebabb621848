package hook

import (
	"encoding/json"
)

// Gemini describes Gemini CLI: https://geminicli.com/docs/hooks/reference. An exit code of 2 or more
// blocks, and so does {"decision": "deny"}. Calls have no id.
var Gemini = &Host{Name: "gemini", Title: "Gemini CLI", File: ".gemini/settings.json", Millis: true, Asks: true,
	Events:    []string{"SessionStart", "SessionEnd", "BeforeAgent", "BeforeTool", "AfterTool", "PreCompress"},
	memory:    []string{"GEMINI.md", "~/.gemini/GEMINI.md"},
	Catalogue: "gemini-cli", decode: decodeGemini, encode: encodeGemini}

var geminiEvents = map[string]string{"BeforeAgent": UserPromptSubmit, "BeforeTool": PreToolUse,
	"AfterTool": PostToolUse, "PreCompress": PreCompact}

// geminiTools maps tools of Gemini CLI to the equivalent tools of Claude Code.
var geminiTools = map[string]string{"run_shell_command": "Bash", "read_file": "Read", "read_many_files": "Read",
	"search_file_content": "Grep", "grep_search": "Grep", "write_file": "Write", "replace": "Edit",
	"web_fetch": "WebFetch", "google_web_search": "WebSearch", "save_memory": "Memory"}

// geminiEvent is an event with the fields that Claude Code's events lack.
type geminiEvent struct {
	Event
	MCP json.RawMessage `json:"mcp_context"`
}

func decodeGemini(b []byte) (*Event, error) {
	g, err := read[geminiEvent](b)
	if err != nil {
		return nil, err
	}
	e := &g.Event
	e.native, e.mcp = e.Name, len(g.MCP) > 0 && string(g.MCP) != "null"
	if name, ok := geminiEvents[e.Name]; ok {
		e.Name = name
	}
	if !e.mcp {
		e.as = geminiTools[e.Tool]
	}
	var failed struct {
		Error json.RawMessage `json:"error"`
	}
	if e.Name == PostToolUse && json.Unmarshal(e.Response, &failed) == nil && len(failed.Error) > 0 &&
		string(failed.Error) != "null" {
		e.Name = PostToolUseFailure
	}
	return e, nil
}

func encodeGemini(e *Event, a *Answer) any {
	if text, ok := a.output(); ok {
		return map[string]any{"decision": "deny", "reason": text}
	}
	if a != nil && a.Specific != nil && a.Specific.Decision != "" {
		return map[string]any{"decision": a.Specific.Decision, "reason": a.Specific.Reason}
	}
	if why, ok := a.refusal(); ok {
		return map[string]any{"decision": "deny", "reason": why}
	}
	return nil
}
