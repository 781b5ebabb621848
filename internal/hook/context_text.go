package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"lazaret/client"
	"lazaret/internal/memgate"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// entry is text that entered the context before a verdict could be asked for: a file of instructions,
// or the summary of a compaction. It is stored until it is admitted. Until then every call of the
// session is refused.
type entry struct {
	File   string          `json:"file,omitzero"`
	Memory *streams.Memory `json:"memory,omitzero"`
}

// Prefixes of the names of the files that store entries. The start of a session deletes the summary
// entries, because a new context has no summary. It keeps the file entries, because the host may
// report the files before the session starts.
const (
	fileEntry    = entryPrefix + "file-"
	summaryEntry = entryPrefix + "summary-"
)

// started records the start of a session. A resumed, compacted or forked session keeps its context.
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
	return h.entered(ctx)
}

// entered asks for a verdict on text that entered the context. The host cannot remove the text, so a
// refusal blocks the calls that follow.
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

// keepUnadmitted stores the text that entered the context as an entry.
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
		if h.memoryFile(h.e.File) != "" {
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

// path returns the absolute path of a file that a host names.
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

// keepEntry stores an entry under a new name, so that a process that judged an earlier text of the same
// file does not remove it.
func (h *handler) keepEntry(e *entry) error {
	prefix := fileEntry
	if e.Memory != nil {
		prefix = summaryEntry
	}
	return h.st.write(prefix+client.NewID(), e)
}

// unadmitted asks again about every stored entry. It returns the reason if any is still refused. An
// admitted entry is removed, with those about the same text that were stored before it was judged.
func (h *handler) unadmitted(ctx context.Context) (why string, err error) {
	names, err := h.st.names(entryPrefix)
	if err != nil {
		return "", err
	}
	same := make(map[string][]string) // names of the entries, by their content
	for _, name := range names {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another hook process has handled it
		}
		if err != nil {
			return "", fmt.Errorf("reading the hook's state: %w", err)
		}
		same[string(b)] = append(same[string(b)], name)
	}
	for _, content := range slices.Sorted(maps.Keys(same)) {
		var e entry
		if err := json.Unmarshal([]byte(content), &e); err != nil {
			return "", fmt.Errorf("%s: %w: text that entered the context cannot be judged; end the session and "+
				"remove the file", same[content][0], err)
		}
		refused, err := h.judge(ctx, &e)
		if err != nil {
			return "", err
		}
		if refused != "" {
			why = refused
			continue
		}
		for _, name := range same[content] {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
		}
	}
	return why, nil
}

// Limits of the judged text, in bytes. A longer part is judged in pieces that overlap.
const (
	most    = 256 << 10 // maximum length of a file
	part    = 32 << 10
	overlap = 4 << 10
)

// judge asks for a verdict on an entry. It returns the reason of a refusal, or "" if the entry is
// admitted.
func (h *handler) judge(ctx context.Context, e *entry) (why string, err error) {
	if e.Memory != nil {
		rep, err := memgate.Entered(ctx, h.c, beliefs.OriginAgent, e.Memory)
		if err != nil || rep.Verdict == streams.Allow {
			return "", err
		}
		return reason(rep, "the summary of the compaction"), nil
	}
	if h.cfg.Read == nil { // only a hook that can read the host's files can judge the file
		return "Lazaret has not admitted the agent's instructions in " + h.fileKey(e.File) +
			". Tell the user to correct the file; until then every call is refused.", nil
	}
	b, err := h.cfg.Read(e.File)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading instructions: %w", err)
	}
	if len(b) > most {
		return "", fmt.Errorf("instructions in %s have %d bytes, the limit is %d", e.File, len(b), most)
	}
	key := h.fileKey(e.File)
	found, err := memgate.Read(ctx, h.c, streams.Head{Session: h.session}, key,
		parts(strings.ToValidUTF8(string(b), "\uFFFD")))
	if err != nil {
		return "", err
	}
	for _, f := range found {
		if f.Channel == memgate.Refused && !f.OverQuota {
			return streams.Clip("Lazaret refuses the agent's instructions in "+key+": "+f.Why, 900) +
				" Tell the user to correct the file; until then every call is refused.", nil
		}
	}
	return "", nil
}

// parts returns a text, its paragraphs, their lines and sentences, so that refused text is recognized inside
// other text. It returns each part twice: unchanged, and with every white space replaced by one ASCII space.
func parts(s string) (out []string) {
	seen := map[string]bool{}
	add := func(s string) {
		for _, s := range []string{s, strings.TrimSpace(s), folded(s)} {
			for _, piece := range pieces(s) {
				if !seen[piece] && strings.ContainsFunc(piece, unicode.IsLetter) {
					seen[piece] = true
					out = append(out, piece)
				}
			}
		}
	}
	addAll := func(s string) {
		add(strings.TrimSpace(s))
		s = folded(s)
		from := 0
		for _, end := range sentenceEnd.FindAllStringIndex(s, -1) {
			add(strings.TrimSpace(s[from:end[1]]))
			from = end[1]
		}
		add(s[from:])
	}
	add(s)
	for paragraph := range strings.SplitSeq(strings.ReplaceAll(s, "\r\n", "\n"), "\n\n") {
		addAll(paragraph)
		for line := range strings.Lines(paragraph) {
			addAll(line)
			addAll(strings.TrimLeft(line, " \t#*->+0123456789.)"))
		}
	}
	return out
}

// sentenceEnd is the end of a sentence. Chinese and Japanese have no space between sentences.
var sentenceEnd = regexp.MustCompile(`[.!?]+["')\]”’]* |[。！？｡]+["」』）”’]*`)

// folded returns s with every white space of Unicode as one ASCII space, and none around it.
func folded(s string) string { return strings.Join(strings.Fields(s), " ") }

// pieces returns s, or pieces of it if it is longer than a part. Adjacent pieces overlap.
func pieces(s string) (out []string) {
	at := func(i int) int {
		for !utf8.RuneStart(s[i]) {
			i--
		}
		return i
	}
	for len(s) > part {
		out = append(out, s[:at(part)])
		s = s[at(part-overlap):]
	}
	return append(out, s)
}

// heard records text, other than prompts and results, that reaches the model or the user.
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
		if !h.document(e.File) {
			origin = beliefs.OriginTool
		}
	}
	if words == "" {
		return h.flush(ctx)
	}
	return h.observe(ctx, origin, h.e.Tool, "", source, []streams.Block{{Text: words}})
}
