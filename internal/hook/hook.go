package hook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"lazaret/client"
	"lazaret/streams"
)

// Config configures a hook.
type Config struct {
	Project, Agent string
	State          string        // folder of the session states
	Wait           time.Duration // how long a held call waits for an approval
	// Ask leaves the decision on a hold to the user at the keyboard instead of refusing the call. If
	// the user agrees, the log shows a held action that was carried out.
	Ask bool
	// Allow makes an allowed call skip the host's own permission prompt. By default the host's
	// permissions still apply.
	Allow bool
	// Spotlight encloses text of web pages and MCP servers in random markers, which the text cannot imitate,
	// before the model reads it.
	Spotlight bool
	// Handler is the entry that the host's settings must have for each event. It is empty for a plugin, whose
	// hooks are in no settings file.
	Handler Handler
	// Folder is the host's project folder. If it is empty, the working folder of the event is used. Settings is a
	// settings file other than those of the user and the project, if the hook is installed there.
	Folder, Settings string
	// Read reads a file of the host. It returns fs.ErrNotExist for a deleted file. It is nil if this process
	// cannot read the host's files.
	Read func(file string) ([]byte, error)
}

// Ask answers one event. It returns an error if the event could not be recorded or judged; a hook that
// fails closed then blocks.
func Ask(ctx context.Context, cfg Config, c *client.Client, host *Host, e *Event) (*Answer, error) {
	h, err := newHandler(cfg, c, host, e)
	if err != nil {
		return nil, err
	}
	h.send = h.record
	a, err := h.answerTo(ctx)
	return a, errors.Join(err, h.rejected)
}

func newHandler(cfg Config, c *client.Client, host *Host, e *Event) (*handler, error) {
	session := identifier(e.Session)
	if session == "" {
		return nil, errors.New("the event names no session")
	}
	st, err := openState(cfg.State, session)
	if err != nil {
		return nil, fmt.Errorf("opening the hook's state: %w", err)
	}
	return &handler{cfg: cfg, c: c, host: host, st: st, e: e, session: session}, nil
}

func (h *handler) answerTo(ctx context.Context) (*Answer, error) {
	switch h.e.Name {
	case SessionStart:
		return nil, h.started(ctx)
	case SessionEnd:
		if h.e.Agent != "" {
			return nil, h.flush(ctx)
		}
		return nil, h.publish(ctx, streams.KindSession, "", &streams.Session{Head: h.head(""), Phase: "end"})
	case UserPromptSubmit, UserPromptExpansion:
		return nil, h.prompted(ctx)
	case PreToolUse:
		return h.propose(ctx)
	case PermissionDenied:
		if h.e.Call == "" {
			return nil, nil
		}
		action, err := h.ran()
		return nil, errors.Join(err, h.resume(), h.outcome(ctx, action, "skipped"))
	case PostToolUse, PostToolUseFailure:
		return h.returned(ctx)
	case PostToolBatch, PreCompact:
		return nil, h.flush(ctx) // the model must not continue, or compact its context, before the records are stored
	case PostCompact, InstructionsLoaded, FileChanged:
		return nil, h.entered(ctx)
	case ConfigChange:
		return h.configured(ctx)
	case SubagentStop, TaskCreated, Elicitation, fileRead:
		return nil, h.heard(ctx)
	}
	return nil, nil
}

type handler struct {
	cfg     Config
	c       *client.Client
	host    *Host
	st      *state
	e       *Event
	session string
	send    func(ctx context.Context, subject string, body []byte) error
	// rejected joins the errors of rejected observations.
	rejected error
	// importedBy has the places (paths without symbolic links) of the files that memory files import, see isImported.
	// It is nil until it is needed.
	importedBy map[string]bool
	// marked has the marks of the session, see marks.go. It is nil until it is needed.
	marked *marks
	// began is when the call was permitted, or zero if that is not known.
	began time.Time
}

func (h *handler) head(id string) streams.Head {
	return streams.Head{ID: cmp.Or(id, client.NewID()), Session: h.session}
}

// identifier returns s if it is a valid id, otherwise a hash of it.
func identifier(s string) string {
	if s == "" || streams.ValidID(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}
