package signals

import (
	"strings"

	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// maxDependencies is how many contents an action is reported to depend on.
const maxDependencies = 8

// Dependencies are the untrusted contents that the action depends on by evidence, not by
// having been read before it: those whose instruction it would carry out, and those that
// first named a value of its arguments in the project. Those that the user accounts for
// do not count.
func (s *State) Dependencies() []streams.Rest {
	var out []streams.Rest
	s.echo()
	for i, sv := range s.servedBy {
		if !sv.UserNamed && len(out) < maxDependencies {
			out = append(out, s.servedOn[i])
		}
	}
	for i := range s.met() {
		m := &s.metBy[i]
		if len(out) == maxDependencies {
			break
		}
		if !m.ok || m.ref&index.NamedByUser != 0 || s.noted && m.ref == s.ownRef {
			continue
		}
		if r := s.originOfMet(m); r.external {
			kind, value, _ := strings.Cut(m.carrier, ":")
			out = append(
				out,
				streams.Rest{
					Agent:       r.agent,
					Observation: r.event,
					Belief:      r.belief,
					Source:      r.src,
					By:          kind,
					Value:       streams.Clip(value, 120),
				},
			)
		}
	}
	return out
}
