package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"lazaret/pkg/files"
)

// Handler is the entry for the hook in a host's settings.
type Handler struct {
	Command string
	// Timeout is how long the host waits for the hook. A hook that times out blocks nothing, so Timeout
	// must exceed the longest run time of the command.
	Timeout time.Duration
	// URL, if set, replaces the command for all events except those that need the host's files. The
	// host takes the bearer token from the variable TokenVariable.
	URL string
}

// TokenVariable is the environment variable with the bearer token of a Handler's URL.
const TokenVariable = "LAZARET_TOKEN"

// isOurs reports whether a command or URL in a host's settings belongs to Lazaret.
func isOurs(host, command, url string) bool {
	if strings.HasSuffix(url, "/v1/hooks/"+host) {
		return true
	}
	for _, c := range []string{" hook " + host, "lazaret-hook " + host, "lazaret-hook' " + host} {
		if strings.Contains(command, c) {
			return true
		}
	}
	return false
}

// Install writes the handler into a settings file of the host for every event in Events. It replaces
// the entries of an earlier Install.
func (h *Host) Install(file string, with Handler) error {
	return edit(file, func(b []byte) ([]byte, error) { return h.With(b, with) })
}

// Uninstall removes the entries that Install wrote, and reports whether the file had any. A missing file has none.
func (h *Host) Uninstall(file string) (found bool, err error) {
	err = edit(file, func(b []byte) ([]byte, error) {
		out, err := h.Without(b)
		found = !bytes.Equal(out, b)
		return out, err
	})
	return found && err == nil, err
}

// With returns settings with the handler added. Formatting and comments of the rest are preserved.
func (h *Host) With(settings []byte, with Handler) ([]byte, error) {
	settings, err := h.Without(settings)
	if err != nil {
		return nil, err
	}
	all, err := parseSettings(settings)
	if err != nil {
		return nil, err
	}
	root := all.Value.(*hujson.Object)
	if h.Flat && member(all, "version") == nil {
		add(root, 1, "version", []byte("1"))
	}
	hooks := member(all, "hooks")
	if hooks == nil {
		hooks = add(root, 1, "hooks", []byte("{}"))
	}
	events, ok := hooks.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("`hooks` is not a JSON object: correct it first; the file was not changed")
	}
	for _, event := range h.Events {
		own, err := json.MarshalIndent(h.entry(event, with), "      ", "  ")
		if err != nil {
			return nil, err
		}
		list := member(hooks, event)
		if list == nil {
			list = add(events, 2, event, []byte("[]"))
		}
		a, ok := list.Value.(*hujson.Array)
		if !ok {
			return nil, fmt.Errorf("`hooks.%s` is not a list: correct it first; the file was not changed", event)
		}
		v, err := hujson.Parse(own)
		if err != nil {
			return nil, err
		}
		v.BeforeExtra = newline(3)
		if n := len(a.Elements); n == 0 {
			a.AfterExtra = newline(2)
		} else {
			v.AfterExtra = comma(&a.Elements[n-1])
		}
		a.Elements = append(a.Elements, v)
	}
	return all.Pack(), nil
}

// Without returns settings without the handler.
func (h *Host) Without(settings []byte) ([]byte, error) {
	all, err := parseSettings(settings)
	if err != nil {
		return nil, err
	}
	hooks := member(all, "hooks")
	if hooks == nil {
		return settings, nil
	}
	events, ok := hooks.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("`hooks` is not a JSON object: correct it first; the file was not changed")
	}
	removed := false
	for i := range events.Members {
		a, ok := events.Members[i].Value.Value.(*hujson.Array)
		if !ok {
			continue // not a list, so not written by Install
		}
		n := len(a.Elements)
		if n == 0 {
			continue
		}
		end := comma(&a.Elements[n-1])
		a.Elements = slices.DeleteFunc(a.Elements, h.ours)
		if k := len(a.Elements); k < n {
			removed = true
			if k > 0 {
				a.Elements[k-1].AfterExtra = end
			}
		}
	}
	if !removed {
		return settings, nil
	}
	drop(events, func(m *hujson.Value) bool {
		a, ok := m.Value.(*hujson.Array)
		return ok && len(a.Elements) == 0
	})
	if len(events.Members) == 0 {
		drop(all.Value.(*hujson.Object), func(m *hujson.Value) bool { return m == hooks })
	}
	return all.Pack(), nil
}

// needsFiles are the events that need files of the host.
var needsFiles = map[string]bool{SessionStart: true, InstructionsLoaded: true, FileChanged: true, ConfigChange: true}

// entry returns the handler in the format of an event's list.
func (h *Host) entry(event string, with Handler) any {
	unit := time.Second
	if h.Millis {
		unit = time.Millisecond
	}
	handler := map[string]any{"command": with.Command, "timeout": int(with.Timeout / unit)}
	if h.Closed {
		handler["failClosed"] = true
	}
	if h.Flat {
		return handler
	}
	handler["type"] = "command"
	if with.URL != "" && h.HTTP && !needsFiles[event] {
		delete(handler, "command")
		handler["type"], handler["url"] = "http", with.URL
		handler["headers"] = map[string]string{"Authorization": "Bearer $" + TokenVariable}
		handler["allowedEnvVars"] = []string{TokenVariable}
	}
	group := map[string]any{"hooks": []any{handler}}
	if m := h.Matchers[event]; m != "" {
		group["matcher"] = m
	}
	return group
}

// named has the command and the URL of a handler in the settings.
type named struct {
	Command string `json:"command"`
	URL     string `json:"url"`
}

// handlersOf returns the handlers of an entry of an event's list: those of a group, or the entry itself.
func handlersOf(v hujson.Value) []named {
	var g struct {
		named
		Hooks []named `json:"hooks"`
	}
	v = v.Clone()
	v.Standardize()
	if json.Unmarshal(v.Pack(), &g) != nil {
		return nil
	}
	if g.Command != "" {
		return append(g.Hooks, g.named)
	}
	return g.Hooks
}

// ours reports whether an entry of an event's list contains only handlers of Lazaret.
func (h *Host) ours(v hujson.Value) bool {
	all := handlersOf(v)
	return len(all) > 0 && !slices.ContainsFunc(all, func(c named) bool { return !isOurs(h.Name, c.Command, c.URL) })
}

func parseSettings(b []byte) (*hujson.Value, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		b = []byte("{}\n")
	}
	v, err := hujson.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%w: correct the file first; it was not changed", err)
	}
	if _, ok := v.Value.(*hujson.Object); !ok {
		return nil, errors.New("it is not a JSON object: correct the file first; it was not changed")
	}
	return &v, nil
}

// member returns a member of an object, or nil. If the name occurs twice, it returns the last one, as
// JSON parsers do.
func member(v *hujson.Value, name string) *hujson.Value {
	if v == nil {
		return nil
	}
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	for i := len(o.Members) - 1; i >= 0; i-- {
		if l, ok := o.Members[i].Name.Value.(hujson.Literal); ok && l.String() == name {
			return &o.Members[i].Value
		}
	}
	return nil
}

// add appends a member on a line of its own, indented for the given depth.
func add(o *hujson.Object, depth int, name string, value []byte) *hujson.Value {
	v, err := hujson.Parse(value)
	if err != nil {
		panic(err) // cannot happen: the value is a constant
	}
	v.BeforeExtra = hujson.Extra(" ")
	if n := len(o.Members); n == 0 {
		o.AfterExtra = newline(depth - 1)
	} else {
		v.AfterExtra = comma(&o.Members[n-1].Value)
	}
	key := hujson.Value{BeforeExtra: newline(depth), Value: hujson.String(name)}
	o.Members = append(o.Members, hujson.ObjectMember{Name: key, Value: v})
	return &o.Members[len(o.Members)-1].Value
}

// drop removes the members that gone selects.
func drop(o *hujson.Object, gone func(*hujson.Value) bool) {
	n := len(o.Members)
	if n == 0 {
		return
	}
	end := comma(&o.Members[n-1].Value)
	kept := o.Members[:0]
	for i := range o.Members {
		if !gone(&o.Members[i].Value) {
			kept = append(kept, o.Members[i])
		}
	}
	switch o.Members = kept; {
	case len(kept) == 0:
		o.AfterExtra = nil
	case len(kept) < n:
		kept[len(kept)-1].Value.AfterExtra = end
	}
}

// comma returns the text after the last value of a list, so that a trailing comma is kept if there was
// one.
func comma(last *hujson.Value) hujson.Extra {
	if last.AfterExtra == nil {
		return nil
	}
	return hujson.Extra{}
}

func newline(depth int) hujson.Extra { return hujson.Extra("\n" + strings.Repeat("  ", depth)) }

// edit applies change to a file. On an error the file stays unchanged.
func edit(file string, change func([]byte) ([]byte, error)) error {
	b, err := os.ReadFile(file)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	out, err := change(b)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if bytes.Equal(out, b) {
		return nil
	}
	return Replace(file, out)
}

// Replace writes a user's file atomically and keeps its mode. If file is a symbolic link, Replace
// writes its target.
func Replace(file string, b []byte) error {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return files.Replace(file, b)
}
