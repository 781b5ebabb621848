package beliefs

import (
	"fmt"
	"strings"
)

// Namespace is the part of a project in which a belief applies: the whole project (the zero value), one of its users,
// or one session. A session sees the beliefs of its own namespace, of its user's and of the project's, but no beliefs
// of other users or sessions.
//
// The host states user and session, and nobody verifies them. The credential determines project and agent only.
type Namespace struct {
	User    string
	Session string
}

// Sees reports whether a belief of namespace b may answer a request in namespace n. That is so if b equals n or
// contains it.
func (n Namespace) Sees(b Namespace) bool {
	return (b.User == "" || b.User == n.User) && (b.Session == "" || b.Session == n.Session)
}

// Parts of the text form.
const (
	inUser    = "user/"
	inSession = "session/"
)

// String returns the text form: empty for the whole project, otherwise user/ID, session/ID, or
// user/ID/session/ID.
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
