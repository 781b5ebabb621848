package hook

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Cursor describes Cursor: https://cursor.com/docs/hooks. With failClosed, a hook must answer every event that
// asks for permission. Cursor replaces only results of MCP servers. It passes the content of a file to the hook
// before the model reads it, and the hook can refuse it.
var Cursor = &Host{Name: "cursor", Title: "Cursor", File: ".cursor/hooks.json", Flat: true, Closed: true,
	Events: []string{"sessionStart", "sessionEnd", "beforeSubmitPrompt", "preToolUse", "postToolUse",
		"postToolUseFailure", "beforeReadFile", "subagentStop", "preCompact"},
	memory:    []string{"AGENTS.md", ".cursorrules"},
	Catalogue: "cursor", decode: decodeCursor, encode: encodeCursor}

var cursorEvents = map[string]string{"sessionStart": SessionStart, "sessionEnd": SessionEnd,
	"beforeSubmitPrompt": UserPromptSubmit, "preToolUse": PreToolUse, "postToolUse": PostToolUse,
	"postToolUseFailure": PostToolUseFailure, "beforeReadFile": fileRead, "subagentStop": SubagentStop,
	"preCompact": PreCompact}

// cursorTools maps tools of Cursor to the equivalent tools of Claude Code.
var cursorTools = map[string]string{"Shell": "Bash"}

// cursorEvent is an event with Cursor's field names.
type cursorEvent struct {
	Conversation string          `json:"conversation_id"`
	Session      string          `json:"session_id"`
	Name         string          `json:"hook_event_name"`
	Roots        []string        `json:"workspace_roots"`
	CWD          string          `json:"cwd"`
	Tool         string          `json:"tool_name"`
	Input        json.RawMessage `json:"tool_input"`
	Output       json.RawMessage `json:"tool_output"`
	Call         string          `json:"tool_use_id"`
	Error        string          `json:"error_message"`
	Prompt       string          `json:"prompt"`
	File         string          `json:"file_path"`
	Content      string          `json:"content"`
	Trigger      string          `json:"trigger"`
	Type         string          `json:"subagent_type"`
	Subagent     string          `json:"subagent_id"`
	Summary      string          `json:"summary"`
	Reason       string          `json:"reason"`
}

func decodeCursor(b []byte) (*Event, error) {
	c, err := read[cursorEvent](b)
	if err != nil {
		return nil, err
	}
	e := &Event{Session: cmp.Or(c.Conversation, c.Session), CWD: c.CWD, Name: c.Name, Tool: c.Tool,
		Input: unquoted(c.Input), Response: unquoted(c.Output), Call: c.Call, Error: c.Error, Prompt: c.Prompt, File: c.File,
		Trigger: c.Trigger, Reason: c.Reason, native: c.Name}
	if name, ok := cursorEvents[c.Name]; ok {
		e.Name = name
	}
	if e.CWD == "" && len(c.Roots) > 0 {
		e.CWD = c.Roots[0]
	}
	switch e.Name {
	case SubagentStop:
		e.Agent, e.AgentType, e.Last = c.Subagent, c.Type, c.Summary
	case fileRead:
		e.Tool, e.Response = "Read", asJSON(c.Content)
	}
	if e.mcp = strings.HasPrefix(e.Tool, "MCP:"); !e.mcp {
		e.as = cursorTools[e.Tool]
	}
	return e, nil
}

// unquoted returns the object or array that a JSON string contains, or v itself.
func unquoted(v json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(v, &text) != nil {
		return v
	}
	if inner := jsontext.Value(text); inner.IsValid() && (inner.Kind() == '{' || inner.Kind() == '[') {
		return json.RawMessage(text)
	}
	return v
}

func encodeCursor(e *Event, a *Answer) any {
	why, refused := a.refusal()
	switch e.Name {
	case PreToolUse, fileRead:
		if refused {
			return map[string]any{"permission": "deny", "user_message": why, "agent_message": why}
		}
		return map[string]any{"permission": "allow"}
	case UserPromptSubmit:
		if refused {
			return map[string]any{"continue": false, "user_message": why}
		}
		return map[string]any{"continue": true}
	case PostToolUse:
		if text, ok := a.output(); ok && e.mcp {
			return map[string]any{"updated_mcp_tool_output": map[string]any{"content": []any{
				map[string]any{"type": "text", "text": text}}}}
		}
	}
	return map[string]any{}
}
