package policy

import (
	"fmt"
	"slices"
	"strings"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/internal/strictyaml"
	"lazaret/streams"
)

// MaxProfiles is the maximum number of server profiles in a policy.
const MaxProfiles = 256

// profileText is the YAML form of a profile of a well-known MCP server. A profile has no effect by
// itself: lazaret mcp review uses it to propose levels to a person.
type profileText struct {
	Name    string            `yaml:"name"`
	Server  []string          `yaml:"server"`
	Command []string          `yaml:"command"`
	Tools   []profileToolText `yaml:"tools"`
}

type profileToolText struct {
	Tools   []string `yaml:"tools"`
	Level   string   `yaml:"level"`
	Because string   `yaml:"because"`
}

// Profile gives the levels of the tools of a well-known MCP server. It is part of the signed
// policy.
type Profile struct {
	Name string
	// Servers are the names that the server gives itself. Commands are the names of its package or
	// image; the command that starts the server contains one of them.
	Servers, Commands []string

	tools map[string]profiled
}

type profiled struct {
	level   beliefs.Level
	because string
}

func compileProfiles(y *strictyaml.Document, texts []profileText) ([]Profile, error) {
	if len(texts) > MaxProfiles {
		return nil, y.Errorf([]any{"profiles"}, "%d profiles are too many, at most %d are possible", len(texts), MaxProfiles)
	}
	var out []Profile
	for i, t := range texts {
		at := func(key, format string, args ...any) error {
			return y.Errorf([]any{"profiles", i, key}, format, args...)
		}
		if err := streams.CheckID("name of a profile", t.Name); err != nil {
			return nil, at("name", "%w", err)
		}
		if slices.ContainsFunc(out, func(p Profile) bool { return p.Name == t.Name }) {
			return nil, at("name", "profile %q is listed twice", t.Name)
		}
		if len(t.Server) == 0 || len(t.Command) == 0 {
			return nil, at("name", "profile %s needs `server` and `command`: the server's own name alone is not evidence",
				t.Name)
		}
		p := Profile{Name: t.Name, Servers: t.Server, Commands: t.Command, tools: make(map[string]profiled)}
		for j, x := range t.Tools {
			var l beliefs.Level
			if err := l.UnmarshalText([]byte(x.Level)); err != nil || l > beliefs.L4 {
				return nil, y.Errorf([]any{"profiles", i, "tools", j, "level"}, "level of %v is %q: use L0 to L4", x.Tools, x.Level)
			}
			if strings.TrimSpace(x.Because) == "" {
				return nil, y.Errorf([]any{"profiles", i, "tools", j}, "the tools %v have no reason: add the field `because`",
					x.Tools)
			}
			for _, name := range x.Tools {
				if _, twice := p.tools[name]; twice || name == "" {
					return nil, y.Errorf([]any{"profiles", i, "tools", j, "tools"}, "tool %q of profile %s is empty or listed twice",
						name, t.Name)
				}
				p.tools[name] = profiled{l, x.Because}
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// ProfileMatch is a profile that matches a server.
type ProfileMatch struct {
	*Profile
	// Known is set if the command that starts the server names the profile's package. Otherwise
	// only the server's own name matches.
	Known bool
}

// ProfileOf returns the profile that matches a server, or nil. It prefers a match of the command
// that starts the server over a match of the server's own name.
func (p *Policy) ProfileOf(server string, command []string) *ProfileMatch {
	for i := range p.profiles {
		if x := &p.profiles[i]; slices.ContainsFunc(command, x.starts) {
			return &ProfileMatch{x, true}
		}
	}
	for i := range p.profiles {
		if x := &p.profiles[i]; slices.Contains(x.Servers, server) {
			return &ProfileMatch{x, false}
		}
	}
	return nil
}

// starts reports whether a word of a command is a package or image of the profile, with or without
// a version, or a path to one.
func (x *Profile) starts(word string) bool {
	for _, c := range x.Commands {
		if word == c || strings.HasPrefix(word, c+"@") || strings.HasPrefix(word, c+":") ||
			strings.Contains(word, "node_modules/"+c+"/") || strings.HasSuffix(word, "/bin/"+c) {
			return true
		}
	}
	return false
}

// Profiles returns the policy's server profiles.
func (p *Policy) Profiles() []Profile { return p.profiles }

// Tool returns the profile's level for a tool, and the reason for it.
func (x *Profile) Tool(name string) (l beliefs.Level, because string, ok bool) {
	t, ok := x.tools[name]
	return t.level, t.because, ok
}

func (x *ProfileMatch) String() string {
	if x.Known {
		return fmt.Sprintf("profile %s, which the command names", x.Name)
	}
	return fmt.Sprintf("profile %s, which only the server's own name suggests", x.Name)
}
