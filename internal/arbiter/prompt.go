package arbiter

import (
	"fmt"
	"time"

	"lazaret/pkg/approval"
	"lazaret/streams"
)

// rulePrompt is the rule of the alert about a session whose prompt is not the registered one.
const rulePrompt = "prompt-differs"

// approvedPrompt returns the prompt that an approval registers, or nil if the hold is not about a prompt.
func approvedPrompt(h *hold, s *approval.Signed) (*streams.ApprovedPrompt, error) {
	if h.Entry.Tool != streams.RegisterPrompt || h.Entry.Type != streams.TypeAction || s.Decision != approval.Approve {
		return nil, nil
	}
	args := new(streams.RegisterPromptArgs)
	err := streams.Unmarshal([]byte(h.Body), args)
	if err == nil {
		err = args.Check()
	}
	if err != nil {
		return nil, &approval.Error{Check: approval.CheckAction, Text: fmt.Sprintf("it registers no prompt: %v", err)}
	}
	return &streams.ApprovedPrompt{Name: args.Name, Digest: args.Digest}, nil
}

func promptAlert(seq uint64, project string, s *streams.SessionEntry, now time.Time) streams.Alert {
	a := newAlert(rulePrompt, "high", project, seq, streams.AlertSubject{Kind: "session", ID: s.Session}, now)
	a.Agent, a.Session, a.Events = s.Agent, s.Session, []string{s.ID}
	a.Message = "the session runs a prompt that nobody approved: " + s.PromptDiffers
	a.Detail = map[string]any{"prompt": s.Prompt, "digest": s.PromptDigest, "entry": fmt.Sprint(seq)}
	return a
}
