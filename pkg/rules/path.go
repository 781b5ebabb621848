package rules

import (
	"slices"
	"strings"

	"lazaret/pkg/signals"
	"lazaret/streams"
)

// path returns the path from an action to the content that caused a rule's alert. If the alert is not about a belief,
// the path has only content that the rule's condition or message refers to. If an observation is another agent's, that
// agent's name is put before the observation's id.
func (r *Rule) path(s *signals.State, a *streams.Alert) []string {
	in := s.In
	path := []string{"action:" + in.Event.ID}
	add := func(kind, id string) {
		if id != "" {
			path = append(path, streams.Clip(kind+":"+id, 160))
		}
	}
	observation := func(agent, id string) {
		if id != "" && agent != "" && agent != in.Event.Agent {
			id = agent + "/" + id
		}
		add("observation", id)
	}
	if a.Subject.Kind == "belief" {
		add("belief", a.Subject.ID)
		if i := slices.IndexFunc(in.Action.Beliefs, func(b *signals.Belief) bool { return b.ID == a.Subject.ID }); i >= 0 {
			observation(in.Action.Beliefs[i].Agent(), in.Action.Beliefs[i].Observation)
			add("source", in.Action.Beliefs[i].Source)
		}
		return path
	}
	asks := r.doc.When + r.doc.Message
	echo, lineage := strings.Contains(asks, "signal.echo"), strings.Contains(asks, "action.lineage")
	for _, x := range s.Dependencies() {
		if by := x.By == "instruction"; by && echo || !by && lineage {
			add("belief", x.Belief)
			observation(x.Agent, x.Observation)
			add("source", x.Source)
			break
		}
	}
	return path
}
