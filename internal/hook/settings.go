package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// Layer is one of the settings files that a host merges.
type Layer struct {
	File    string
	Managed bool // an administrator's file; no other file can disable its hooks
	Text    []byte
}

// Layers reads the settings files that a host merges: those of the machine, of the user, of a project folder if one
// is given, and the one that other names, if any. read returns fs.ErrNotExist for a file that does not exist.
func (h *Host) Layers(home, folder, other string, read func(string) ([]byte, error)) ([]Layer, error) {
	var layers []Layer
	add := func(file string, managed bool) error {
		b, err := read(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading settings: %w", err)
		}
		layers = append(layers, Layer{file, managed, b})
		return nil
	}
	var failed []error
	if dir := h.managed[runtime.GOOS]; dir != "" {
		more, err := filepath.Glob(filepath.Join(dir, "managed-settings.d", "*.json"))
		failed = append(failed, err)
		for _, file := range append(more, filepath.Join(dir, "managed-settings.json")) {
			failed = append(failed, add(file, true))
		}
	}
	files := []string{filepath.Join(home, filepath.FromSlash(h.File))}
	for _, name := range append([]string{h.File}, h.local...) {
		if folder == "" {
			break
		}
		files = append(files, filepath.Join(folder, filepath.FromSlash(name)))
	}
	files = append(files, other)
	for i, file := range files {
		if file != "" && !slices.Contains(files[:i], file) {
			failed = append(failed, add(file, false))
		}
	}
	return layers, errors.Join(failed...)
}

// variables are environment variables that direct the hook to other files. Settings must not set them.
var variables = []string{"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT",
	"LAZARET_DATA"}

// connection are environment variables that direct a hook without --data to another server. A project may set them for
// its own programs.
var connection = []string{"NATS_CONTEXT", "NATS_CREDS", "NATS_INBOX_PREFIX", "NATS_NKEY", "NATS_PASSWORD", "NATS_TOKEN",
	"NATS_URL", "NATS_USER"}

// Lost returns why a host with these settings does not run the hook as Install registers it, and the file that has to
// be corrected. If the host runs the hook, why is empty, and file is the first file with an entry of the hook. If with
// has no command, the hook belongs to a plugin, and no layer has its entries. Lost returns an error if it cannot parse
// a layer that does not have the entries.
func (h *Host) Lost(layers []Layer, with Handler) (file, why string, err error) {
	var all []parsed
	for _, l := range layers {
		v, perr := parseSettings(l.Text)
		if perr != nil {
			err = errors.Join(err, fmt.Errorf("%s cannot be parsed: %w", l.File, perr))
			continue
		}
		all = append(all, parsed{l, v})
	}
	managed := true // every entry is in a managed layer
	if with.Command != "" {
		if file, why, managed = h.entries(all, with); why != "" {
			return cmp.Or(file, filepath.FromSlash(h.File)), why, nil
		}
	}
	for _, l := range all {
		if !l.Managed && managed && with.Command != "" {
			continue
		}
		if off := member(l.v, h.off); h.off != "" && off != nil && !no(off) {
			return l.File, h.off + " turns all hooks off", nil
		}
		names := variables
		if with.Command != "" && !strings.Contains(with.Command, "--data") {
			names = slices.Concat(variables, connection)
		}
		for _, name := range names {
			if member(member(l.v, "env"), name) != nil {
				return l.File, "env." + name + " directs the hook to other files", nil
			}
		}
	}
	if with.URL != "" {
		for key, value := range map[string]string{"allowedHttpHookUrls": with.URL, "httpHookAllowedEnvVars": TokenVariable} {
			if file := unlisted(all, key, value); file != "" {
				return file, key + " does not list " + value, nil
			}
		}
	}
	return file, "", err
}

// Commands returns the commands of Lazaret in settings, in order. Layers that cannot be parsed have none.
func (h *Host) Commands(layers []Layer) (commands []string) {
	for _, l := range layers {
		all, err := parseSettings(l.Text)
		if err != nil {
			continue
		}
		for _, event := range h.Events {
			list := member(member(all, "hooks"), event)
			if list == nil {
				continue
			}
			a, ok := list.Value.(*hujson.Array)
			if !ok {
				continue
			}
			for _, v := range a.Elements {
				for _, c := range handlersOf(v) {
					if isOurs(h.Name, c.Command, "") && !slices.Contains(commands, c.Command) {
						commands = append(commands, c.Command)
					}
				}
			}
		}
	}
	return commands
}

// parsed is a layer with its parsed text.
type parsed struct {
	Layer
	v *hujson.Value
}

// entries looks for the entries of the hook. Each event needs an entry exactly as Install writes it. An entry that
// names the hook and differs is a fault even then: hosts run only one of several entries with the same command, perhaps
// the other one. managed reports whether managed layers have all entries. If there is no fault, why is empty, and file
// is the first file with an entry.
func (h *Host) entries(all []parsed, with Handler) (file, why string, managed bool) {
	only := slices.ContainsFunc(all, func(l parsed) bool {
		v := member(l.v, "allowManagedHooksOnly")
		return l.Managed && v != nil && !no(v)
	})
	managed = true
	for _, event := range h.Events {
		found, inManaged := false, false
		for _, l := range all {
			list := member(member(l.v, "hooks"), event)
			if list == nil || only && !l.Managed {
				continue
			}
			a, ok := list.Value.(*hujson.Array)
			if !ok {
				continue
			}
			for _, v := range a.Elements {
				has, exact := h.match(v, event, with)
				if has && !exact {
					return l.File, "the entry of " + event + " differs from the one that --install writes", false
				}
				found, inManaged = found || exact, inManaged || exact && l.Managed
				if exact && file == "" {
					file = l.File
				}
			}
		}
		if !found {
			return file, "no entry of " + event + " has the form that --install writes", false
		}
		managed = managed && inManaged
	}
	return file, "", managed
}

// longest is the maximum timeout of an entry. Hosts treat a number that is too large as a short time.
const longest = 24 * time.Hour

// match reports whether an element of an event's list names the hook (has), and whether it is the element that Install
// writes (exact). An exact element may have a longer timeout, and another text that the host shows while the hook runs.
func (h *Host) match(v hujson.Value, event string, with Handler) (has, exact bool) {
	var got, want map[string]any
	v = v.Clone()
	v.Standardize()
	if json.Unmarshal(v.Pack(), &got) != nil || json.Unmarshal(asJSON(h.entry(event, with)), &want) != nil {
		return false, false
	}
	handlers := []any{got}
	group := true
	if !h.Flat {
		handlers, _ = got["hooks"].([]any)
		list, _ := want["hooks"].([]any)
		m := got["matcher"]
		group = m == want["matcher"] || want["matcher"] == nil && (m == "" || m == "*")
		delete(got, "hooks")
		delete(got, "matcher")
		group = group && len(got) == 0
		want, _ = list[0].(map[string]any)
	}
	least, _ := want["timeout"].(float64)
	most := float64(longest / time.Second)
	if h.Millis {
		most = float64(longest / time.Millisecond)
	}
	delete(want, "timeout")
	for _, x := range handlers {
		one, ok := x.(map[string]any)
		if !ok || one["command"] != want["command"] || one["url"] != want["url"] {
			continue
		}
		timeout, _ := one["timeout"].(float64)
		delete(one, "timeout")
		delete(one, "statusMessage")
		has = true
		exact = group && timeout >= least && timeout <= most && reflect.DeepEqual(one, want)
		if !exact {
			break
		}
	}
	return has, exact
}

// no reports whether a setting is false or null.
func no(v *hujson.Value) bool {
	s := strings.TrimSpace(string(v.Pack()))
	return s == "false" || s == "null"
}

// unlisted returns a file that has the list key, if no layer's list of that name permits the value.
// Otherwise it returns "".
func unlisted(all []parsed, key, value string) (file string) {
	for _, l := range all {
		v := member(l.v, key)
		if v == nil {
			continue
		}
		var list []string
		c := v.Clone()
		c.Standardize()
		if json.Unmarshal(c.Pack(), &list) != nil {
			return l.File
		}
		for _, pattern := range list {
			ok, err := path.Match(strings.ReplaceAll(pattern, "/", "|"), strings.ReplaceAll(value, "/", "|"))
			if ok && err == nil {
				return ""
			}
		}
		file = l.File
	}
	return file
}

// configured asks for a verdict on a change of settings that removes this hook, weakens it or turns hooks off. By
// the shipped policy, the verdict is deny, with an alert. It judges the settings in force after the change, whether
// or not the start of the session was recorded.
func (h *handler) configured(ctx context.Context) (*Answer, error) {
	if h.cfg.Read == nil {
		return nil, nil
	}
	layers, err := h.host.Layers(h.path("~/"), cmp.Or(h.cfg.Folder, h.e.CWD, "."), h.cfg.Settings, h.cfg.Read)
	if err != nil {
		return nil, err
	}
	file, why, err := h.host.Lost(layers, h.cfg.Handler)
	if err != nil || why == "" {
		return nil, err
	}
	asked := *h.e
	asked.Tool, asked.Call = ConfigChange, ""
	asked.Input = asJSON(map[string]any{"file": filepath.ToSlash(file), "source": h.e.Source, "hooks": "removed",
		"because": why})
	h.e = &asked
	a, err := h.propose(ctx)
	if refused, ok := a.refusal(); ok {
		return &Answer{Decision: "block", Reason: refused + " The settings: " + file + ": " + why + "."}, err
	}
	return nil, err
}
