package ingest

import (
	"encoding/binary"
	"slices"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// noteShown adds the foreign texts of an observation to the summary of its session: texts that neither the user nor the
// operator wrote.
func (f *Fold) noteShown(st *stage.State, project string, e *streams.ObservationEntry) error {
	own := e.Origin == beliefs.OriginUser || e.Origin == beliefs.OriginSystem
	var shown streams.Shown
	for i := range e.Blocks {
		pasted := slices.ContainsFunc(e.Claims, func(c streams.ClaimEntry) bool {
			return c.Block == i && c.Belief.Origin.External()
		})
		if own && !pasted {
			continue
		}
		add(&shown, &e.Blocks[i].Features)
		shown.Unread = shown.Unread || e.Blocks[i].Text == "" && e.Blocks[i].Type != ""
	}
	return addShown(st, project, &e.EntryHead, shown)
}

// add adds one foreign text to a summary.
func add(s *streams.Shown, f *text.Features) {
	s.Foreign++
	s.Order = max(s.Order, f.Command.Points)
	s.Unread = s.Unread || f.HasHidden() || f.Partial
}

// addShown adds more to the summary of the foreign texts that a session was shown. It does nothing for an event without
// a session, because an action without a session is not compared with a summary.
func addShown(st *stage.State, project string, h *streams.EntryHead, more streams.Shown) error {
	if h.Session == "" || more.Foreign == 0 {
		return nil
	}
	was, err := shownTo(st, project, h)
	if err != nil {
		return err
	}
	was.Foreign, was.Order, was.Unread = was.Foreign+more.Foreign, max(was.Order, more.Order), was.Unread || more.Unread
	unread := byte(0)
	if was.Unread {
		unread = 1
	}
	return st.Set(stage.Key(keyShown, project, h.Agent, h.Session), binary.AppendUvarint([]byte{byte(was.Order), unread},
		uint64(was.Foreign)))
}

func shownTo(st *stage.State, project string, h *streams.EntryHead) (s streams.Shown, err error) {
	v, ok, err := st.Get(stage.Key(keyShown, project, h.Agent, h.Session))
	if err != nil || !ok || len(v) < 3 {
		return s, err
	}
	n, _ := binary.Uvarint(v[2:])
	return streams.Shown{Foreign: int(n), Order: int(v[0]), Unread: v[1] == 1}, nil
}

// shown returns the summary of the foreign texts that an action's session was shown, and whether the action's arguments
// come from foreign content of the project. It returns nil if the user said nothing in the session, because then there
// is no intent to compare with.
func (f *Fold) shown(st *stage.State, project string, e *streams.ActionEntry) (*streams.Shown, error) {
	said, err := f.userSaid(st, project, e.Agent, e.Session)
	if err != nil || len(said.Words) == 0 {
		return nil, err
	}
	s, err := shownTo(st, project, &e.EntryHead)
	if err != nil {
		return nil, err
	}
	for _, c := range distinctive(&e.Features) {
		_, own, err := st.Get(carrierKey(keyOwn, project, c))
		if err != nil {
			return nil, err
		}
		_, foreign, err := st.Get(carrierKey(keyExternal, project, c))
		if err != nil {
			return nil, err
		}
		s.Leans = s.Leans || foreign && !own
	}
	s.Marked, err = carriesMarked(st, project, e)
	return &s, err
}

// noteAccepted stores the levels of the tools of a catalogue that a person signed. They replace those of an earlier
// signature for the same catalogue.
func noteAccepted(st *stage.State, project string, a *streams.AcceptedTools) error {
	return st.Put(stage.Key(keyAccepted, project, a.Catalogue), a.Levels)
}

// accepted returns the level at which a person accepted a tool of a catalogue, or nil.
func accepted(st *stage.State, project, catalogue, tool string) (*beliefs.Level, error) {
	if catalogue == "" {
		return nil, nil
	}
	var levels map[string]beliefs.Level
	ok, err := st.Load(stage.Key(keyAccepted, project, catalogue), &levels)
	if err != nil || !ok {
		return nil, err
	}
	l, ok := levels[tool]
	if !ok {
		return nil, nil
	}
	return &l, nil
}
