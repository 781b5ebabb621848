package rules

import (
	"slices"
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

// path leads from an action to what a rule's alert on it rests on, as far as
// the rule asks for it.
func (r *Rule) path(s *signals, a *streams.Alert) []string {
	in := s.in
	path := []string{"action:" + in.Event.ID}
	add := func(kind, id string) {
		if id != "" {
			path = append(path, streams.Clip(kind+":"+id, 160))
		}
	}
	if a.Subject.Kind == "belief" {
		add("belief", a.Subject.ID)
		if i := slices.IndexFunc(in.Action.Beliefs, func(b *Belief) bool { return b.ID == a.Subject.ID }); i >= 0 {
			add("observation", in.Action.Beliefs[i].Observation)
			add("source", in.Action.Beliefs[i].Source)
		}
		return path
	}
	asks := r.doc.When + r.doc.Message
	echo, lineage := strings.Contains(asks, "signal.echo"), strings.Contains(asks, "action.lineage")
	for _, x := range s.rests() {
		if by := x.By == "instruction"; by && echo || !by && lineage {
			add("belief", x.Belief)
			add("observation", x.Observation)
			add("source", x.Source)
			break
		}
	}
	return path
}
