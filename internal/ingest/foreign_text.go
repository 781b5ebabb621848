package ingest

import (
	"encoding/binary"
	"slices"
	"strings"

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
		add(&shown, &e.Blocks[i].Features, e.Blocks[i].Instructs)
		shown.Unread = shown.Unread || e.Blocks[i].Text == "" && e.Blocks[i].Type != ""
	}
	return addShown(st, project, &e.EntryHead, shown)
}

// add adds one foreign text to a summary. instructs says whether it has an instruction to its reader. Such a text
// counts as an order even if the text model gives it few points.
func add(s *streams.Shown, f *text.Features, instructs bool) {
	s.Foreign++
	s.Order = max(s.Order, f.Command.Points)
	if instructs {
		s.Order = max(s.Order, orderPoints)
	}
	s.Unread = s.Unread || f.HasHidden() || f.Partial
}

// joinShown returns the summary of the texts of two summaries.
func joinShown(a, b streams.Shown) streams.Shown {
	return streams.Shown{Foreign: a.Foreign + b.Foreign, Order: max(a.Order, b.Order), Unread: a.Unread || b.Unread}
}

// addShown adds more to the summary of the foreign texts that a session was shown. If the event names no session, the
// texts count for all sessions of the agent that are open.
func addShown(st *stage.State, project string, h *streams.EntryHead, more streams.Shown) error {
	if more.Foreign == 0 {
		return nil
	}
	if h.Session == "" {
		return addSessionless(st, project, h.Agent, more)
	}
	was, err := shownTo(st, project, h)
	if err != nil {
		return err
	}
	was = joinShown(was, more)
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

// sessionless summarizes the foreign texts of an agent's events that name no session. A session counts those that came
// since its first event, so that an import of old texts does not count for ever.
type sessionless struct {
	Texts int `json:"texts"`
	// Unread is the number of the last text that could not be read completely, counted from 1.
	Unread int `json:"unread,omitzero"`
	// Orders has the texts that read more like an order than all later ones.
	Orders []sessionlessOrder `json:"orders,omitzero"`
}

type sessionlessOrder struct {
	Text   int `json:"text"` // its number
	Points int `json:"points"`
}

func sessionlessKey(project, agent string) []byte { return stage.Key(keyShown, project, agent, "") }

// sessionlessTo returns the sessionless texts of an agent.
func sessionlessTo(st *stage.State, project, agent string) (l sessionless, err error) {
	_, err = st.Load(sessionlessKey(project, agent), &l)
	return l, err
}

// addSessionless adds foreign texts of an event without a session.
func addSessionless(st *stage.State, project, agent string, more streams.Shown) error {
	l, err := sessionlessTo(st, project, agent)
	if err != nil {
		return err
	}
	l.Texts += more.Foreign
	if more.Unread {
		l.Unread = l.Texts
	}
	l.Orders = slices.DeleteFunc(l.Orders, func(o sessionlessOrder) bool { return o.Points <= more.Order })
	if more.Order > 0 {
		l.Orders = append(l.Orders, sessionlessOrder{l.Texts, more.Order})
	}
	return st.Put(sessionlessKey(project, agent), l)
}

// since returns a summary of the sessionless texts after the first n ones.
func (l *sessionless) since(n int) streams.Shown {
	s := streams.Shown{Foreign: max(0, l.Texts-n), Unread: l.Unread > n}
	for _, o := range l.Orders {
		if o.Text > n {
			s.Order = max(s.Order, o.Points)
		}
	}
	return s
}

// baseKey is the key of the number of sessionless texts before the first event of a session.
func baseKey(project, agent, session string) []byte {
	return stage.Key(keyShown, project, agent, session, "base")
}

// noteBase stores the number of sessionless texts at the first event of a session.
func noteBase(st *stage.State, project string, h *streams.EntryHead) error {
	key := baseKey(project, h.Agent, h.Session)
	if _, ok, err := st.Get(key); err != nil || ok {
		return err
	}
	l, err := sessionlessTo(st, project, h.Agent)
	if err != nil {
		return err
	}
	return st.Set(key, binary.AppendUvarint(nil, uint64(l.Texts)))
}

// sessionlessSince returns a summary of the sessionless texts that came since the first event of a session.
func sessionlessSince(st *stage.State, project string, h *streams.EntryHead) (streams.Shown, error) {
	v, _, err := st.Get(baseKey(project, h.Agent, h.Session))
	if err != nil {
		return streams.Shown{}, err
	}
	n, _ := binary.Uvarint(v) // 0 in a state of an earlier version, which stored no sessionless texts
	l, err := sessionlessTo(st, project, h.Agent)
	return l.since(int(n)), err
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
	without, err := sessionlessSince(st, project, &e.EntryHead)
	if err != nil {
		return nil, err
	}
	tools, err := offered(st, project, e.Agent)
	if err != nil {
		return nil, err
	}
	s = joinShown(joinShown(s, without), tools)
	for _, c := range distinctive(&e.Features) {
		_, own, err := st.Get(carrierKey(keyOwn, project, c))
		if err != nil {
			return nil, err
		}
		// A command whose parts the user named counts as the user's, even if a foreign text has the same command.
		if own || e.Intent != nil && strings.HasPrefix(c, string(text.Command)+":") && slices.Contains(e.Intent.Carriers, c) {
			continue
		}
		_, foreign, err := st.Get(carrierKey(keyExternal, project, c))
		if err == nil && !foreign {
			foreign, err = hasKey(st, stage.Key(keyOffer, project, offerCarrier+c, ""))
		}
		if err != nil {
			return nil, err
		}
		s.Leans = s.Leans || foreign
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
