package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lazaret/internal/memgate"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// entry is text that entered the context without being asked about: a file of
// instructions, or the summary of a compaction. It is kept until it is admitted, and
// until then every call of the session is refused.
type entry struct {
	File   string          `json:"file,omitzero"`
	Memory *streams.Memory `json:"memory,omitzero"`
}

// Files of the state begin so. A new context has no summary; its files may be reported
// before it starts.
const (
	fileEntry    = "entry-file-"
	summaryEntry = "entry-summary-"
)

// started records that a session starts. A resumed, compacted or forked one goes on with
// the same context.
func (h *handler) started(ctx context.Context) error {
	goesOn := h.e.Source == "resume" || h.e.Source == "compact" || h.e.Source == "fork" || h.e.Agent != ""
	if goesOn {
		if err := h.flush(ctx); err != nil {
			return err
		}
	} else {
		if err := h.st.drop(summaryEntry); err != nil {
			return err
		}
		if err := h.publish(ctx, streams.KindSession, "", &streams.Session{Head: h.head(""), Phase: "start"}); err != nil {
			return err
		}
	}
	if err := h.noteSettings(); err != nil {
		return err
	}
	return h.entered(ctx)
}

// entered judges what entered the context. The host cannot be told to leave it out, so a
// refusal stands in the way of the calls that follow.
func (h *handler) entered(ctx context.Context) error {
	if err := h.keepUnadmitted(); err != nil {
		return err
	}
	if err := h.flush(ctx); err != nil {
		return err
	}
	_, err := h.unadmitted(ctx)
	return err
}

// keepUnadmitted keeps what entered the context until it is admitted.
func (h *handler) keepUnadmitted() error {
	var files []string
	switch h.e.Name {
	case PostCompact:
		if h.e.Summary == "" {
			return nil
		}
		return h.keepEntry(&entry{Memory: &streams.Memory{Head: streams.Head{Session: h.session},
			Key: "compaction:" + h.session, Content: h.e.Summary, Channel: streams.ChannelCompaction,
			Source: "compaction:" + cmp.Or(h.e.Trigger, "auto")}})
	case FileChanged:
		if IsMemoryFile(h.e.File) {
			files = []string{h.e.File}
		}
	case InstructionsLoaded:
		files = []string{h.e.File}
	case SessionStart:
		files = h.host.memory
	}
	if h.cfg.Read == nil {
		return nil
	}
	for _, file := range files {
		if file = h.path(file); file == "" {
			continue
		}
		if err := h.keepEntry(&entry{File: file}); err != nil {
			return err
		}
	}
	return nil
}

// path is the whole path of a file that a host names.
func (h *handler) path(file string) string {
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		return filepath.Join(home, rest)
	}
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(h.e.CWD, file)
}

func (h *handler) keepEntry(e *entry) error {
	key, err := json.Marshal(e)
	if err != nil {
		return err
	}
	prefix := fileEntry
	if e.Memory != nil {
		prefix = summaryEntry
	}
	return h.st.write(prefix+pendingName(string(key)), e)
}

// unadmitted judges anew what was not admitted yet, and says why it still is not.
func (h *handler) unadmitted(ctx context.Context) (why string, err error) {
	names, err := h.st.names("entry-")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		var e entry
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another hook has judged it
		}
		if err == nil {
			err = json.Unmarshal(b, &e)
		}
		if err != nil {
			return "", fmt.Errorf("reading the hook's state: %w", err)
		}
		refused, err := h.judge(ctx, &e)
		if err != nil {
			return "", err
		}
		if refused != "" {
			why = refused
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return why, nil
}

// most is the size of a file that is judged, and part that of one part of it.
const (
	most = 256 << 10
	part = 32 << 10
)

// judge says why an entry is refused; empty if it is admitted.
func (h *handler) judge(ctx context.Context, e *entry) (why string, err error) {
	if e.Memory != nil {
		rep, err := memgate.Write(ctx, h.c, beliefs.OriginAgent, e.Memory)
		if err != nil || rep.Verdict == streams.Allow {
			return "", err
		}
		return reason(rep, "what the compaction of the context left"), nil
	}
	if h.cfg.Read == nil { // another hook, with the host's files, judges it
		return "Lazaret has not admitted what the agent read as its instructions in " + h.fileKey(e.File) +
			". Tell the user to mend the file; until then no call is made.", nil
	}
	b, err := h.cfg.Read(e.File)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading instructions: %w", err)
	}
	if len(b) > most {
		return "", fmt.Errorf("instructions in %s have %d bytes, and at most %d are judged", e.File, len(b), most)
	}
	key := h.fileKey(e.File)
	found, err := memgate.Read(ctx, h.c, streams.Head{Session: h.session}, key,
		parts(strings.ToValidUTF8(string(b), "\uFFFD")))
	if err != nil {
		return "", err
	}
	for _, f := range found {
		if f.Channel == memgate.Refused {
			return streams.Clip("Lazaret refuses what the agent read as its instructions in "+key+": "+f.Why, 900) +
				" Tell the user to mend the file; until then no call is made.", nil
		}
	}
	return "", nil
}

// parts are the paragraphs of a text and their lines: what was refused is recognised
// when it stands among other words.
func parts(s string) (out []string) {
	seen := map[string]bool{}
	add := func(s string) {
		if s = strings.TrimSpace(s); !seen[s] && strings.Contains(s, " ") {
			seen[s] = true
			out = append(out, streams.Clip(s, part))
		}
	}
	for paragraph := range strings.SplitSeq(strings.ReplaceAll(s, "\r\n", "\n"), "\n\n") {
		add(paragraph)
		for line := range strings.Lines(paragraph) {
			add(line)
			add(strings.TrimLeft(line, " \t#*->+0123456789.)"))
		}
	}
	return out
}

// heard records what reaches the model, or the user, beside prompts and results.
func (h *handler) heard(ctx context.Context) error {
	origin, source, words := beliefs.OriginAgent, h.subagent(), ""
	switch e := h.e; e.Name {
	case SubagentStop:
		words, source = e.Last, cmp.Or(source, "subagent")
	case TaskCreated:
		words, source = strings.Join(nonEmpty([]string{e.Task, e.TaskText}), "\n"), "task:"+e.TaskID
	case Elicitation:
		origin, words, source = beliefs.OriginTool, e.Message, "mcp:"+e.Server
	case fileRead:
		origin, words, source = beliefs.OriginDocument, strings.Join(h.words(), "\n"), e.File
	}
	if words == "" {
		return h.flush(ctx)
	}
	return h.observe(ctx, origin, h.e.Tool, "", source, []streams.Block{{Text: words}})
}
