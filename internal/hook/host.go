package hook

import (
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/streams"
)

// Host is a coding agent with hooks: how its settings name them, and how its events and
// answers are translated. Each host is one file.
type Host struct {
	Name     string // of its command: lazaret hook NAME
	Title    string
	File     string            // settings, in the home folder or a project's
	Events   []string          // those that Install asks for
	Matchers map[string]string // which of an event's occasions it asks for
	Flat     bool              // an event's list holds the handlers themselves
	Millis   bool              // the timeout is in milliseconds
	Closed   bool              // an entry can ask that a failed hook blocks
	HTTP     bool              // an entry can name an address instead of a command
	Replaces bool              // a result can be replaced by another one that the model reads
	Asks     bool              // a call can be left to the person at the keyboard
	Note     string            // what the person has to do after an installation

	// Catalogue is the catalogue of the host's own tools, for the entries of policies.
	Catalogue string
	// memory are files that the host reads at its start and does not report, relative to
	// the folder of the session.
	memory []string
	// off says which member of the settings turns all hooks off.
	off string

	decode func([]byte) (*Event, error)
	encode func(*Event, *Answer) any
}

// Hosts are those that have a command.
var Hosts = []*Host{ClaudeCode, Codex, Cursor, Gemini}

// HostOf is the host of that name, or nil.
func HostOf(name string) *Host {
	for _, h := range Hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// Decode reads an event. A malformed character in a tool's result must not keep it from
// the record.
func (h *Host) Decode(b []byte) (*Event, error) {
	e, err := h.decode(b)
	if err != nil {
		return nil, fmt.Errorf("the event is not the JSON of a hook of %s: %w", h.Title, err)
	}
	return e, nil
}

// Encode writes an answer; empty is none.
func (h *Host) Encode(e *Event, a *Answer) ([]byte, error) {
	v := h.encode(e, a)
	if v == nil {
		return nil, nil
	}
	return json.Marshal(v)
}

// read decodes JSON into a host's own form of an event.
func read[T any](b []byte) (*T, error) {
	e := new(T)
	if err := streams.UnmarshalExact(b, e, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, err
	}
	return e, nil
}

// refusal is the reason of an answer that stops something; ok says that it stops.
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

// output is the text that takes the place of a result; ok says that there is one.
func (a *Answer) output() (text string, ok bool) {
	if a == nil || a.Specific == nil || a.Specific.Output == nil {
		return "", false
	}
	return a.Specific.text, true
}
