package hook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/streams"
)

// Host describes a coding agent with hooks: the names in its settings, and the translation of its
// events and answers. Each host is one file.
type Host struct {
	Name     string // name in the command lazaret hook NAME
	Title    string
	File     string            // settings file, relative to the home folder or a project
	Events   []string          // events that Install registers
	Matchers map[string]string // matcher of an event, by event
	Flat     bool              // an event's list contains the handlers directly, without a group around them
	Millis   bool              // timeouts are in milliseconds
	Closed   bool              // an entry can make a failed hook block
	HTTP     bool              // an entry can have a URL instead of a command
	Replaces bool              // a result can be replaced before the model reads it
	Asks     bool              // the user at the keyboard can be asked about a call
	Note     string            // instructions for the user after an installation

	// Catalogue is the name by which policies refer to the host's own tools.
	Catalogue string
	// memory lists files that the host reads at its start without an event, relative to the folder of
	// the session.
	memory []string
	// off is the settings field that disables all hooks.
	off string
	// local lists further settings files of a project. managed is the folder of the administrator's settings
	// files, by operating system.
	local   []string
	managed map[string]string

	decode func([]byte) (*Event, error)
	encode func(*Event, *Answer) any
}

// Hosts are the supported hosts.
var Hosts = []*Host{ClaudeCode, Codex, Cursor, Gemini}

// HostOf returns the host with that name, or nil.
func HostOf(name string) *Host {
	for _, h := range Hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// Decode parses an event. It accepts invalid UTF-8, so that a malformed tool result is still recorded. A
// handled event in another spelling is an error, because the hook would ignore it.
func (h *Host) Decode(b []byte) (*Event, error) {
	e, err := h.decode(b)
	if err != nil {
		return nil, fmt.Errorf("the event is not JSON of a hook of %s: %w", h.Title, err)
	}
	if name := cmp.Or(e.native, e.Name); !slices.Contains(h.Events, name) && !slices.Contains(handled, name) {
		for _, known := range slices.Concat(h.Events, handled) {
			if plainName(known) == plainName(name) {
				return nil, fmt.Errorf("hook_event_name is %q: the event of %s is spelled %s", name, h.Title, known)
			}
		}
	}
	return e, nil
}

// plainName returns the letters and digits of an event's name in lower case.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// Encode formats an answer; the result is empty if there is none.
func (h *Host) Encode(e *Event, a *Answer) ([]byte, error) {
	v := h.encode(e, a)
	if v == nil {
		return nil, nil
	}
	return json.Marshal(v)
}

// read parses an event in a host's own format.
func read[T any](b []byte) (*T, error) {
	e := new(T)
	if err := streams.UnmarshalExact(b, e, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, err
	}
	return e, nil
}

// refusal reports whether an answer blocks or asks, and returns the reason.
func (a *Answer) refusal() (why string, ok bool) {
	switch {
	case a == nil:
	case a.Decision == "block":
		return a.Reason, true
	case a.Specific != nil && (a.Specific.Decision == "deny" || a.Specific.Decision == "ask"):
		return a.Specific.Reason, true
	}
	return "", false
}

// output returns the replacement of a result as text and reports whether there is one.
func (a *Answer) output() (text string, ok bool) {
	if a == nil || a.Specific == nil || a.Specific.Output == nil {
		return "", false
	}
	return a.Specific.text, true
}
