package beliefs

import (
	"fmt"
	"strings"
)

// Namespace is where in a project a belief holds: in all of it (the zero
// value), for one of its users, or in one session. It is hierarchical: whoever
// asks sees what holds above him and nothing beside him.
//
// User and session are the host's word, as sessions are elsewhere: the
// credential says project and agent only.
type Namespace struct {
	User    string
	Session string
}

// Sees reports whether a question asked in n may be answered with what holds in
// b: in the same place or above it.
func (n Namespace) Sees(b Namespace) bool {
	return (b.User == "" || b.User == n.User) && (b.Session == "" || b.Session == n.Session)
}

// The words of the text form.
const (
	inUser    = "user/"
	inSession = "session/"
)

// String is the text form: empty for the whole project, else user/ID,
// session/ID, or user/ID/session/ID.
func (n Namespace) String() string {
	s := ""
	if n.User != "" {
		s = inUser + n.User
	}
	if n.Session != "" {
		if s != "" {
			s += "/"
		}
		s += inSession + n.Session
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (n Namespace) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Namespace) UnmarshalText(b []byte) error {
	*n = Namespace{}
	rest := string(b)
	if after, ok := strings.CutPrefix(rest, inUser); ok {
		n.User, rest, _ = strings.Cut(after, "/")
	}
	if after, ok := strings.CutPrefix(rest, inSession); ok {
		n.Session, rest = after, ""
	}
	if rest != "" || n.String() != string(b) || strings.Contains(n.Session, "/") {
		return fmt.Errorf("namespace %q: write user/ID, session/ID, user/ID/session/ID, or nothing for the whole project", b)
	}
	return nil
}
