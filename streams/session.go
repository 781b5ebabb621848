package streams

// KindSession is the kind of an event that reports the start or end of a session. TypeSession is the type of the
// entries for such events.
const (
	KindSession Kind = "session"
	TypeSession Type = "session"
)

func init() {
	register[Session](EventKind{
		Kind: KindSession, Type: TypeSession, Order: 5,
		Required: []string{"session", "phase"},
		Fields:   "`phase`: start or end; after a start, earlier rejected observations no longer hold the agent's actions",
	})
}

// Session (kind session) marks the start or end of a session.
type Session struct {
	Head
	Phase string `json:"phase"` // "start" or "end"
	// Prompt names the version of the system prompt that the session runs: NAME@VERSION, or NAME for the latest
	// version. PromptDigest is the Digest of the prompt's text. If no such prompt is registered, Prompt may be any
	// text.
	Prompt       string `json:"prompt,omitzero"`
	PromptDigest string `json:"prompt_digest,omitzero"`
}

func (e *Session) check(a Address) error {
	if e.Session == "" {
		return rejectf(CodeInvalid, "a session event needs a session")
	}
	if e.Phase != "start" && e.Phase != "end" {
		return rejectf(CodeInvalid, "phase is %q, use start or end", clip(e.Phase))
	}
	if e.PromptDigest != "" && !validDigest(e.PromptDigest) {
		return rejectf(CodeInvalid, "prompt_digest is %q, use sha256: and 64 hex digits", clip(e.PromptDigest))
	}
	return nil
}

// SessionEntry is the body of a session's start or end.
type SessionEntry struct {
	EntryHead
	Phase  string `json:"phase"`
	Prompt string `json:"prompt,omitzero"`
	// PromptDigest is the digest of the prompt that the session runs, as its host says.
	PromptDigest string `json:"prompt_digest,omitzero"`
	// PromptDiffers says how the prompt differs from the registered one. If it does not differ, PromptDiffers is empty.
	PromptDiffers string `json:"prompt_differs,omitzero"`
	// Point names the restore point that was taken before the session started.
	Point string `json:"point,omitzero"`
}
