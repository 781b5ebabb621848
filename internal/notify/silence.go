package notify

import (
	"time"

	"lazaret/streams"
)

// silences are the silences in the ledger, by project. While a silence lasts, notifications of the alerts that it
// covers are not sent.
type silences map[string][]*silence

type silence struct {
	streams.Silence
	id          string
	from, until uint64 // ledger sequences; until 0: not ended
}

// maxSilences is the maximum number of silences of a project. The oldest is dropped first.
const maxSilences = 1000

func (s *silences) add(e *streams.Entry) {
	if e.Type != streams.TypeSilence || e.Stage != streams.StageIngest {
		return
	}
	x, err := streams.Read[streams.SilenceEntry](e)
	if err != nil {
		return
	}
	if *s == nil {
		*s = make(silences)
	}
	list := (*s)[e.Project]
	if x.Silence.Ends == "" {
		list = append(list, &silence{Silence: x.Silence, id: x.ID, from: e.Seq})
		(*s)[e.Project] = list[max(0, len(list)-maxSilences):]
		return
	}
	for _, o := range list {
		if o.id == x.Silence.Ends && o.until == 0 {
			o.until = e.Seq
		}
	}
}

// covers reports whether an alert was silenced when it was raised.
func (s silences) covers(project, rule, agent string, seq uint64, at time.Time) bool {
	for _, x := range s[project] {
		if x.from < seq && (x.until == 0 || seq < x.until) && at.Before(x.Expires) && x.Covers(rule, agent) {
			return true
		}
	}
	return false
}
