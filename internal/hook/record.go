package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"lazaret/client"
	"lazaret/internal/content"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/shell"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// record sends an event. It sends an observation as a request, so that the reply reports a rejection. A
// rejected observation is in the ledger and is not sent again.
func (h *handler) record(ctx context.Context, subject string, body []byte) error {
	origin, ok := observationOf(subject)
	if !ok {
		_, err := h.c.PublishRaw(ctx, subject, body)
		return err
	}
	rep, err := h.c.SubmitRaw(ctx, origin, body)
	if rep != nil && rep.Unseen {
		h.rejected = errors.Join(h.rejected,
			fmt.Errorf("observation %s was rejected, so nobody has judged what the agent saw: %w; all calls of the session "+
				"are held (%s) until the observation is published again in valid form with this id, or a session starts "+
				"(/clear, or lazaret session start)",
				rep.ID, err, streams.CodeUnseen))
		return nil
	}
	if client.Stored(rep, err) {
		return nil
	}
	return err
}

// observationOf returns the origin in the intake subject of an observation, and reports whether subject
// is one.
func observationOf(subject string) (beliefs.Origin, bool) {
	_, origin, ok := strings.Cut(subject, "."+string(streams.KindObs)+".")
	return beliefs.Origin(origin), ok && beliefs.Origin(origin).Valid()
}

// flush sends the spooled events.
func (h *handler) flush(ctx context.Context) error {
	names, err := h.st.unsent()
	if err != nil {
		return err
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // another hook process has sent it
		}
		var s spooled
		if err == nil {
			err = json.Unmarshal(b, &s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w: content that the agent read cannot be recorded; end the session and "+
				"remove the file", name,
				err)
		}
		if err := h.send(ctx, s.Subject, s.Body); err != nil {
			return fmt.Errorf("content that the agent read earlier is not recorded yet: %w", err)
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// publish sends the spooled events and then these events, in order. If sending fails, it spools the
// unsent events and returns the error.
func (h *handler) publish(ctx context.Context, kind streams.Kind, origin beliefs.Origin,
	events ...streams.Event) error {
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

func (h *handler) observe(ctx context.Context, origin beliefs.Origin, tool, call, source string,
	blocks []streams.Block) error {
	var events []streams.Event
	for _, part := range content.Divide(blocks) {
		events = append(events, &streams.Observation{Head: h.head(""), Tool: tool, Call: call,
			Source: streams.Clip(source, 1000), Blocks: part})
	}
	return h.publish(ctx, streams.KindObs, origin, events...)
}

// prompted records a prompt with the origin of its author. The author of a subagent's prompt is the model.
func (h *handler) prompted(ctx context.Context) error {
	origin, source := promptOrigin(h.e.Source), ""
	if h.e.Name == UserPromptExpansion {
		origin = beliefs.OriginUser // the user typed the command; Source names where the command came from
	}
	if h.e.Agent != "" && origin == beliefs.OriginUser {
		origin = beliefs.OriginAgent
	}
	if origin != beliefs.OriginUser {
		source = cmp.Or(h.subagent(), "prompt:"+h.e.Source)
	} else if err := h.noteNamed(h.e.Prompt); err != nil {
		return fmt.Errorf("storing which files the user named: %w", err)
	}
	return h.observe(ctx, origin, "", "", source, []streams.Block{{Text: h.e.Prompt}})
}

// subagent returns the name of the event's subagent, or "".
func (h *handler) subagent() string {
	if h.e.Agent == "" {
		return ""
	}
	return "subagent:" + cmp.Or(h.e.AgentType, "agent") + ":" + h.e.Agent
}

// promptOrigin returns the origin of a prompt from the source that the host names. Older hosts name no source,
// and send only prompts of the user. Prompts from the SDK, from the host itself and from its polling can contain
// text from anywhere.
func promptOrigin(source string) beliefs.Origin {
	switch source {
	case "user", "":
		return beliefs.OriginUser
	case "loop_wakeup", "schedule_wakeup":
		return beliefs.OriginAgent // the agent scheduled it itself
	}
	return beliefs.OriginTool
}

// returned records a tool's result, and the outcome of its action. With Config.Spotlight, the answer encloses
// external text in markers.
func (h *handler) returned(ctx context.Context) (*Answer, error) {
	status := "ok"
	if h.e.Name == PostToolUseFailure {
		status = "error"
	}
	action, err := h.ran()
	if err != nil {
		return nil, fmt.Errorf("reading the hook's state: %w", err)
	}
	if err := h.resume(); err != nil {
		return nil, fmt.Errorf("reading the hook's state: %w", err)
	}
	origin := h.origin()
	if h.e.tool() == "Bash" && !h.e.mcp {
		line := h.input().Command
		if err := errors.Join(h.noteWritten(line, origin == beliefs.OriginDocument), h.noteBrought(line)); err != nil {
			return nil, fmt.Errorf("storing which files the command wrote: %w", err)
		}
	}
	if err := h.noteReplaced(); err != nil {
		return nil, fmt.Errorf("storing which file the agent replaced: %w", err)
	}
	err = h.observe(ctx, origin, h.e.Tool, action, cmp.Or(h.place(), h.subagent()),
		[]streams.Block{{Text: strings.Join(h.words(), "\n")}})
	if action != "" {
		err = errors.Join(err, h.outcome(ctx, action, status))
	}
	if err != nil || !h.cfg.Spotlight || h.e.Name != PostToolUse || !h.e.mcp && origin != beliefs.OriginWeb {
		return nil, err
	}
	marked := mapped(h.e.Response, func(s string) string {
		if !strings.ContainsAny(s, " \t\n") { // an identifier or address, not prose
			return s
		}
		return text.Spotlight(s, h.e.Tool+" "+h.place())
	})
	return &Answer{Specific: &Specific{Event: PostToolUse, Output: marked, text: string(marked)}}, nil
}

// outcome records the outcome of an action. Its id depends only on the action, so two hooks that report
// the same call record one execution.
func (h *handler) outcome(ctx context.Context, action, status string) error {
	return h.publish(ctx, streams.KindOut, "", &streams.Outcome{Head: h.head(identifier("out-" + action)), Action: action,
		Status: status})
}

// ran returns the id of the action that a call executed. If the host has no call ids, it returns the id of the
// latest action of the same tool with the same input.
func (h *handler) ran() (action string, err error) {
	name := "call-" + identifier(h.e.Call)
	if h.e.Call == "" {
		if name, err = h.sameCall(); err != nil {
			return "", nil // this input was never proposed
		}
	}
	ok, err := h.st.take(name, &action)
	if err != nil || ok {
		return action, err
	}
	return identifier(h.e.Call), nil
}

// words returns the texts of a result.
func (h *handler) words() []string {
	read := content.Strings
	if h.e.mcp {
		read = content.All // the server also chose the field names
	}
	words := append(nonEmpty([]string{h.e.Error}), read(h.e.Response)...)
	if h.e.mcp {
		return words
	}
	// The host's own tools repeat their input: the path of a file, the text that the agent wrote.
	sent := content.Strings(h.e.Input)
	return slices.DeleteFunc(words, func(s string) bool { return slices.Contains(sent, s) })
}

// place returns the file or URL that a call names.
func (h *handler) place() string {
	in := h.input()
	return cmp.Or(in.File, in.Notebook, in.URL)
}

// origin returns the origin of the tool's result.
func (h *handler) origin() beliefs.Origin {
	if h.e.mcp {
		return beliefs.OriginTool
	}
	if h.nothingNew() {
		return beliefs.OriginDocument
	}
	if line := h.input().Command; h.e.tool() == "Bash" && shell.Kind(line) != shell.Other && !shell.Remote(line) {
		return h.documentOr() // what it prints is in files, or comes from programs of the folder
	}
	if origin := originOf(h.e.tool()); origin != beliefs.OriginDocument {
		return origin
	}
	return h.documentOr()
}

// nothingNew reports whether git pull or git merge only said that there is nothing new. This text is git's own.
func (h *handler) nothingNew() bool {
	line, ok := shell.Words(h.input().Command)
	return h.e.tool() == "Bash" && ok && len(line) > 1 && line[0] == "git" && (line[1] == "pull" || line[1] == "merge") &&
		!slices.ContainsFunc(h.words(), func(s string) bool {
			s = strings.TrimSpace(s)
			return s != "" && s != "Already up to date."
		})
}

// originOf returns the origin of a tool's result, by the tool's Claude Code name.
func originOf(tool string) beliefs.Origin {
	switch tool {
	case "WebFetch", "WebSearch":
		return beliefs.OriginWeb
	case "Read", "Grep", "NotebookRead", "Glob", "LS", "Write", "Edit", "MultiEdit", "NotebookEdit":
		return beliefs.OriginDocument
	}
	return beliefs.OriginTool
}

// Keep spools an event's records when there is no connection. The next hook of the session sends them
// before it proposes anything.
func Keep(cfg Config, host *Host, e *Event) error {
	h, err := newHandler(cfg, nil, host, e)
	if err != nil || e.Name == PreToolUse {
		return nil
	}
	h.send = func(context.Context, string, []byte) error { return client.ErrHold }
	ctx := context.Background()
	switch e.Name {
	case UserPromptSubmit, UserPromptExpansion:
		err = h.prompted(ctx)
	case PostToolUse, PostToolUseFailure:
		_, err = h.returned(ctx)
	case SubagentStop, TaskCreated, Elicitation, fileRead:
		err = h.heard(ctx)
	case InstructionsLoaded, FileChanged, PostCompact, SessionStart:
		err = h.keepUnadmitted()
	}
	if errors.Is(err, client.ErrHold) {
		return nil // already reported
	}
	return err
}
