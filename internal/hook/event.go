package hook

import (
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/content"
	"lazaret/streams"
)

// Event is one event of a host, in the names of Claude Code. Other hosts' events are
// translated into it.
type Event struct {
	Session   string          `json:"session_id"`
	Agent     string          `json:"agent_id"` // of a subagent; empty: the session's own agent
	AgentType string          `json:"agent_type"`
	CWD       string          `json:"cwd"`
	Name      string          `json:"hook_event_name"`
	Tool      string          `json:"tool_name"`
	Input     json.RawMessage `json:"tool_input"`
	Response  json.RawMessage `json:"tool_response"`
	Call      string          `json:"tool_use_id"`
	Error     string          `json:"error"`
	Prompt    string          `json:"prompt"`
	Source    string          `json:"source"`
	Reason    string          `json:"reason"`
	File      string          `json:"file_path"`
	Trigger   string          `json:"trigger"` // of a compaction: manual, auto
	Summary   string          `json:"compact_summary"`
	Server    string          `json:"mcp_server_name"`
	Message   string          `json:"message"` // of a server, to the user
	Last      string          `json:"last_assistant_message"`
	TaskID    string          `json:"task_id"`
	Task      string          `json:"task_subject"`
	TaskText  string          `json:"task_description"`

	native string // the host's own name of the event, where it has another one
	as     string // Claude Code's tool that does the same, where it has another name
	mcp    bool   // the tool is of an MCP server
}

// The events that are answered; others pass.
const (
	SessionStart        = "SessionStart"
	SessionEnd          = "SessionEnd"
	UserPromptSubmit    = "UserPromptSubmit"
	UserPromptExpansion = "UserPromptExpansion"
	PreToolUse          = "PreToolUse"
	PostToolUse         = "PostToolUse"
	PostToolUseFailure  = "PostToolUseFailure"
	PostToolBatch       = "PostToolBatch"
	PermissionDenied    = "PermissionDenied"
	SubagentStop        = "SubagentStop"
	TaskCreated         = "TaskCreated"
	PreCompact          = "PreCompact"
	PostCompact         = "PostCompact"
	InstructionsLoaded  = "InstructionsLoaded"
	FileChanged         = "FileChanged"
	ConfigChange        = "ConfigChange"
	Elicitation         = "Elicitation"

	// fileRead is no event of Claude Code: the content of a file before the model sees it.
	fileRead = "FileRead"
)

// tool is the name of Claude Code's tool that does what the event's tool does.
func (e *Event) tool() string {
	if e.as != "" {
		return e.as
	}
	return e.Tool
}

// Answer is the answer to an event, in the form of Claude Code; nil is none.
type Answer struct {
	Decision string    `json:"decision,omitzero"` // block stops what the event is about
	Reason   string    `json:"reason,omitzero"`
	Specific *Specific `json:"hookSpecificOutput,omitempty"`
}

// Specific is the part of an answer that belongs to its event.
type Specific struct {
	Event    string          `json:"hookEventName"`
	Decision string          `json:"permissionDecision,omitzero"` // allow, deny, ask
	Reason   string          `json:"permissionDecisionReason,omitzero"`
	Output   json.RawMessage `json:"updatedToolOutput,omitzero"` // takes the place of what a tool returned

	text string // the same as plain text
}

// Blocks reports whether a failure to record the event has to block it. The end of a
// subagent goes on: its record is kept, and the next call waits for it.
func (e *Event) Blocks() bool { return e.Name != SubagentStop }

// Refusal is the answer to an event that could not be recorded or judged, for hosts that
// read no exit code.
func Refusal(e *Event, err error) *Answer {
	why := "no verdict, so it counts as hold: " + streams.Clip(strings.ReplaceAll(err.Error(), "\n", "; "), 800)
	switch e.Name {
	case PreToolUse:
		return &Answer{Specific: &Specific{Event: PreToolUse, Decision: "deny", Reason: "Lazaret gives " + why}}
	case PostToolUse:
		return Withheld(e, err)
	}
	if !e.Blocks() {
		return nil
	}
	return &Answer{Decision: "block", Reason: "Lazaret gives " + why}
}

// Withheld is the answer that keeps from the model what a tool returned, since it could
// not be recorded.
func Withheld(e *Event, err error) *Answer {
	why := streams.Clip(strings.ReplaceAll(err.Error(), "\n", "; "), 800)
	notice := "Lazaret withheld what this tool returned, since it could not be recorded: " + why
	return &Answer{Specific: &Specific{Event: PostToolUse, Output: e.replaced(notice), text: notice}}
}

// replaced is the event's result with a notice in the place of every text. Claude Code
// ignores a replacement that does not have the form of the tool's own results.
func (e *Event) replaced(notice string) json.RawMessage {
	switch kind := jsontext.Value(e.Response).Kind(); {
	case !e.mcp && kind == '{' || !e.mcp && kind == '[':
		return mapped(e.Response, func(string) string { return notice })
	case kind == '[':
		return asJSON([]any{map[string]any{"type": "text", "text": notice}})
	case kind == '{':
		return asJSON(map[string]any{"content": []any{map[string]any{"type": "text", "text": notice}}})
	}
	return asJSON(notice)
}

// mapped is a JSON value with every text in it changed, except those that say which form
// a value has.
func mapped(raw json.RawMessage, change func(string) string) json.RawMessage {
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return asJSON(change(string(raw)))
	}
	return asJSON(mapValue("", v, change))
}

// forms are the names under which results say which form they have.
var forms = map[string]bool{"type": true, "status": true, "mode": true}

func mapValue(name string, v any, change func(string) string) any {
	switch v := v.(type) {
	case string:
		if forms[name] && len(v) <= 24 && content.Identifier(v) {
			return v
		}
		return change(v)
	case []any:
		for i := range v {
			v[i] = mapValue(name, v[i], change)
		}
	case map[string]any:
		for k := range v {
			v[k] = mapValue(k, v[k], change)
		}
	}
	return v
}

func asJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was made of JSON
	}
	return b
}
