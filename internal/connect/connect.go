package connect

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lazaret/internal/hook"
)

// File is a configuration file of MCP servers.
type File struct {
	Path     string // relative to the home folder
	Key      string // key of the servers
	TOML     bool
	SSE      bool // servers under the key url use server-sent events; those under the key httpUrl use Streamable HTTP
	ByFolder bool // the file also has servers for each folder, under the key projects
}

// Host is an agent host.
type Host struct {
	Name  string
	Home  []string // the host's own folders and files: it is installed if one exists
	MCP   []File
	Hooks *hook.Host // nil if it has no supported hooks
}

// Hosts are the supported hosts.
var Hosts = []Host{
	{Name: "Claude Code", Home: []string{".claude", ".claude.json"}, Hooks: hook.ClaudeCode,
		MCP: []File{{Path: ".claude.json", Key: "mcpServers", ByFolder: true}}},
	{Name: "Codex", Home: []string{".codex"}, Hooks: hook.Codex,
		MCP: []File{{Path: ".codex/config.toml", TOML: true}}},
	{Name: "Cursor", Home: []string{".cursor"}, Hooks: hook.Cursor,
		MCP: []File{{Path: ".cursor/mcp.json", Key: "mcpServers"}}},
	{Name: "Gemini CLI", Home: []string{".gemini"}, Hooks: hook.Gemini,
		MCP: []File{{Path: ".gemini/settings.json", Key: "mcpServers", SSE: true}}},
	{Name: "VS Code", Home: []string{".config/Code/User", "Library/Application Support/Code/User"},
		MCP: []File{{Path: ".config/Code/User/mcp.json", Key: "servers"},
			{Path: "Library/Application Support/Code/User/mcp.json", Key: "servers"}}},
}

// Config configures Status, Plan, Apply and Undo.
type Config struct {
	Home    string
	Record  string                        // path of the record, which has the original files
	Wrap    func(Server) (Server, bool)   // returns the server started through lazaret mcp; false: do not change it
	Handler func(*hook.Host) hook.Handler // returns the handler of a host's hooks
	// Installed returns the handler that a command line in a host's settings belongs to. It returns an error if
	// Lazaret does not write this line.
	Installed func(h *hook.Host, line string) (hook.Handler, error)
	// Folder is a project folder whose settings Status reads too; empty: none.
	Folder string
}

// Found is the state of one host.
type Found struct {
	Host  string   `json:"host"`
	Hooks string   `json:"hooks,omitzero"` // installed, missing, changed (they do not guard) or none (not supported)
	File  string   `json:"hooks_file,omitzero"`
	Why   string   `json:"hooks_why,omitzero"` // why changed hooks do not guard
	MCP   []Wiring `json:"mcp,omitzero"`
	Error string   `json:"error,omitzero"`
}

// Guarded reports whether all known servers and hooks of a host are guarded.
func (f *Found) Guarded() bool {
	for _, m := range f.MCP {
		if m.State != "guarded" {
			return false
		}
	}
	return f.Hooks == "installed" && f.Error == ""
}

// Note returns what the user must still do in a host, or "".
func Note(host string) string {
	for _, h := range Hosts {
		if h.Name == host && h.Hooks != nil {
			return h.Hooks.Note
		}
	}
	return ""
}

// Wiring is the state of one MCP server.
type Wiring struct {
	File    string   `json:"file"`
	Name    string   `json:"name"`
	Command []string `json:"command,omitzero"` // command of the original server
	State   string   `json:"state"`            // guarded, open, or remote (reached by HTTP)
	URL     string   `json:"url,omitzero"`     // URL of a server reached by HTTP that can be guarded
	Why     string   `json:"why,omitzero"`     // why a server reached by HTTP cannot be guarded
}

// Status returns the state of each installed host.
func Status(cfg Config) ([]Found, error) {
	var all []Found
	for _, h := range Hosts {
		if !h.here(cfg.Home) {
			continue
		}
		f := Found{Host: h.Name, Hooks: "none"}
		var failed []error
		if h.Hooks != nil {
			failed = append(failed, f.hooks(cfg, h.Hooks))
		}
		for _, file := range h.MCP {
			path := filepath.Join(cfg.Home, file.Path)
			b, err := read(path)
			list, lerr := servers(file, b)
			if err = errors.Join(err, lerr); err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", path, err))
			}
			for _, s := range list {
				f.MCP = append(f.MCP, wiring(path, s.Server))
			}
		}
		if err := errors.Join(failed...); err != nil {
			f.Error = err.Error()
		}
		all = append(all, f)
	}
	return all, nil
}

// hooks sets the state of a host's hooks. They are installed if there is a command line for which the host runs every
// hook that Install registers.
func (f *Found) hooks(cfg Config, h *hook.Host) error {
	f.Hooks, f.File = "missing", filepath.Join(cfg.Home, h.File)
	layers, err := h.Layers(cfg.Home, cfg.Folder, "", os.ReadFile)
	if err != nil {
		return err
	}
	for _, line := range h.Commands(layers) {
		file, why := f.File, ""
		with, err := cfg.Installed(h, line)
		if err != nil {
			why = err.Error()
		} else if file, why, err = h.Lost(layers, with); err != nil {
			return err
		}
		if why == "" {
			f.Hooks, f.File, f.Why = "installed", cmp.Or(file, f.File), ""
			return nil
		}
		if f.Hooks == "missing" {
			f.Hooks, f.File, f.Why = "changed", file, why
		}
	}
	return nil
}

func wiring(path string, s Server) Wiring {
	w := Wiring{File: path, Name: s.Name, State: "open"}
	if s.guarded() {
		w.State = "guarded"
		s, _ = s.bare()
	} else if s.Command == "" {
		w.State = "remote"
	}
	if w.URL, w.Why = s.URL, s.Why; s.Command == "" {
		return w
	}
	w.Command = append([]string{s.Command}, s.Args...)
	return w
}

// Change is the content of a file before and after an edit.
type Change struct {
	File          string
	Before, After []byte
	Existed       bool
}

// Plan returns the changes for Apply. Its error names the files that cannot be edited.
func Plan(cfg Config) ([]Change, error) {
	var changes []Change
	var failed []error
	for _, h := range Hosts {
		if !h.here(cfg.Home) {
			continue
		}
		edits := map[string][]func([]byte) ([]byte, error){}
		var order []string
		put := func(path string, edit func([]byte) ([]byte, error)) {
			path = filepath.Join(cfg.Home, path)
			if edits[path] == nil {
				order = append(order, path)
			}
			edits[path] = append(edits[path], edit)
		}
		for _, file := range h.MCP {
			put(file.Path, func(b []byte) ([]byte, error) {
				out, err := rewire(file, b, func(s Server) (Server, bool) {
					s, _ = s.bare()
					return cfg.Wrap(s)
				})
				return out, err
			})
		}
		if h.Hooks != nil {
			put(h.Hooks.File, func(b []byte) ([]byte, error) {
				return h.Hooks.With(b, cfg.Handler(h.Hooks))
			})
		}
		for _, path := range order {
			c, err := change(path, edits[path])
			if err != nil {
				failed = append(failed, err)
			} else if string(c.Before) != string(c.After) {
				changes = append(changes, c)
			}
		}
	}
	return changes, errors.Join(failed...)
}

// change applies the edits of one file in sequence.
func change(path string, edits []func([]byte) ([]byte, error)) (Change, error) {
	c := Change{File: path, Existed: true}
	var err error
	if _, serr := os.Stat(path); errors.Is(serr, fs.ErrNotExist) {
		c.Existed = false
	} else if c.Before, err = read(path); err != nil {
		return c, err
	}
	c.After = c.Before
	for _, edit := range edits {
		if c.After, err = edit(c.After); err != nil {
			return c, fmt.Errorf("%s: %w", path, err)
		}
	}
	return c, nil
}

// kept is the record's data about one file.
type kept struct {
	File    string `json:"file"`
	Existed bool   `json:"existed"`
	Before  []byte `json:"before"`
	After   string `json:"after"` // SHA-256 of the written content
}

// Apply writes the changes of Plan. It first records the original files.
func Apply(cfg Config, changes []Change) error {
	record, err := load(cfg.Record)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(cfg.Record), 0o700); err != nil {
		return err
	}
	for _, c := range changes {
		k := kept{File: c.File, Existed: c.Existed, Before: c.Before, After: digest(c.After)}
		i := find(record, c.File)
		if i < 0 {
			record = append(record, k)
			continue
		}
		if record[i].After != digest(c.Before) { // others have changed the file since
			if k.Before, err = bare(cfg, c.File, c.Before); err != nil {
				return err
			}
			record[i] = k
		}
		record[i].After = k.After
	}
	if err := save(cfg.Record, record); err != nil {
		return err
	}
	for _, c := range changes {
		if err := hook.Replace(c.File, c.After); err != nil {
			return err
		}
	}
	return nil
}

// Undone is the result of Undo for one file.
type Undone struct {
	File  string
	Exact bool // restored byte for byte; otherwise only the additions are removed
}

// Undo restores every file of the record.
func Undo(cfg Config) ([]Undone, error) {
	record, err := load(cfg.Record)
	if err != nil {
		return nil, err
	}
	var done []Undone
	for len(record) > 0 {
		k := record[0]
		b, err := os.ReadFile(k.File)
		gone := errors.Is(err, fs.ErrNotExist)
		if err != nil && !gone {
			return done, err
		}
		exact := digest(b) == k.After
		switch {
		case gone: // removed by others
		case exact && !k.Existed:
			err = os.Remove(k.File)
		case exact:
			err = hook.Replace(k.File, k.Before)
		default:
			if b, err = bare(cfg, k.File, b); err == nil {
				err = hook.Replace(k.File, b)
			}
		}
		if err != nil && !gone {
			return done, fmt.Errorf("%s: %w", k.File, err)
		}
		done = append(done, Undone{k.File, exact})
		record = record[1:]
		if err := save(cfg.Record, record); err != nil {
			return done, err
		}
	}
	return done, nil
}

// bare returns the content of a host's file without the additions of this package.
func bare(cfg Config, path string, b []byte) ([]byte, error) {
	for _, h := range Hosts {
		for _, file := range h.MCP {
			if filepath.Join(cfg.Home, file.Path) == path {
				var err error
				if b, err = rewire(file, b, Server.bare); err != nil {
					return nil, err
				}
			}
		}
		if h.Hooks != nil && filepath.Join(cfg.Home, h.Hooks.File) == path {
			var err error
			if b, err = h.Hooks.Without(b); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

func (h *Host) here(home string) bool {
	for _, p := range h.Home {
		if _, err := os.Stat(filepath.Join(home, p)); err == nil {
			return true
		}
	}
	return false
}

func read(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func find(record []kept, file string) int {
	for i, k := range record {
		if k.File == file {
			return i
		}
	}
	return -1
}

func load(file string) ([]kept, error) {
	b, err := read(file)
	if err != nil || b == nil {
		return nil, err
	}
	var record []kept
	if err := json.Unmarshal(b, &record); err != nil {
		return nil, fmt.Errorf("%s: %w: this file records the changes that connect made, so that they can be "+
			"undone: repair it, or move it away to start a new record", file, err)
	}
	return record, nil
}

func save(file string, record []kept) error {
	if len(record) == 0 {
		err := os.Remove(file)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	b, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return hook.Replace(file, b)
}
