package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"lazaret/pkg/internal/strictyaml"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Limits of protected resources.
const (
	maxProtected = 1024
	maxResources = 256 // patterns of one entry
)

// protectedText is the YAML form of an entry for protected resources.
type protectedText struct {
	Name      string   `yaml:"name"`
	Resources []string `yaml:"resources"`
	Effects   []string `yaml:"effects"`
	Require   string   `yaml:"require"`
}

type protected struct {
	name     string
	patterns []string
	effects  effectSet // effects that the entry applies to; 0: all
	require  streams.Verdict
}

func (p *Policy) compileProtected(y *strictyaml.Document, texts []protectedText) error {
	if len(texts) > maxProtected {
		return y.Errorf([]any{"protected"}, "%d entries of `protected` are too many, at most %d are possible", len(texts),
			maxProtected)
	}
	for i, t := range texts {
		at := func(key string, format string, args ...any) error {
			return y.Errorf([]any{"protected", i, key}, format, args...)
		}
		if err := streams.CheckID("name", t.Name); err != nil {
			return at("name", "%w", err)
		}
		if slices.ContainsFunc(p.protected, func(x protected) bool { return x.name == t.Name }) {
			return at("name", "protected %q is listed twice", t.Name)
		}
		r := protected{name: t.Name, require: streams.Deny}
		if len(t.Resources) == 0 || len(t.Resources) > maxResources {
			return at("resources", "%s needs 1 to %d resources", t.Name, maxResources)
		}
		for j, s := range t.Resources {
			c := cleanResource(s)
			if strings.Trim(c, "*?/.") == "" || len(s) > maxResourceLen {
				return y.Errorf([]any{"protected", i, "resources", j},
					"resource %q has only wildcards and separators, or is too long", s)
			}
			r.patterns = append(r.patterns, c)
		}
		for j, s := range t.Effects {
			bit, err := parseEffect(s)
			if err != nil {
				return y.Errorf([]any{"protected", i, "effects", j}, "effects of %s: %w", t.Name, err)
			}
			r.effects |= bit
		}
		switch t.Require {
		case "", "deny":
		case "hold":
			r.require = streams.Hold
		default:
			return at("require", "`require` of %s is %q: use hold or deny", t.Name, t.Require)
		}
		p.protected = append(p.protected, r)
	}
	// The order in the document must not matter.
	slices.SortFunc(p.protected, func(a, b protected) int { return strings.Compare(a.name, b.name) })
	return nil
}

// maxResourceLen is the maximum length of a value that is compared, in bytes. A longer value counts
// as unread.
const maxResourceLen = 64 << 10

// cleanResource returns the form in which resources are compared: normalized text with slashes
// instead of backslashes and with the dots of paths resolved. A path that leads out of its starting
// folder may end anywhere, so it is resolved from the root.
func cleanResource(s string) string {
	s = text.Normalize(s)
	s = strings.ReplaceAll(s, `\\`, `\`)
	s = strings.ReplaceAll(s, `\`, "/")
	s = strings.TrimPrefix(s, "file://")
	if !strings.Contains(s, "/") || strings.Contains(s, "://") {
		return s
	}
	s = path.Clean(s)
	for up := false; ; up = true {
		rest, ok := strings.CutPrefix(s, "../")
		if !ok {
			if up {
				s = "/" + s
			}
			return s
		}
		s = rest
	}
}

// matches returns the first resource that a pattern matches, and whether there is one.
func (r *protected) matches(resources []string, deletes bool) (string, bool) {
	for _, s := range resources {
		for _, p := range r.patterns {
			if matchPattern(p, []byte(s)) {
				return s, true
			}
			dir, ok := strings.CutSuffix(p, "/*")
			if ok && (dir == s || matchPattern(dir, []byte(s))) {
				return s, true
			}
			// Deleting a folder deletes its contents.
			if literal := p[:strings.IndexAny(p+"*", "*?")]; deletes && strings.HasPrefix(s, "/") &&
				(s == "/" && strings.HasPrefix(literal, "/") || strings.HasPrefix(literal, s+"/")) {
				return s, true
			}
		}
	}
	return "", false
}

func (r *protected) applies(c *Class) bool {
	return r.effects == 0 || len(c.Effects) == 0 || slices.ContainsFunc(r.effects.names(), c.Has)
}

func (r *protected) reason(resource string) streams.Reason {
	return streams.Reason{Code: streams.CodeProtected, Verdict: r.require,
		Text: fmt.Sprintf("%s is protected by %s of the policy", text.InertLine(resource, 160), r.name)}
}
