package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// isOurs reports whether a command is one of ours, whatever its flags are.
func isOurs(command string) bool {
	return strings.Contains(command, " hook claude") || strings.Contains(command, "lazaret-hook claude") || strings.Contains(command, "lazaret-hook' claude")
}

// settings is a JSON object whose members keep their order: a file of the user's
// is changed in as few places as can be.
type settings struct {
	names  []string
	values map[string]jsontext.Value
}

func readSettings(b []byte) (*settings, error) {
	s := &settings{values: make(map[string]jsontext.Value)}
	if len(bytes.TrimSpace(b)) == 0 {
		return s, nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(b))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, errors.Join(err, errors.New("it is no JSON object"))
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		v, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		s.set(key, v.Clone())
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *settings) set(name string, v jsontext.Value) {
	if _, ok := s.values[name]; !ok {
		s.names = append(s.names, name)
	}
	s.values[name] = v
}

func (s *settings) remove(name string) {
	delete(s.values, name)
	for i, n := range s.names {
		if n == name {
			s.names = append(s.names[:i], s.names[i+1:]...)
			return
		}
	}
}

func (s *settings) bytes() (jsontext.Value, error) {
	var b bytes.Buffer
	e := jsontext.NewEncoder(&b)
	if err := e.WriteToken(jsontext.BeginObject); err != nil {
		return nil, err
	}
	for _, n := range s.names {
		if err := errors.Join(e.WriteToken(jsontext.String(n)), e.WriteValue(s.values[n])); err != nil {
			return nil, err
		}
	}
	err := e.WriteToken(jsontext.EndObject)
	return b.Bytes(), err
}

// group is one entry of an event's hooks.
type group struct {
	Hooks []struct {
		Command string `json:"command"`
	} `json:"hooks"`
}

func ours(raw jsontext.Value) bool {
	var g group
	if json.Unmarshal(raw, &g) != nil || len(g.Hooks) == 0 {
		return false
	}
	for _, h := range g.Hooks {
		if !isOurs(h.Command) {
			return false
		}
	}
	return true
}

// Install puts the command into a settings file of Claude Code, for every event
// that is used, in place of what an earlier Install put there. timeout is when the
// host gives a hook up; since a hook that is given up blocks nothing, it lies
// above what the command needs at most.
func Install(file, command string, timeout time.Duration) error {
	return edit(file, func(hooks *settings) error {
		for _, event := range Events {
			own, err := json.Marshal(map[string]any{"hooks": []map[string]any{
				{"type": "command", "command": command, "timeout": int(timeout.Seconds())}}})
			if err != nil {
				return err
			}
			others, err := without(hooks.values[event])
			if err != nil {
				return fmt.Errorf("hooks.%s: %w", event, err)
			}
			list, err := json.Marshal(append(others, json.RawMessage(own)))
			if err != nil {
				return err
			}
			hooks.set(event, list)
		}
		return nil
	})
}

// Uninstall takes out what Install put in.
func Uninstall(file string) error {
	return edit(file, func(hooks *settings) error {
		for _, event := range append([]string(nil), hooks.names...) {
			others, err := without(hooks.values[event])
			if err != nil {
				continue // not a list, so not ours
			}
			if len(others) == 0 {
				hooks.remove(event)
				continue
			}
			list, err := json.Marshal(others)
			if err != nil {
				return err
			}
			hooks.set(event, list)
		}
		return nil
	})
}

// without is a list of hooks without ours.
func without(list jsontext.Value) ([]json.RawMessage, error) {
	if len(list) == 0 {
		return nil, nil
	}
	var all []json.RawMessage
	if err := json.Unmarshal(list, &all); err != nil {
		return nil, err
	}
	var out []json.RawMessage
	for _, g := range all {
		if !ours(jsontext.Value(g)) {
			out = append(out, g)
		}
	}
	return out, nil
}

func edit(file string, change func(hooks *settings) error) error {
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	all, err := readSettings(b)
	if err != nil {
		return fmt.Errorf("%s: %w: mend it first, it is not touched", file, err)
	}
	hooks, err := readSettings(all.values["hooks"])
	if err != nil {
		return fmt.Errorf("%s: hooks: %w: mend it first, it is not touched", file, err)
	}
	if err := change(hooks); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(hooks.names) == 0 {
		all.remove("hooks")
	} else {
		v, err := hooks.bytes()
		if err != nil {
			return err
		}
		all.set("hooks", v)
	}
	out, err := all.bytes()
	if err != nil {
		return err
	}
	if err := out.Indent(jsontext.WithIndent("  ")); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".settings-")
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if i, err := os.Stat(file); err == nil {
		mode = i.Mode().Perm()
	}
	_, err = f.Write(append(bytes.TrimSpace(out), '\n'))
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
