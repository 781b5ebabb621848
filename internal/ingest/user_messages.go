package ingest

import (
	"encoding/binary"

	"lazaret/internal/stage"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Limits on the messages of the user that are stored for each session. Memory writes are compared with them, to detect
// that the agent writes the user's words.
const (
	maxSaid     = 64      // number of messages, the latest ones
	maxSaidText = 8 << 10 // bytes of each message
)

func saidKey(project, agent, session string, n uint64) []byte {
	return append(stage.Key(keySaid, project, agent, session, "#"), byte(n%maxSaid))
}

// noteSaid stores a message of the user in a session.
func (f *Fold) noteSaid(st *stage.State, project string, h *streams.EntryHead, s string) error {
	if h.Session == "" {
		return nil
	}
	counter := stage.Key(keySaid, project, h.Agent, h.Session, "")
	v, ok, err := st.Get(counter)
	if err != nil {
		return err
	}
	var n uint64
	if ok && len(v) == 8 {
		n = binary.BigEndian.Uint64(v)
	}
	if err := st.Set(saidKey(project, h.Agent, h.Session, n), []byte(cut(s, maxSaidText))); err != nil {
		return err
	}
	return st.Set(counter, binary.BigEndian.AppendUint64(nil, n+1))
}

// saidByUser reports whether a text occurs verbatim in a stored message of the session's user.
func (f *Fold) saidByUser(st *stage.State, a streams.Address, session, content string) (bool, error) {
	if session == "" || len(content) > maxSaidText {
		return false, nil
	}
	found := false
	err := st.Scan(stage.Key(keySaid, a.Project, a.Agent, session, "#"), func(_, v []byte) (bool, error) {
		found = text.VerbatimSpan(content, string(v))
		return !found, nil
	})
	return found, err
}
