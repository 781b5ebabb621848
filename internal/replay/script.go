package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/files"
	"lazaret/streams"
)

// Epoch is the virtual time at which every replayed session begins.
var Epoch = time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)

// Replay files contain no times. These are typical of agents.
const (
	stepTime  = 5 * time.Second // between two steps
	breakTime = 8 * time.Hour   // between two sessions of one project
)

// Step is one event of a script.
type Step struct {
	Kind   streams.Kind
	Origin beliefs.Origin
	Event  streams.Event
	// Of is the index of the recorded step from which this step was made.
	Of int
}

// Script is one recorded session, ready to be published.
type Script struct {
	Name    string // name in the file
	Project string
	Steps   []Step
	// Unread has the names in the line that are not read, those in a step as steps.NAME. In a labeled corpus these are
	// the labels.
	Unread []string
}

// MaxLine is the longest line that a replay file may have, in bytes.
const MaxLine = 16 << 20

// Files reads scripts from files, or from the *.jsonl files in folders.
func Files(paths []string) ([]Script, error) {
	var out []Script
	err := Lines(paths, func(file string, line []byte) error {
		s, err := Parse(file, line)
		out = append(out, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Lines calls f for each line of files, or of the *.jsonl files in folders, with the file's base name.
// The line is valid only until f returns. Errors contain file and line.
func Lines(paths []string, f func(file string, line []byte) error) error {
	for _, path := range paths {
		names := []string{path}
		if fi, err := os.Stat(path); err != nil {
			return err
		} else if fi.IsDir() {
			if names, err = files.Glob(path, "*.jsonl"); err != nil {
				return err
			}
			if len(names) == 0 {
				return fmt.Errorf("%s: no *.jsonl file in this folder", path)
			}
		}
		for _, name := range names {
			r, err := os.Open(name)
			if err != nil {
				return err
			}
			err = lines(r, filepath.Base(name), f)
			r.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Read reads scripts, one per line: sessions with steps, or single pieces of content. Errors contain
// file and line.
func Read(r io.Reader, name string) ([]Script, error) {
	var out []Script
	err := lines(r, name, func(file string, line []byte) error {
		s, err := Parse(file, line)
		out = append(out, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func lines(r io.Reader, name string, f func(file string, line []byte) error) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), MaxLine)
	for n := 1; sc.Scan(); n++ {
		line := bytes.TrimSpace(sc.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := f(name, line); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// record is a line of a replay file: a session with steps, or a single content.
type record struct {
	SessionID string `json:"session_id"`
	Steps     []step `json:"steps"`

	ID          string `json:"id"`
	Content     string `json:"content"`
	SourceClass string `json:"source_class"`
	Tool        string `json:"tool"`
	UserTask    string `json:"user_task"`
	Followup    *call  `json:"followup_action"`
	Meta        struct {
		Channel string `json:"channel"`
	} `json:"meta"`

	Unread map[string]jsontext.Value `json:",embed"`
}

type step struct {
	Kind        string         `json:"kind"`
	Content     string         `json:"content"`
	Tool        string         `json:"tool"`
	Args        jsontext.Value `json:"args"`
	CallID      string         `json:"call_id"`
	Op          string         `json:"op"`
	Key         string         `json:"key"`
	SourceClass string         `json:"source_class"`

	Unread map[string]jsontext.Value `json:",embed"`
}

// unread returns the names in the line that are not read, those in a step as steps.NAME.
func (r *record) unread() []string {
	names := slices.Collect(maps.Keys(r.Unread))
	for _, s := range r.Steps {
		for k := range s.Unread {
			names = append(names, "steps."+k)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

type call struct {
	Tool string         `json:"tool"`
	Args jsontext.Value `json:"args"`
}

// ParseLabeled parses a line of a labeled corpus as [Parse] does, and its labels into labels.
func ParseLabeled(file string, line []byte, labels any) (Script, error) {
	script, err := Parse(file, line)
	if err != nil {
		return script, err
	}
	if err := streams.Unmarshal(line, labels); err != nil {
		return script, fmt.Errorf("labels of %q: %w", script.Name, err)
	}
	return script, nil
}

// Parse parses one line of the named file.
func Parse(file string, line []byte) (Script, error) {
	var r record
	if err := streams.Unmarshal(line, &r); err != nil {
		return Script{}, fmt.Errorf("neither a session nor a content line: %w", err)
	}
	switch {
	case r.SessionID != "":
		b := newBuilder(file, r.SessionID)
		for i, s := range r.Steps {
			b.of = i
			if err := b.step(s); err != nil {
				return Script{}, fmt.Errorf("session %q, step %d: %w", r.SessionID, i, err)
			}
		}
		b.Unread = r.unread()
		return b.Script, nil
	case r.ID != "" && r.Content != "":
		b := newBuilder(file, r.ID)
		b.line(r)
		b.Unread = r.unread()
		return b.Script, nil
	}
	return Script{}, fmt.Errorf("neither a session (session_id, steps) nor a content line (id, content)")
}

type builder struct {
	Script
	now     time.Time
	session int
	calls   map[string]string // id of a recorded call → id of its action
	of      int               // index of the recorded step
}

func newBuilder(file, id string) *builder {
	return &builder{Script: Script{Name: id, Project: projectName(file, id)}, now: Epoch, session: 1,
		calls: make(map[string]string)}
}

// projectName returns an identifier derived from the session's name in the file, with a digest that
// makes it unique.
func projectName(file, id string) string {
	sum := sha256.Sum256([]byte(file + "\x00" + id))
	clean := strings.Map(func(r rune) rune {
		if r < 0x80 && streams.ValidID(string(r)) {
			return r
		}
		return '-'
	}, id)
	tail := "-" + hex.EncodeToString(sum[:5])
	if n := streams.MaxIDLen - len(streams.SyntheticPrefix) - len(tail); len(clean) > n {
		clean = clean[:n]
	}
	return streams.SyntheticPrefix + clean + tail
}

func (b *builder) head() streams.Head {
	h := streams.Head{ID: fmt.Sprintf("e%d", len(b.Steps)+1), Session: fmt.Sprintf("s%d", b.session), Time: b.now}
	b.now = b.now.Add(stepTime)
	return h
}

func (b *builder) add(kind streams.Kind, origin beliefs.Origin, e streams.Event) {
	b.Steps = append(b.Steps, Step{kind, origin, e, b.of})
}

func (b *builder) observe(origin beliefs.Origin, tool, call, content string) {
	b.add(streams.KindObs, origin, &streams.Observation{Head: b.head(), Tool: name(tool), Call: name(call),
		Content: content})
}

func (b *builder) act(tool, call string, args jsontext.Value) {
	if args.Kind() != '{' {
		args = nil
	}
	h := b.head()
	if call != "" {
		b.calls[call] = h.ID
	}
	b.add(streams.KindAct, "", &streams.Action{Head: h, Tool: name(tool), Args: args})
}

func (b *builder) step(s step) error {
	switch s.Kind {
	case "user":
		b.observe("user", "", "", s.Content)
	case "system", "harness":
		b.observe("system", "", "", s.Content)
	case "agent":
		b.add(streams.KindOut, "", &streams.Outcome{Head: b.head(), Status: streams.StatusAnswer, Content: s.Content})
	case "tool_result":
		b.observe("tool", s.Tool, cmp.Or(b.calls[s.CallID], s.CallID), s.Content)
	case "action":
		if s.Tool == "" {
			return fmt.Errorf("an action without a tool")
		}
		b.act(s.Tool, s.CallID, s.Args)
	case "memory":
		if s.Op == "read" {
			// A third-party memory store returned it. Its author is unknown, so its origin is document.
			b.observe("document", "memory.read", "", s.Content)
			return nil
		}
		if s.Content == "" {
			return nil
		}
		b.add(streams.KindMem, origin(s.SourceClass), &streams.Memory{Head: b.head(), Key: name(s.Key), Content: s.Content})
	case "session_break":
		b.add(streams.KindSession, "", &streams.Session{Head: b.head(), Phase: "end"})
		b.session++
		b.now = b.now.Add(breakTime)
		b.add(streams.KindSession, "", &streams.Session{Head: b.head(), Phase: "start"})
	default:
		return fmt.Errorf("unknown kind %q", s.Kind)
	}
	return nil
}

// line builds the shortest session that contains a single piece of content.
func (b *builder) line(r record) {
	if r.UserTask != "" {
		b.observe("user", "", "", r.UserTask)
	}
	if r.Tool == "memory.write" || r.Meta.Channel == "memory" {
		b.add(streams.KindMem, origin(r.SourceClass), &streams.Memory{Head: b.head(), Content: r.Content})
	} else {
		o := origin(r.SourceClass)
		b.observe(o, r.Tool, "", r.Content)
	}
	if r.Followup != nil && r.Followup.Tool != "" {
		b.act(r.Followup.Tool, "", r.Followup.Args)
	}
}

// origin returns the origin for a source class of a replay file.
func origin(class string) beliefs.Origin {
	switch class {
	case "user":
		return "user"
	case "system":
		return "system"
	case "agent":
		return "agent"
	case "external_tool":
		return "tool"
	}
	return "document"
}

// name cuts a name to the protocol's limit.
func name(s string) string {
	if len(s) > streams.MaxNameLen {
		return strings.ToValidUTF8(s[:streams.MaxNameLen], "")
	}
	return s
}
