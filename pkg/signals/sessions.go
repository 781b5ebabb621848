package signals

import "lazaret/pkg/signals/index"

// tableSessions has the directives and the recalls of each session.
var tableSessions = index.NewTable(4, "sessions", 10_000)

// sessionKey returns the key of a session's directives (n) or recalls (r).
func (s *State) sessionKey(kind string) []byte {
	return s.t.NameKey(kind, s.In.Event.Agent, "\x00", s.In.Event.Session)
}
