package gateway

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"

	"lazaret/internal/hook"
	"lazaret/streams"
)

// HookEvent is an event of a coding agent's hooks, in the host's own form. It has many
// more fields, by event.
type HookEvent struct {
	Session string `json:"session_id,omitzero"`
	Name    string `json:"hook_event_name"`
}

// HookAnswer is the answer in the host's own form: {} if there is none.
type HookAnswer struct {
	Decision string         `json:"decision,omitzero"`
	Reason   string         `json:"reason,omitzero"`
	Continue *bool          `json:"continue,omitzero"`
	Stop     string         `json:"stopReason,omitzero"`
	Specific map[string]any `json:"hookSpecificOutput,omitzero"`
	// The members of Cursor's answers.
	Permission string         `json:"permission,omitzero"`
	ToUser     string         `json:"user_message,omitzero"`
	ToAgent    string         `json:"agent_message,omitzero"`
	Output     map[string]any `json:"updated_mcp_tool_output,omitzero"`
}

// hooked answers an event of a host's hooks, as lazaret hook does. Files of the host are
// out of reach here: the settings keep a command for the events that need them.
func hooked(c *call) (any, error) {
	name := c.r.PathValue("host")
	host := hook.HostOf(name)
	if host == nil {
		return nil, problem(streams.CodeNotHere, "there are no hooks of %s", streams.Clip(strconv.Quote(name), 80))
	}
	e, err := host.Decode(c.body)
	if err != nil {
		return nil, problem(streams.CodeMalformed, "%v", err)
	}
	cfg := hook.Config{Project: c.s.project, Agent: c.s.agent,
		State: filepath.Join(c.g.cfg.Hooks, c.s.project, c.s.agent)}
	ctx, cancel := context.WithTimeout(c.ctx, answerTime)
	defer cancel()
	a, err := hook.Ask(ctx, cfg, c.s.client, host, e)
	if err != nil {
		a = hook.Refusal(e, err)
	}
	out, err := host.Encode(e, a)
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		out = []byte("{}")
	}
	return json.RawMessage(out), nil
}

// stopped is the answer to a hook whose event could not be read. A host takes any other
// status for an error that blocks nothing.
func stopped(err error) any {
	why := "Lazaret gives no verdict, so it counts as hold: " +
		streams.Clip(strings.ReplaceAll(problemOf(err).Detail, "\n", "; "), 800)
	return &HookAnswer{Continue: new(bool), Stop: why, Decision: "block", Reason: why, Permission: "deny"}
}
