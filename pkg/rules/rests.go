package rules

import (
	"strings"

	"lazaret/streams"
)

// maxRests is how many contents an action is said to lean on.
const maxRests = 8

// rests are the untrusted contents that the action leans on by evidence, and
// not by having been read before it: those whose instruction it would carry
// out, and those that were the first in the project to name a value of its
// arguments. What the user named as well leans on the user.
func (s *signals) rests() []streams.Rest {
	var out []streams.Rest
	s.echo()
	for i, sv := range s.servedBy {
		if !sv.UserNamed && len(out) < maxRests {
			out = append(out, s.servedOn[i])
		}
	}
	for i := range s.met() {
		m := &s.metBy[i]
		if len(out) == maxRests {
			break
		}
		if !m.ok || m.ref&refNamed != 0 || s.noted && m.ref == s.ownRef {
			continue
		}
		if r := s.headOfMet(m); r.external {
			kind, value, _ := strings.Cut(m.carrier, ":")
			out = append(out, streams.Rest{Agent: r.agent, Observation: r.event, Belief: r.belief, Source: r.src, By: kind, Value: streams.Clip(value, 120)})
		}
	}
	return out
}
