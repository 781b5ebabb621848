package memorytool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"lazaret/client"
	"lazaret/internal/memgate"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Input is the input of a call of the tool, as sent by the model.
type Input struct {
	Command string `json:"command"`
	Path    string `json:"path,omitzero"`
	OldPath string `json:"old_path,omitzero"`
	NewPath string `json:"new_path,omitzero"`
	Text    string `json:"file_text,omitzero"`
	Old     string `json:"old_str,omitzero"`
	New     string `json:"new_str,omitzero"`
	Line    int    `json:"insert_line,omitzero"`
	Insert  string `json:"insert_text,omitzero"`
	Range   []int  `json:"view_range,omitzero"`
}

// Result is the content of the tool_result block that answers a call.
type Result struct {
	Content string `json:"content"`
	IsError bool   `json:"is_error,omitzero"`
	// Verdict is the verdict on the call: allow, hold or deny. It is empty if nothing was
	// proposed.
	Verdict string `json:"verdict,omitzero"`
	// Hold is the open hold of a write. A repeated call gets the same hold.
	Hold string `json:"hold,omitzero"`
}

// Tool executes calls on the files of one owner.
type Tool struct {
	Judge memgate.Judge
	Dir   string // folder of the files; it is created when needed
	Held  memgate.Held
	Head  streams.Head
	// Lock is held during changes of files. All tools of a folder share it.
	Lock *sync.Mutex
}

// failure is an error whose text is shown to the model.
type failure string

func (f failure) Error() string { return string(f) }

func failf(format string, args ...any) error { return failure(fmt.Sprintf(format, args...)) }

// Call executes one call. If it returns an error, the call counts as held.
func (t *Tool) Call(ctx context.Context, in *Input) (*Result, error) {
	d, err := open(t.Dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var res *Result
	switch in.Command {
	case "view":
		res, err = t.view(ctx, d, in)
	case "create":
		res, err = t.create(ctx, d, in)
	case "str_replace":
		res, err = t.replace(ctx, d, in)
	case "insert":
		res, err = t.insert(ctx, d, in)
	case "delete":
		res, err = t.remove(ctx, d, in)
	case "rename":
		res, err = t.rename(ctx, d, in)
	default:
		err = failf("Error: unknown command %q. Use view, create, str_replace, insert, delete or rename.",
			streams.Clip(in.Command, 40))
	}
	if f, ok := errors.AsType[failure](err); ok {
		return &Result{Content: string(f), IsError: true}, nil
	}
	return res, err
}

func (t *Tool) view(ctx context.Context, d *folder, in *Input) (*Result, error) {
	name, err := d.name(in.Path)
	if err != nil {
		return nil, err
	}
	info, err := d.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failf("The path %s does not exist. Please provide a valid path.", in.Path)
	}
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if in.Range != nil {
			return nil, failf("Error: The `view_range` parameter is not allowed when `path` points to a directory.")
		}
		list, err := d.list(name)
		if err != nil {
			return nil, err
		}
		header := fmt.Sprintf("Here're the files and directories up to 2 levels deep in %s, excluding hidden items and "+
			"node_modules:", shown(name))
		return t.show(ctx, name, header, list, func(s string) (string, error) { return s, nil })
	}
	text, err := d.read(name)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(text, "\n") + 1; n > maxLines {
		return nil, failf("File %s exceeds maximum line limit of 999,999 lines.", in.Path)
	}
	header := fmt.Sprintf("Here's the content of %s with line numbers:", shown(name))
	return t.show(ctx, name, header, text, func(s string) (string, error) { return numbered(s, in.Range) })
}

// show returns the part of a text that may be shown. The mark is a separate line. The lines of a file
// begin with their numbers, so that a file cannot forge the mark.
func (t *Tool) show(ctx context.Context, name, header, text string, form func(string) (string, error)) (*Result,
	error) {
	found, err := memgate.Read(ctx, t.Judge, t.Head, "memory_tool:"+shown(name), []string{text})
	if err != nil {
		return nil, err
	}
	f := found[0]
	if f.Channel == memgate.Refused {
		return &Result{Content: fmt.Sprintf("Lazaret does not show %s: %s.", shown(name), f.Why), IsError: true,
			Verdict: streams.Deny.String()}, nil
	}
	if mark := f.Mark(); mark != "" {
		header += "\n[" + mark + "]"
	}
	body, err := form(f.Text)
	if err != nil {
		return nil, err
	}
	return &Result{Content: header + "\n" + body, Verdict: streams.Allow.String()}, nil
}

func (t *Tool) create(ctx context.Context, d *folder, in *Input) (*Result, error) {
	name, err := d.file(in.Path)
	if err != nil {
		return nil, err
	}
	if _, err := d.Stat(name); err == nil {
		return nil, failf("Error: File %s already exists", in.Path)
	}
	if err := d.parents(name); err != nil {
		return nil, err
	}
	return t.write(ctx, d, name, nil, in.Text, func() (*Result, error) {
		return &Result{Content: "File created successfully at: " + in.Path, Verdict: streams.Allow.String()}, nil
	})
}

func (t *Tool) replace(ctx context.Context, d *folder, in *Input) (*Result, error) {
	name, text, err := d.edited(in.Path, "Error: The path %s does not exist. Please provide a valid path.")
	if err != nil {
		return nil, err
	}
	if in.Old == "" {
		return nil, failf("Error: `old_str` is empty")
	}
	switch lines := occurrences(text, in.Old); len(lines) {
	case 0:
		return nil, failf("No replacement was performed, old_str `%s` did not appear verbatim in %s.", in.Old, in.Path)
	case 1:
	default:
		return nil, failf("No replacement was performed. Multiple occurrences of old_str `%s` in lines: %s. Please "+
			"ensure it is unique",
			in.Old, strings.Trim(fmt.Sprint(lines), "[]"))
	}
	at := strings.Index(text, in.Old)
	next := text[:at] + in.New + text[at+len(in.Old):]
	return t.write(ctx, d, name, &text, next, func() (*Result, error) {
		first := strings.Count(next[:at], "\n") + 1
		last := first + strings.Count(in.New, "\n")
		around := func(s string) (string, error) {
			n := strings.Count(s, "\n") + 1
			return numbered(s, []int{min(n, max(1, first-snippet)), min(n, last+snippet)})
		}
		res, err := t.show(ctx, name,
			"The memory file has been edited. Here is a snippet of "+shown(name)+" with line numbers:", next, around)
		if err != nil || res.IsError { // the file has been edited, but the snippet may not be shown
			return &Result{Content: "The memory file has been edited.", Verdict: streams.Allow.String()}, nil
		}
		return res, nil
	})
}

func (t *Tool) insert(ctx context.Context, d *folder, in *Input) (*Result, error) {
	name, text, err := d.edited(in.Path, "Error: The path %s does not exist")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(text, "\n")
	if in.Line < 0 || in.Line > len(lines) {
		return nil, failf("Error: Invalid `insert_line` parameter: %d. It should be within the range of lines of the "+
			"file: [0, %d]", in.Line, len(lines))
	}
	added := strings.TrimSuffix(in.Insert, "\n")
	next := strings.Join(append(append(append([]string{}, lines[:in.Line]...), added), lines[in.Line:]...), "\n")
	return t.write(ctx, d, name, &text, next, func() (*Result, error) {
		return &Result{Content: fmt.Sprintf("The file %s has been edited.", in.Path), Verdict: streams.Allow.String()}, nil
	})
}

func (t *Tool) remove(ctx context.Context, d *folder, in *Input) (*Result, error) {
	name, err := d.file(in.Path)
	if err != nil {
		return nil, err
	}
	if _, err := d.Stat(name); err != nil {
		return nil, failf("Error: The path %s does not exist", in.Path)
	}
	stamp := d.stamp(name)
	return t.propose(ctx, name, "(deleted)", stamp, func() (*Result, error) {
		if d.stamp(name) != stamp {
			return nil, changed(name)
		}
		return &Result{Content: "Successfully deleted " + in.Path, Verdict: streams.Allow.String()}, d.RemoveAll(name)
	})
}

func (t *Tool) rename(ctx context.Context, d *folder, in *Input) (*Result, error) {
	from, err := d.file(in.OldPath)
	if err != nil {
		return nil, err
	}
	to, err := d.file(in.NewPath)
	if err != nil {
		return nil, err
	}
	check := func() error {
		if _, err := d.Stat(from); err != nil {
			return failf("Error: The path %s does not exist", in.OldPath)
		}
		if _, err := d.Stat(to); err == nil {
			return failf("Error: The destination %s already exists", in.NewPath)
		}
		if strings.HasPrefix(to, from+"/") {
			return failf("Error: The destination %s lies in %s", in.NewPath, in.OldPath)
		}
		if d.depth(from)-strings.Count(from, "/")+strings.Count(to, "/") > maxDepth {
			return failf("Error: A path in %s would have more than %d parts", in.NewPath, maxDepth)
		}
		if err := d.room(to, true); err != nil {
			return err
		}
		return d.parents(to)
	}
	if err := check(); err != nil {
		return nil, err
	}
	stamp := d.stamp(from)
	return t.propose(ctx, to, "(renamed from "+shown(from)+" to "+shown(to)+")", stamp, func() (*Result, error) {
		if err := check(); err != nil {
			return nil, err
		}
		if d.stamp(from) != stamp {
			return nil, changed(from)
		}
		if err := d.MkdirAll(path.Dir(to), 0o700); err != nil {
			return nil, err
		}
		return &Result{Content: fmt.Sprintf("Successfully renamed %s to %s", in.OldPath, in.NewPath),
			Verdict: streams.Allow.String()}, d.Rename(from, to)
	})
}

// write proposes the new text of a file. It writes the file if the proposal is allowed and
// the file still has its old text. before is nil for a new file.
func (t *Tool) write(ctx context.Context, d *folder, name string, before *string, next string,
	done func() (*Result, error)) (*Result, error) {
	if len(next) > maxFile {
		return nil, failf("Error: %s would have %d bytes, and a file has at most %d", shown(name), len(next), maxFile)
	}
	words := next
	if strings.TrimSpace(words) == "" {
		words = "(emptied)"
	}
	was := ""
	if before != nil {
		was = *before
	}
	res, err := t.propose(ctx, name, words, was, func() (*Result, error) {
		if before == nil {
			if err := d.room(name, false); err != nil {
				return nil, err
			}
		}
		now, err := d.read(name)
		if missing := errors.Is(err, fs.ErrNotExist); missing != (before == nil) || !missing && now != was {
			return nil, changed(name)
		}
		return nil, d.write(name, next)
	})
	if res != nil || err != nil {
		return res, err
	}
	return done()
}

// changed returns the failure of a call whose file was changed between its proposal and the verdict.
func changed(name string) error {
	return failf("Error: %s was changed meanwhile. View it again.", shown(name))
}

// propose asks for a verdict on a change. If it is allowed, propose makes the change while holding the
// lock.
func (t *Tool) propose(ctx context.Context, name, words, was string, change func() (*Result, error)) (*Result, error) {
	m := &streams.Memory{Head: t.Head, Key: streams.Clip("memory_tool:"+shown(name), streams.MaxNameLen),
		Content: words, Source: "tool:memory"}
	parts := []string{"memory_tool", was}
	if t.Head.DataSubject != "" {
		parts = append(parts, t.Head.DataSubject)
	}
	replies, _, err := t.Held.Write(ctx, t.Judge, []memgate.Text{{Origin: beliefs.OriginAgent, Memory: m}}, parts...)
	if err != nil {
		return nil, err
	}
	if rep := replies[0]; rep.Verdict != streams.Allow {
		return refused(rep, shown(name)), nil
	}
	t.Lock.Lock()
	defer t.Lock.Unlock()
	return change()
}

func refused(rep *client.Reply, name string) *Result {
	r := &Result{IsError: true, Verdict: rep.Verdict.String()}
	switch {
	case client.Open(rep):
		r.Hold = rep.Entry.Hold.ID
		r.Content = fmt.Sprintf("Lazaret holds this change of %s until a person approves hold %s: %s. Tell the user; "+
			"once it is approved, make the same call again.",
			name, r.Hold, memgate.Why(rep))
	case rep.Verdict == streams.Deny:
		r.Content = fmt.Sprintf("Lazaret denies this change of %s: %s. Do not try the same by other means.", name,
			memgate.Why(rep))
	default:
		r.Content = fmt.Sprintf("Lazaret holds this change of %s: %s.", name, memgate.Why(rep))
	}
	return r
}
