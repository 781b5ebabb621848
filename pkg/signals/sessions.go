package signals

import "lazaret/pkg/signals/index"

// tableSessions has, for each session, the directives that it read and the beliefs that it recalled.
var tableSessions = index.NewTable(4, "sessions", 10_000)

// sessionKey returns the key in tableSessions of one kind of a session's data.
func (s *State) sessionKey(kind string) []byte {
	return s.t.NameKey(kind, s.In.Event.Agent, "\x00", s.In.Event.Session)
}
