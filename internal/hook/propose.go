package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/client"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// propose asks for a verdict on a call. It asks first about the memory write that the call makes, if
// any.
func (h *handler) propose(ctx context.Context) (*Answer, error) {
	if h.e.Tool == "" {
		return nil, errors.New("the event has no tool_name")
	}
	if err := h.flush(ctx); err != nil {
		return nil, err
	}
	if why, err := h.unadmitted(ctx); err != nil || why != "" {
		return deny(why), err
	}
	written := h.memoryWritten()
	if written.read {
		if err := h.addContent(written.text); err != nil {
			return nil, err
		}
	}
	args, canonical, err := h.args()
	if err != nil {
		return nil, err
	}
	key := pendingName(h.e.Tool + "\x00" + canonical)
	if a, held, err := h.again(ctx, key); err != nil || held {
		return a, err
	}
	name := fmt.Sprintf("%s-%020d-%s", key, time.Now().UnixNano(), client.NewID())
	action := &streams.Action{Head: h.head(identifier(h.e.Call)), Tool: h.e.Tool, Args: args, Catalogue: h.catalogue(),
		Loads: h.loads(written)}
	outside := cmp.Or(h.outside(), h.addsImport(written))
	if outside != "" {
		level := beliefs.L4
		action.Level = &level
	}
	if outside != "" || written.file != "" && written.unknown {
		action.Host = streams.Hold.String() // the policy cannot delegate an action that its host holds
	}
	a, _, err := h.ask(ctx, name, &pending{Action: action, Memory: h.memory(written), Outside: outside}, h.cfg.Wait)
	return a, err
}

// addContent adds the text that a command copies into the agent's memory to the event's arguments. So rules judge the
// copy like a call that contains the text. A person approves this text only: with another text, the same command is
// another call.
func (h *handler) addContent(text string) error {
	var args map[string]json.RawMessage
	if err := json.Unmarshal(h.e.Input, &args); err != nil {
		return fmt.Errorf("tool_input: %w", err)
	}
	args["content"] = asJSON(text)
	e := *h.e
	e.Input, h.e = asJSON(args), &e
	return nil
}

// maxEqual is the maximum number of held proposals of the same call that again asks about.
const maxEqual = 8

// again asks about the held proposals of the same call, oldest first, until one is decided. held reports whether
// there were any. One approval lets one call through.
func (h *handler) again(ctx context.Context, key string) (a *Answer, held bool, err error) {
	names, err := h.st.names(key)
	if err != nil {
		return nil, false, fmt.Errorf("reading the hook's state: %w", err)
	}
	names = names[:min(len(names), maxEqual)]
	for i, name := range names {
		name = filepath.Base(name)
		var p pending
		taken, err := h.st.take(name, &p)
		if err != nil {
			return nil, false, fmt.Errorf("reading the hook's state: %w", err)
		}
		if !taken || p.Action == nil {
			continue
		}
		wait := h.cfg.Wait
		if i+1 < len(names) {
			wait = 0
		}
		var v streams.Verdict
		if a, v, err = h.ask(ctx, name, &p, wait); err != nil || v != streams.Hold {
			return a, true, err
		}
		held = true
	}
	return a, held, nil
}

// ask asks for a verdict on a call and on the memory write that it makes, if any. If the call is held, ask
// stores p in the file that name names, so that a repeated call sends the same proposal.
func (h *handler) ask(ctx context.Context, name string, p *pending, wait time.Duration) (*Answer, streams.Verdict,
	error) {
	if p.Memory != nil {
		rep, err := h.c.Remember(ctx, beliefs.OriginAgent, p.Memory)
		if err == nil && client.Open(rep) && wait > 0 {
			rep, err = patient(ctx, wait, rep, func(ctx context.Context) (*client.Reply, error) {
				return h.c.AwaitMemory(ctx, beliefs.OriginAgent, p.Memory, rep)
			})
		}
		if a, v, err := h.answer(rep, err, name, p, "what "+h.e.Tool+" would write into the agent's memory"); a != nil ||
			err != nil {
			return a, v, err
		}
		if foreign(rep.Entry) && p.Action.Host == "" {
			p.Action.Host, p.Foreign = streams.Hold.String(), true
		}
	}
	rep, err := h.c.Decide(ctx, p.Action)
	if err == nil && client.Open(rep) && wait > 0 {
		rep, err = patient(ctx, wait, rep, func(ctx context.Context) (*client.Reply, error) {
			return h.c.Await(ctx, p.Action, rep)
		})
	}
	what := h.e.Tool
	switch {
	case p.Foreign:
		what += ", since the text that it writes into the agent's memory comes from the web, a mail or a tool,"
	case p.Outside != "":
		what += ", since " + p.Outside + ","
	case p.Action.Host != "":
		what += ", since the text that it writes into the agent's memory is not known,"
	}
	if a, v, err := h.answer(rep, err, name, p, what); a != nil || err != nil {
		return a, v, err
	}
	if err := h.running(p.Action); err != nil {
		return nil, streams.Hold, err
	}
	if !h.cfg.Allow {
		return nil, streams.Allow, nil
	}
	return &Answer{Specific: &Specific{Event: PreToolUse, Decision: "allow", Reason: "Lazaret allows it (ledger entry " +
		position.Text(rep.Seq) + ")"}}, streams.Allow, nil
}

// foreign reports whether an allowed memory write has text of the web, of a mail or of a tool, and no person approved
// it. A store would serve the text as context only, but the host loads the file as instructions. Text of documents,
// which may be files of the project, is not foreign here.
func foreign(v *streams.VerdictEntry) bool {
	return v != nil && v.Resolved == nil && v.Belief != nil && !v.Learn &&
		v.Belief.Origin.External() && v.Belief.Origin != beliefs.OriginDocument
}

// patient calls await, which waits for the decision on a hold. If the hold is still open after wait, patient
// returns rep without an error.
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

// answer converts a verdict to an answer; nil means allow. It stores the proposal of a held call, so
// that a repeated call sends the same proposal.
func (h *handler) answer(rep *client.Reply, err error, name string, p *pending, what string) (*Answer, streams.Verdict,
	error) {
	v := client.VerdictOf(rep, err)
	if v == streams.Allow {
		return nil, v, nil
	}
	if v == streams.Hold && (err != nil || client.Open(rep)) {
		if err := h.st.write(name, p); err != nil {
			return nil, v, fmt.Errorf("storing the held call: %w", err)
		}
	}
	if err != nil {
		return nil, v, err
	}
	a := &Specific{Event: PreToolUse, Decision: "deny", Reason: reason(rep, what)}
	if v == streams.Hold && h.cfg.Ask && h.host.Asks && client.Open(rep) {
		a.Decision = "ask"
		if err := h.running(p.Action); err != nil {
			return nil, v, err
		}
	}
	return &Answer{Specific: a}, v, nil
}

// reason returns the explanation of a refusal for the model, or for the user who is asked.
func reason(rep *client.Reply, what string) string {
	var b strings.Builder
	switch {
	case rep.Verdict == streams.Deny:
		fmt.Fprintf(&b, "Lazaret denies %s.", what)
	case client.Open(rep):
		fmt.Fprintf(&b, "Lazaret holds %s until a person approves hold %s.", what, rep.Entry.Hold.ID)
	default:
		fmt.Fprintf(&b, "Lazaret held %s, and the hold ended without an approval.", what)
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
	switch {
	case rep.Verdict == streams.Deny:
	case client.Open(rep):
		b.WriteString(" Tell the user; once it is approved, make the same call again.")
	default: // no approval can release this call
		b.WriteString(" Tell the user.")
	}
	b.WriteString(" Do not try the same by other means.")
	return b.String()
}

// args returns the arguments of a call, as sent and in canonical JSON.
func (h *handler) args() (args jsontext.Value, canonical string, err error) {
	args = jsontext.Value(h.e.Input)
	if len(args) == 0 || args.Kind() == 'n' {
		args = jsontext.Value("{}")
	}
	c := args.Clone()
	if err := c.Canonicalize(); err != nil {
		return nil, "", fmt.Errorf("tool_input: %w", err)
	}
	return args, string(c), nil
}

// sameCall returns the name of the file that stores the action of a call without an id.
func (h *handler) sameCall() (string, error) {
	_, canonical, err := h.args()
	return "call-" + pendingName(h.e.Tool+"\x00"+canonical), err
}

// begun is where and when a command was permitted.
type begun struct {
	At     time.Time `json:"at"`
	Folder string    `json:"folder"`
}

// begunName returns the name of the file that stores when a call of a shell was permitted, or "" for other calls.
func (h *handler) begunName() string {
	if h.e.tool() != "Bash" || h.e.mcp {
		return ""
	}
	key := h.e.Call
	if key == "" {
		_, key, _ = h.args()
	}
	return "begun-" + placeHash(key)
}

// resume reads when the call was permitted, and in which folder the shell was then. The event after the call may have
// the folder to which the line changed.
func (h *handler) resume() error {
	var b begun
	name := h.begunName()
	if name == "" {
		return nil
	}
	if ok, err := h.st.take(name, &b); err != nil || !ok {
		return err
	}
	h.began = b.At
	if b.Folder != "" && b.Folder != h.e.CWD {
		e := *h.e
		e.CWD, h.e = b.Folder, &e
	}
	return nil
}

// running stores when the call was permitted, and the action's id until the outcome is reported, because the outcome
// may come with another id or without one.
func (h *handler) running(a *streams.Action) error {
	if name := h.begunName(); name != "" {
		if err := h.st.write(name, begun{time.Now(), h.e.CWD}); err != nil {
			return err
		}
	}
	name := "call-" + identifier(h.e.Call)
	switch {
	case h.e.Call == "":
		var err error
		if name, err = h.sameCall(); err != nil {
			return err
		}
	case a.ID == identifier(h.e.Call):
		return nil
	}
	return h.st.write(name, a.ID)
}

// catalogue returns the tool catalogue of the host for its own tools, or "" for a tool of an MCP
// server.
func (h *handler) catalogue() string {
	if h.e.mcp {
		return ""
	}
	return h.host.Catalogue
}

func deny(why string) *Answer {
	return &Answer{Specific: &Specific{Event: PreToolUse, Decision: "deny", Reason: why}}
}
