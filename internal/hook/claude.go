package hook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/client"
	"lazaret/internal/content"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Event is what Claude Code tells a hook, as far as it is used here:
// https://code.claude.com/docs/en/hooks.
type Event struct {
	Session  string          `json:"session_id"`
	CWD      string          `json:"cwd"`
	Name     string          `json:"hook_event_name"`
	Tool     string          `json:"tool_name"`
	Input    json.RawMessage `json:"tool_input"`
	Response json.RawMessage `json:"tool_response"`
	Call     string          `json:"tool_use_id"`
	Error    string          `json:"error"`
	Prompt   string          `json:"prompt"`
	Source   string          `json:"source"`
	Reason   string          `json:"reason"`
}

// The events that are answered; others pass.
const (
	SessionStart       = "SessionStart"
	SessionEnd         = "SessionEnd"
	UserPromptSubmit   = "UserPromptSubmit"
	PreToolUse         = "PreToolUse"
	PostToolUse        = "PostToolUse"
	PostToolUseFailure = "PostToolUseFailure"
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
}

// Answer is what a hook writes to its standard output; nil is nothing.
type Answer struct {
	Specific *Specific `json:"hookSpecificOutput,omitempty"`
}

// Specific is the part of an answer that belongs to its event.
type Specific struct {
	Event    string `json:"hookEventName"`
	Decision string `json:"permissionDecision,omitempty"` // allow, deny, ask
	Reason   string `json:"permissionDecisionReason,omitempty"`
	Output   string `json:"updatedToolOutput,omitempty"` // takes the place of what a tool returned
}

// Withheld is the answer that keeps from the model what a tool returned, since it could
// not be recorded.
func Withheld(err error) *Answer {
	why := streams.Clip(strings.ReplaceAll(err.Error(), "\n", "; "), 800)
	return &Answer{&Specific{Event: PostToolUse,
		Output: "Lazaret withheld what this tool returned, since it could not be recorded: " + why}}
}

// Claude answers one event of Claude Code. An error means that it could not be
// recorded or judged: a hook that fails closed exits with 2 then.
func Claude(ctx context.Context, cfg Config, c *client.Client, e *Event) (*Answer, error) {
	session := identifier(e.Session)
	if session == "" {
		return nil, errors.New("the event names no session_id")
	}
	st, err := openState(cfg.State, session)
	if err != nil {
		return nil, fmt.Errorf("opening the hook's state: %w", err)
	}
	h := &claude{cfg: cfg, c: c, st: st, e: e, session: session}
	h.send = h.record
	a, err := h.answerTo(ctx)
	return a, errors.Join(err, h.rejected)
}

func (h *claude) answerTo(ctx context.Context) (*Answer, error) {
	switch e := h.e; e.Name {
	case SessionStart:
		if e.Source == "resume" || e.Source == "compact" {
			return nil, h.flush(ctx) // the same context goes on
		}
		return nil, h.publish(ctx, streams.KindSession, "", &streams.Session{Head: h.head(""), Phase: "start"})
	case SessionEnd:
		return nil, h.publish(ctx, streams.KindSession, "", &streams.Session{Head: h.head(""), Phase: "end"})
	case UserPromptSubmit:
		return nil, h.prompted(ctx)
	case PreToolUse:
		return h.propose(ctx)
	case PostToolUse, PostToolUseFailure:
		return nil, h.returned(ctx)
	}
	return nil, nil
}

type claude struct {
	cfg     Config
	c       *client.Client
	st      *state
	e       *Event
	session string
	send    func(ctx context.Context, subject string, body []byte) error
	// rejected says which observations were rejected.
	rejected error
}

func (h *claude) head(id string) streams.Head {
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

// record sends an event. An observation is sent as a request, so that its rejection is
// reported: it is in the ledger then, and need not be sent again.
func (h *claude) record(ctx context.Context, subject string, body []byte) error {
	origin, ok := observationOf(subject)
	if !ok {
		_, err := h.c.PublishRaw(ctx, subject, body)
		return err
	}
	rep, err := h.c.SubmitRaw(ctx, origin, body)
	if rep != nil && rep.Unseen {
		h.rejected = errors.Join(h.rejected,
			fmt.Errorf("observation %s was rejected, so nobody has judged what the agent saw: %w; "+
				"the session is held (%s) until it is published again in valid form under this id, or a session starts (/clear, "+
				"or lazaret session start)",
				rep.ID, err, streams.CodeUnseen))
		return nil
	}
	if client.Stored(rep, err) {
		return nil
	}
	return err
}

// observationOf is the origin of the observations that a subject of the intake is for.
func observationOf(subject string) (beliefs.Origin, bool) {
	_, origin, ok := strings.Cut(subject, "."+string(streams.KindObs)+".")
	return beliefs.Origin(origin), ok && beliefs.Origin(origin).Valid()
}

// flush sends what was not acknowledged before.
func (h *claude) flush(ctx context.Context) error {
	names, err := h.st.unsent()
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // another hook has sent it
		}
		var s spooled
		if err == nil {
			err = json.Unmarshal(b, &s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w: what the agent was shown cannot be recorded; end the session and remove the file", name,
				err)
		}
		if err := h.send(ctx, s.Subject, s.Body); err != nil {
			return fmt.Errorf("what the agent was shown before is not recorded yet: %w", err)
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// publish sends events in order, after those not acknowledged before. It spools unsent
// events and returns the error.
func (h *claude) publish(ctx context.Context, kind streams.Kind, origin beliefs.Origin, events ...streams.Event) error {
	subject, err := streams.IntakeSubject(h.cfg.Project, h.cfg.Agent, kind, origin)
	if err != nil {
		return err
	}
	var all []spooled
	for _, e := range events {
		b, err := streams.Marshal(e)
		if err != nil {
			return err
		}
		all = append(all, spooled{subject, b})
	}
	err = h.flush(ctx)
	for i := 0; err == nil && i < len(all); i++ {
		if err = h.send(ctx, subject, all[i].Body); err != nil {
			all = all[i:]
		}
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, h.st.spool(time.Now(), all))
}

func (h *claude) observe(ctx context.Context, origin beliefs.Origin, tool, call, source string,
	blocks []streams.Block) error {
	var events []streams.Event
	for _, part := range content.Divide(blocks) {
		events = append(events, &streams.Observation{Head: h.head(""), Tool: tool, Call: call,
			Source: streams.Clip(source, 1000), Blocks: part})
	}
	return h.publish(ctx, streams.KindObs, origin, events...)
}

// prompted records a prompt, under the origin of who wrote it.
func (h *claude) prompted(ctx context.Context) error {
	origin, source := promptOrigin(h.e.Source), ""
	if origin != beliefs.OriginUser {
		source = "prompt:" + h.e.Source
	}
	return h.observe(ctx, origin, "", "", source, []streams.Block{{Text: h.e.Prompt}})
}

// promptOrigin says who wrote a prompt, by the source that the host names. Hosts
// before the field existed sent prompts of the user only. A program behind the
// SDK, the host itself and what it polls pass on words from anywhere.
func promptOrigin(source string) beliefs.Origin {
	switch source {
	case "user", "":
		return beliefs.OriginUser
	case "loop_wakeup", "schedule_wakeup":
		return beliefs.OriginAgent // what the agent set itself for later
	}
	return beliefs.OriginTool
}

// input are the fields of tools' inputs that say where something comes from or
// goes to.
type input struct {
	File     string `json:"file_path"`
	Notebook string `json:"notebook_path"`
	URL      string `json:"url"`
	Query    string `json:"query"`
	Command  string `json:"command"`
	Content  string `json:"content"`
	New      string `json:"new_string"`
	Source   string `json:"new_source"`
	Edits    []struct {
		New string `json:"new_string"`
	} `json:"edits"`
}

func (h *claude) input() (in input) {
	// Tools have inputs of many shapes; what does not fit names nothing.
	var raw map[string]json.RawMessage
	if json.Unmarshal(h.e.Input, &raw) != nil {
		return in
	}
	for k, dst := range map[string]*string{"file_path": &in.File, "notebook_path": &in.Notebook, "url": &in.URL,
		"query":   &in.Query,
		"command": &in.Command, "content": &in.Content, "new_string": &in.New, "new_source": &in.Source} {
		json.Unmarshal(raw[k], dst)
	}
	json.Unmarshal(raw["edits"], &in.Edits)
	return in
}

// memory is the write to the agent's memory that a call makes, or nil.
func (h *claude) memory() *streams.Memory {
	in := h.input()
	file, words := "", ""
	switch h.e.Tool {
	case "Write", "Edit", "MultiEdit", "NotebookEdit":
		if file = cmp.Or(in.File, in.Notebook); !IsMemoryFile(file) {
			return nil
		}
		parts := []string{in.Content, in.New, in.Source}
		for _, e := range in.Edits {
			parts = append(parts, e.New)
		}
		words = strings.Join(nonEmpty(parts), "\n")
	case "Bash":
		if file = memoryInCommand(in.Command); file == "" || !changes(in.Command) {
			return nil
		}
		words = in.Command
	default:
		return nil
	}
	if words == "" {
		words = "(emptied)"
	}
	if rel, err := filepath.Rel(h.e.CWD, file); err == nil && filepath.IsAbs(file) && !strings.HasPrefix(rel, "..") {
		file = rel
	}
	return &streams.Memory{Head: h.head(""), Key: "file:" + streams.Clip(filepath.ToSlash(file), 900), Content: words,
		Category: "instructions",
		Source:   "tool:" + h.e.Tool}
}

func nonEmpty(in []string) (out []string) {
	for _, s := range in {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// propose asks for a verdict on a call: on the memory that it writes first, then
// on the call itself.
func (h *claude) propose(ctx context.Context) (*Answer, error) {
	if h.e.Tool == "" {
		return nil, errors.New("the event names no tool_name")
	}
	if err := h.flush(ctx); err != nil {
		return nil, err
	}
	args := jsontext.Value(h.e.Input)
	if len(args) == 0 || args.Kind() == 'n' {
		args = jsontext.Value("{}")
	}
	canonical := args.Clone()
	if err := canonical.Canonicalize(); err != nil {
		return nil, fmt.Errorf("tool_input: %w", err)
	}
	key := pendingName(h.e.Tool + "\x00" + string(canonical))
	var p pending
	held, err := h.st.take(key, &p)
	if err != nil {
		return nil, fmt.Errorf("reading the hook's state: %w", err)
	}
	if !held || p.Action == nil {
		p = pending{Action: &streams.Action{Head: h.head(identifier(h.e.Call)), Tool: h.e.Tool, Args: args,
			Catalogue: catalogue(h.e.Tool)}, Memory: h.memory()}
	}
	if p.Memory != nil {
		rep, err := h.c.Remember(ctx, beliefs.OriginAgent, p.Memory)
		if err == nil && client.Open(rep) && h.cfg.Wait > 0 {
			rep, err = patient(ctx, h.cfg.Wait, rep, func(ctx context.Context) (*client.Reply, error) {
				return h.c.AwaitMemory(ctx, beliefs.OriginAgent, p.Memory, rep)
			})
		}
		if a, err := h.answer(rep, err, key, &p, "what "+h.e.Tool+" would write into the agent's memory"); a != nil ||
			err != nil {
			return a, err
		}
	}
	rep, err := h.c.Decide(ctx, p.Action)
	if err == nil && client.Open(rep) && h.cfg.Wait > 0 {
		rep, err = patient(ctx, h.cfg.Wait, rep, func(ctx context.Context) (*client.Reply, error) {
			return h.c.Await(ctx, p.Action, rep)
		})
	}
	if a, err := h.answer(rep, err, key, &p, h.e.Tool); a != nil || err != nil {
		return a, err
	}
	if p.Action.ID != identifier(h.e.Call) && h.e.Call != "" {
		// The outcome will come with the call's id.
		if err := h.st.write("call-"+identifier(h.e.Call), p.Action.ID); err != nil {
			return nil, err
		}
	}
	if !h.cfg.Allow {
		return nil, nil
	}
	return &Answer{&Specific{Event: PreToolUse, Decision: "allow", Reason: "Lazaret allows it (ledger entry " +
		fmt.Sprint(rep.Seq) + ")"}}, nil
}

// patient waits for a person. A hold that is still open then is no error.
func patient(ctx context.Context, wait time.Duration, rep *client.Reply, await func(context.Context) (*client.Reply,
	error)) (*client.Reply, error) {
	w, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	then, err := await(w)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil
	}
	if then == nil {
		then = rep
	}
	return then, err
}

// answer is nil for an allow. A held call is remembered, so that the same call is the
// same proposal.
func (h *claude) answer(rep *client.Reply, err error, key string, p *pending, what string) (*Answer, error) {
	v := client.VerdictOf(rep, err)
	if v == streams.Allow {
		return nil, nil
	}
	if v == streams.Hold && (err != nil || client.Open(rep)) {
		if err := h.st.write(key, p); err != nil {
			return nil, fmt.Errorf("keeping what is held: %w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	a := &Specific{Event: PreToolUse, Decision: "deny", Reason: reason(rep, what)}
	if v == streams.Hold && h.cfg.Ask && client.Open(rep) {
		a.Decision = "ask"
		if p.Action.ID != identifier(h.e.Call) && h.e.Call != "" {
			if err := h.st.write("call-"+identifier(h.e.Call), p.Action.ID); err != nil {
				return nil, err
			}
		}
	}
	return &Answer{a}, nil
}

// reason is the text for the model, or for the person who is asked.
func reason(rep *client.Reply, what string) string {
	var b strings.Builder
	switch {
	case rep.Verdict == streams.Deny:
		fmt.Fprintf(&b, "Lazaret denies %s.", what)
	case client.Open(rep):
		fmt.Fprintf(&b, "Lazaret holds %s until a person approves hold %s.", what, rep.Entry.Hold.ID)
	default:
		fmt.Fprintf(&b, "Lazaret holds %s, and the hold has ended.", what)
	}
	n := 0
	for _, r := range rep.Entry.Reasons {
		if r.Verdict == streams.Allow {
			continue
		}
		if n++; n > 4 {
			break
		}
		fmt.Fprintf(&b, " %s%s: %s.", r.Code, strings.TrimRight(" "+r.Rule, " "),
			strings.TrimSuffix(streams.Clip(r.Text, 300), "."))
	}
	if rep.Verdict == streams.Deny {
		b.WriteString(" Do not try the same by other means.")
	} else {
		b.WriteString(" Tell the user; once it is approved, make the same call again. Do not try the same by other means.")
	}
	return b.String()
}

// returned records what a tool returned, and that its action was carried out.
func (h *claude) returned(ctx context.Context) error {
	status, read := "ok", content.Strings
	if h.e.Name == PostToolUseFailure {
		status = "error"
	}
	if strings.HasPrefix(h.e.Tool, "mcp__") {
		read = content.All // the names are the server's, and not the host's
	}
	words := append(nonEmpty([]string{h.e.Error}), read(h.e.Response)...)
	in := h.input()
	origin, source := originOf(h.e.Tool), cmp.Or(in.File, in.Notebook, in.URL)
	action := identifier(h.e.Call)
	if action != "" {
		var other string
		if ok, err := h.st.take("call-"+action, &other); err != nil {
			return fmt.Errorf("reading the hook's state: %w", err)
		} else if ok {
			action = other
		}
	}
	err := h.observe(ctx, origin, h.e.Tool, action, source, []streams.Block{{Text: strings.Join(words, "\n")}})
	if action == "" {
		return err
	}
	// Two hooks that report one call report one execution.
	out := &streams.Outcome{Head: h.head(identifier("out-" + action)), Action: action, Status: status}
	return errors.Join(err, h.publish(ctx, streams.KindOut, "", out))
}

// originOf says where a tool's content comes from.
func originOf(tool string) beliefs.Origin {
	switch tool {
	case "WebFetch", "WebSearch":
		return beliefs.OriginWeb
	case "Read", "Grep", "NotebookRead":
		return beliefs.OriginDocument
	}
	return beliefs.OriginTool
}

// Keep spools an event's records when there is no connection. The next hook of the
// session sends them before anything is proposed.
func Keep(cfg Config, e *Event) error {
	session := identifier(e.Session)
	if session == "" || e.Name == PreToolUse {
		return nil
	}
	st, err := openState(cfg.State, session)
	if err != nil {
		return err
	}
	h := &claude{cfg: cfg, st: st, e: e, session: session}
	h.send = func(context.Context, string, []byte) error { return client.ErrHold }
	ctx := context.Background()
	switch e.Name {
	case UserPromptSubmit:
		err = h.prompted(ctx)
	case PostToolUse, PostToolUseFailure:
		err = h.returned(ctx)
	}
	if errors.Is(err, client.ErrHold) {
		return nil // said already
	}
	return err
}

// catalogue is where a tool is from: an agent's own tools have names of one word,
// those of MCP servers begin with mcp__.
func catalogue(tool string) string {
	if strings.HasPrefix(tool, "mcp__") {
		return ""
	}
	return OwnTools
}

// OwnTools is the catalogue of the tools that are built into Claude Code, for the
// entries of policies.
const OwnTools = "claude-code"
