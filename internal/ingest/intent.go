package ingest

import (
	"encoding/binary"
	"slices"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/streams"
)

// userWords returns the words of a session's user.
func (f *Fold) userWords(st *stage.State, project, agent, session string) ([]uint32, error) {
	said, err := f.userSaid(st, project, agent, session)
	if err != nil {
		return nil, err
	}
	return said.Words, nil
}

// userSaid returns the words of a session's user in the form of pkg/intent.
func (f *Fold) userSaid(st *stage.State, project, agent, session string) (*intent.Said, error) {
	said := new(intent.Said)
	if session == "" {
		return said, nil
	}
	v, _, err := st.Get(stage.Key(keyIntent, project, agent, session, ""))
	if err != nil {
		return nil, err
	}
	said.Words = make([]uint32, len(v)/4)
	for i := range said.Words {
		said.Words[i] = binary.BigEndian.Uint32(v[4*i:])
	}
	v, _, err = st.Get(requestsKey(project, agent, session))
	said.Requests = intent.ReadRequests(v)
	return said, err
}

func requestsKey(project, agent, session string) []byte {
	return stage.Key(keyIntent, project, agent, session, "", "requests")
}

// noteIntent adds what the user said to the words of the session. Text that they pasted
// from elsewhere does not count.
func (f *Fold) noteIntent(st *stage.State, project string, e *streams.ObservationEntry) error {
	if e.Origin != beliefs.OriginUser || e.Session == "" {
		return nil
	}
	said, err := f.userSaid(st, project, e.Agent, e.Session)
	if err != nil {
		return err
	}
	for i, b := range e.Blocks {
		pasted := slices.ContainsFunc(e.Claims, func(c streams.ClaimEntry) bool {
			return c.Block == i && c.Belief.Origin.External()
		})
		if b.Text != "" && !pasted {
			said.Add(cut(b.Text, maxSaidText))
		}
	}
	var v []byte
	for _, h := range said.Words {
		v = binary.BigEndian.AppendUint32(v, h)
	}
	if err := st.Set(stage.Key(keyIntent, project, e.Agent, e.Session, ""), v); err != nil {
		return err
	}
	return st.Set(requestsKey(project, e.Agent, e.Session), said.AppendRequests(nil))
}

// relate computes the relation of a proposal to the user's words.
func (f *Fold) relate(st *stage.State, project string, e *streams.ActionEntry) error {
	said, err := f.userSaid(st, project, e.Agent, e.Session)
	if err != nil || len(said.Words) == 0 {
		return err
	}
	e.Intent = said.Relate(e.Tool, arguments(e.Args), e.Features.Carriers)
	return nil
}

// noteCall notes which of the user's requests a call looks up, until its verdict. It also
// stores whether the user named a value of a tool's last call. Such a value names the source
// of the tool's result.
func (f *Fold) noteCall(st *stage.State, project string, e *streams.ActionEntry) error {
	if e.Session == "" {
		return nil
	}
	said, err := f.userSaid(st, project, e.Agent, e.Session)
	if err != nil {
		return err
	}
	args := arguments(e.Args)
	if keys := said.Looks(e.Tool, args); len(keys) > 0 {
		if err := noteLook(st, project, e, keys); err != nil {
			return err
		}
	}
	key := stage.Key(keyIntent, project, e.Agent, e.Session, e.Tool)
	if said.Named("", args) {
		return st.Set(key, []byte{1})
	}
	if _, ok, err := st.Get(key); err != nil || !ok {
		return err
	}
	return st.Delete(key)
}

// look is a call that looks up requests of the user, before its verdict.
type look struct {
	ID   string   `json:"id"`
	Keys []uint32 `json:"keys"`
}

// maxLooks bounds the calls of a session that wait for a verdict. The oldest is dropped.
const maxLooks = 16

func looksKey(project, agent, session string) []byte {
	return stage.Key(keyIntent, project, agent, session, "", "looks")
}

func noteLook(st *stage.State, project string, e *streams.ActionEntry, keys []uint32) error {
	key := looksKey(project, e.Agent, e.Session)
	var waiting []look
	if _, err := st.Load(key, &waiting); err != nil {
		return err
	}
	waiting = append(waiting, look{e.ID, keys})
	return st.Put(key, waiting[max(0, len(waiting)-maxLooks):])
}

// lookedUp marks the requests that an allowed call looks up. A call that is held was not
// carried out, and says nothing.
func (f *Fold) lookedUp(st *stage.State, project string, v *streams.VerdictEntry) error {
	if v.Type != streams.TypeAction || v.Verdict != streams.Allow || v.Session == "" {
		return nil
	}
	key := looksKey(project, v.Agent, v.Session)
	var waiting []look
	if ok, err := st.Load(key, &waiting); err != nil || !ok {
		return err
	}
	i := slices.IndexFunc(waiting, func(l look) bool { return l.ID == v.ID })
	if i < 0 {
		return nil
	}
	said, err := f.userSaid(st, project, v.Agent, v.Session)
	if err != nil {
		return err
	}
	if said.Look(waiting[i].Keys) {
		if err := st.Set(requestsKey(project, v.Agent, v.Session), said.AppendRequests(nil)); err != nil {
			return err
		}
	}
	return st.Put(key, slices.Delete(waiting, i, i+1))
}

// userNamed reports whether the user named the source of an observation.
func (f *Fold) userNamed(st *stage.State, a streams.Address, session string, o *streams.Observation) (bool, error) {
	said, err := f.userSaid(st, a.Project, a.Agent, session)
	if err != nil || len(said.Words) == 0 {
		return false, err
	}
	if said.Named(o.Source, arguments(o.Args)) {
		return true, nil
	}
	if o.Tool == "" {
		return false, nil
	}
	_, ok, err := st.Get(stage.Key(keyIntent, a.Project, a.Agent, session, o.Tool))
	return ok, err
}

// arguments returns the arguments of a call. There are none if they are not an object.
func arguments(raw []byte) map[string]any {
	var args map[string]any
	if len(raw) == 0 || streams.Unmarshal(raw, &args) != nil {
		return nil
	}
	return args
}
