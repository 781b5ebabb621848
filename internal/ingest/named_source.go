package ingest

import (
	"cmp"
	"slices"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/streams"
)

const (
	maxNamedSources = 8 // maximum number for a session; the oldest is dropped
	maxShows        = 8 // maximum number of stored observations that showed the content of one source
)

// namedSource is a source that the user named in a session. A person may approve its content for the session.
type namedSource struct {
	Digest       string   `json:"digest"`
	Source       string   `json:"source"`
	Observations []string `json:"observations"`
}

func namedKey(project, agent, session string) []byte {
	return stage.Key(keyIntent, project, agent, session, "", "named")
}

// noteNamed stores the lines of a source that the user named, or whose instructions the user told the agent to follow.
// grounds compares later actions with these lines, and a person may approve the source for the session. noteNamed skips
// a source that was cut, has hidden text or is too long to compare, because the person would approve text that was not
// checked.
func noteNamed(st *stage.State, project string, e *streams.ObservationEntry) error {
	digest := e.ContentDigest()
	if digest == "" {
		return nil
	}
	key := namedKey(project, e.Agent, e.Session)
	var named []namedSource
	if _, err := st.Load(key, &named); err != nil {
		return err
	}
	if i := slices.IndexFunc(named, func(n namedSource) bool { return n.Digest == digest }); i >= 0 {
		n := named[i]
		if !slices.Contains(n.Observations, e.ID) {
			n.Observations = append(n.Observations, e.ID)
			n.Observations = n.Observations[max(0, len(n.Observations)-maxShows):]
		}
		return st.Put(key, append(slices.Delete(named, i, i+1), n))
	}
	src := readNamed(e)
	if src == nil {
		return nil
	}
	named = append(named, namedSource{digest, cmp.Or(e.Source, "tool:"+e.Tool), []string{e.ID}})
	for ; len(named) > maxNamedSources; named = named[1:] {
		if err := st.Delete(linesKey(project, e.Agent, e.Session, named[0].Digest)); err != nil {
			return err
		}
	}
	if err := st.Set(linesKey(project, e.Agent, e.Session, digest), src.Append(nil)); err != nil {
		return err
	}
	return st.Put(key, named)
}

// readNamed returns the lines of an observation, or nil if some of its text could not be read.
func readNamed(e *streams.ObservationEntry) *intent.Source {
	all := new(intent.Source)
	for i := range e.Blocks {
		b := &e.Blocks[i]
		if b.Features.Partial || b.Features.HasHidden() {
			return nil
		}
		s := intent.NewSource(b.Text, b.Features.Carriers)
		if s == nil {
			return nil
		}
		all.Records = append(all.Records, s.Records...)
		all.Carriers = append(all.Carriers, s.Carriers...)
	}
	all.Carriers = intent.Distinct(all.Carriers)
	return all
}

func linesKey(project, agent, session, digest string) []byte {
	return stage.Key(keyIntent, project, agent, session, "", "lines", digest)
}

// grounds compares an action that changes something with the sources that the user of its session named.
func (f *Fold) grounds(st *stage.State, project string, e *streams.ActionEntry) ([]intent.Grounds, error) {
	if e.Session == "" || e.Level < beliefs.L3 {
		return nil, nil
	}
	var named []namedSource
	if ok, err := st.Load(namedKey(project, e.Agent, e.Session), &named); err != nil || !ok {
		return nil, err
	}
	said, err := f.userSaid(st, project, e.Agent, e.Session)
	if err != nil {
		return nil, err
	}
	args := arguments(e.Args)
	var out []intent.Grounds
	for _, n := range named {
		v, _, err := st.Get(linesKey(project, e.Agent, e.Session, n.Digest))
		if err != nil {
			return nil, err
		}
		g := said.Ground(intent.ReadSource(v), e.Tool, args, e.Features.Carriers)
		if g == nil {
			continue
		}
		g.Digest, g.Source, g.Observations = n.Digest, streams.Clip(n.Source, streams.MaxNameLen), n.Observations
		out = append(out, *g)
	}
	return out, nil
}
