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

// HookEvent is a hook event of a coding agent in the host's own format. Further fields depend on the
// event.
type HookEvent struct {
	Session string `json:"session_id,omitzero"`
	Name    string `json:"hook_event_name"`
}

// HookAnswer is the answer in the host's own format, or {} if there is nothing to say.
type HookAnswer struct {
	Decision string         `json:"decision,omitzero"`
	Reason   string         `json:"reason,omitzero"`
	Continue *bool          `json:"continue,omitzero"`
	Stop     string         `json:"stopReason,omitzero"`
	Specific map[string]any `json:"hookSpecificOutput,omitzero"`
	// The fields of Cursor's answers.
	Permission string         `json:"permission,omitzero"`
	ToUser     string         `json:"user_message,omitzero"`
	ToAgent    string         `json:"agent_message,omitzero"`
	Output     map[string]any `json:"updated_mcp_tool_output,omitzero"`
}

// hooked answers a hook event of a host, as the command lazaret hook does. The gateway cannot read the host's
// files. So the host's settings must pass events that need files to the command.
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
		a = hook.Refusal(e, c.explained(err))
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

// stopped is the blocking answer to a hook event that could not be processed. It has status 200,
// because a host treats any other status as an error that does not block.
func stopped(err error) any {
	why := "Lazaret gives no verdict, so it counts as hold: " +
		streams.Clip(strings.ReplaceAll(problemOf(err).Detail, "\n", "; "), 800)
	return &HookAnswer{Continue: new(bool), Stop: why, Decision: "block", Reason: why, Permission: "deny"}
}
