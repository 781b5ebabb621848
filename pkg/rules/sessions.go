package rules

// tableSessions holds the directives and the recalls of each session.
var tableSessions = newTable(4, "sessions", 10_000)

// sessionKey is the key of what a session keeps of a kind: n directives, r recalls.
func (s *signals) sessionKey(kind string) []byte {
	return s.t.named(kind, s.in.Event.Agent, "\x00", s.in.Event.Session)
}
