package hook

import (
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/content"
	"lazaret/streams"
)

// Event is a hook event with Claude Code's field names. Events of other hosts are translated into it.
type Event struct {
	Session   string          `json:"session_id"`
	Agent     string          `json:"agent_id"` // set for a subagent; empty for the main agent
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
	Trigger   string          `json:"trigger"` // cause of a compaction: manual or auto
	Summary   string          `json:"compact_summary"`
	Server    string          `json:"mcp_server_name"`
	Message   string          `json:"message"` // text of an MCP server for the user
	Last      string          `json:"last_assistant_message"`
	TaskID    string          `json:"task_id"`
	Task      string          `json:"task_subject"`
	TaskText  string          `json:"task_description"`

	native string // the host's own event name, if it differs
	as     string // the equivalent tool of Claude Code, if it has another name
	mcp    bool   // the tool belongs to an MCP server
}

// The events that are handled; all others are ignored.
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

	// fileRead does not exist in Claude Code. It carries the content of a file before the model reads
	// it.
	fileRead = "FileRead"
)

// handled are the events above that Claude Code has.
var handled = []string{SessionStart, SessionEnd, UserPromptSubmit, UserPromptExpansion, PreToolUse, PermissionDenied,
	PostToolUse, PostToolUseFailure, PostToolBatch, SubagentStop, TaskCreated, PreCompact, PostCompact,
	InstructionsLoaded, FileChanged, ConfigChange, Elicitation}

// tool returns the name of the equivalent tool of Claude Code.
func (e *Event) tool() string {
	if e.as != "" {
		return e.as
	}
	return e.Tool
}

// Answer is the answer to an event in the format of Claude Code; nil means no answer.
type Answer struct {
	Decision string    `json:"decision,omitzero"` // "block" stops the event
	Reason   string    `json:"reason,omitzero"`
	Specific *Specific `json:"hookSpecificOutput,omitempty"`
}

// Specific is the part of an answer that depends on the event.
type Specific struct {
	Event    string          `json:"hookEventName"`
	Decision string          `json:"permissionDecision,omitzero"` // allow, deny, ask
	Reason   string          `json:"permissionDecisionReason,omitzero"`
	Output   json.RawMessage `json:"updatedToolOutput,omitzero"` // replaces the tool's result

	text string // Output as plain text
}

// Blocks reports whether a failure to record the event must block it. It returns false for the end of a
// subagent: the record is spooled, and the next call waits until it is sent.
func (e *Event) Blocks() bool { return e.Name != SubagentStop }

// Refusal returns the blocking answer to an event that could not be recorded or judged. It is for hosts that
// ignore the exit code.
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

// Withheld returns an answer that replaces a tool's result with a notice, because the result could not
// be recorded.
func Withheld(e *Event, err error) *Answer {
	why := streams.Clip(strings.ReplaceAll(err.Error(), "\n", "; "), 800)
	notice := "Lazaret withheld what this tool returned, since it could not be recorded: " + why
	return &Answer{Specific: &Specific{Event: PostToolUse, Output: e.replaced(notice), text: notice}}
}

// replaced returns the event's result with every string replaced by notice. Claude Code ignores a
// replacement that does not have the structure of the tool's own results.
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

// mapped applies change to every string of a JSON value, except the strings that select the variant of
// a structure, such as its type.
func mapped(raw json.RawMessage, change func(string) string) json.RawMessage {
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return asJSON(change(string(raw)))
	}
	return asJSON(mapValue("", v, change))
}

// forms are the names of the fields that select the variant of a structure.
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
		panic(err) // cannot happen: the value was parsed from JSON
	}
	return b
}
