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

// Config is how a hook behaves.
type Config struct {
	Project, Agent string
	State          string        // folder of the sessions' states
	Wait           time.Duration // how long a held call waits for a person
	// Ask leaves a hold to the person at the keyboard instead of refusing it.
	// The log then shows a held action that was carried out.
	Ask bool
	// Allow answers allow, which skips the host's own question. Otherwise an
	// allowed call is left to the host's own permissions.
	Allow bool
	// Spotlight puts text of web pages and MCP servers between markers that it cannot
	// forge, before the model reads it.
	Spotlight bool
	// Read reads a file of the host; nil where the host's files are out of reach. An
	// error that is fs.ErrNotExist says that the file is gone.
	Read func(file string) ([]byte, error)
}

// Ask answers one event. An error means that it could not be recorded or judged: a hook
// that fails closed blocks then.
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
		return nil, errors.Join(err, h.outcome(ctx, action, "skipped"))
	case PostToolUse, PostToolUseFailure:
		return h.returned(ctx)
	case PostToolBatch, PreCompact:
		return nil, h.flush(ctx) // the model reads on, or forgets, only what is recorded
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
	// rejected says which observations were rejected.
	rejected error
}

func (h *handler) head(id string) streams.Head {
	return streams.Head{ID: cmp.Or(id, client.NewID()), Session: h.session}
}

// identifier makes a legal id of a foreign one; a legal one stays.
func identifier(s string) string {
	if s == "" || streams.ValidID(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}
