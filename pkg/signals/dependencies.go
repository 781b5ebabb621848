package signals

import (
	"strings"

	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// maxDependencies is the maximum number of contents that an action is reported to depend on.
const maxDependencies = 8

// Dependencies returns the untrusted content that the action depends on: content with an instruction that the action
// would carry out, and content that was the first in the project to name a value of the arguments. It is not enough
// that the session read a content before the action. A content is left out if the user asked for the same action, or if
// the user named the value before the content did.
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
