package streams

// KindSession is the kind of a session's start or end, and TypeSession the type of its entries.
const (
	KindSession Kind = "session"
	TypeSession Type = "session"
)

func init() {
	register[Session](EventKind{
		Kind: KindSession, Type: TypeSession, Order: 5,
		Required: []string{"session", "phase"},
		Fields:   "`phase`: start or end; a start clears what was held against the agent for unseen input",
	})
}

// Session (kind session) marks the start or end of a session.
type Session struct {
	Head
	Phase  string `json:"phase"` // "start" or "end"
	Prompt string `json:"prompt,omitzero"`
}

func (e *Session) check(a Address) error {
	if e.Session == "" {
		return rejectf(CodeInvalid, "a session event needs a session")
	}
	if e.Phase != "start" && e.Phase != "end" {
		return rejectf(CodeInvalid, "phase is %q, use start or end", clip(e.Phase))
	}
	return nil
}

// SessionEntry is the body of a session's start or end.
type SessionEntry struct {
	EntryHead
	Phase  string `json:"phase"`
	Prompt string `json:"prompt,omitzero"`
	// Point names the restore point that was taken before the session started.
	Point string `json:"point,omitzero"`
}
