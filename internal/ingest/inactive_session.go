package ingest

import (
	"bytes"
	"encoding/binary"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/intent"
	"lazaret/streams"
)

// An order to expire drops the state of sessions without events since its horizon: the user's messages, and the records
// derived from them. Sessions need not be ended, so otherwise this state could stay forever.
//
// Without the state, a later action in such a session could pass although the user did not ask for it, as in a session
// whose user said nothing. Therefore the proposals of the session are held until the session is started again.

// activeGrain is how far the stored time of a session's last event may lag behind.
const activeGrain = time.Hour

func activeKey(project, agent, session string) []byte {
	return stage.Key(keyActive, project, agent, session)
}

// noteActive stores when a session was last active. At the session's first event, it also stores how many texts the
// agent had then been shown without a session (see noteBase).
func noteActive(st *stage.State, project string, h *streams.EntryHead) error {
	if h.Session == "" {
		return nil
	}
	if streams.IsSynthetic(project) {
		return noteBase(st, project, h) // its sessions do not expire
	}
	key := activeKey(project, h.Agent, h.Session)
	at, err := activeAt(st, key)
	if err != nil || h.Time.Sub(at) < activeGrain {
		return err
	}
	if at.IsZero() {
		if err := noteBase(st, project, h); err != nil {
			return err
		}
	}
	return putActive(st, key, h.Time)
}

func putActive(st *stage.State, key []byte, at time.Time) error {
	return st.Set(key, binary.BigEndian.AppendUint64(nil, uint64(at.UnixNano())))
}

// activeAt returns the time that noteActive stored, or the zero time.
func activeAt(st *stage.State, key []byte) (time.Time, error) {
	v, _, err := st.Get(key)
	return activeTime(v), err
}

func activeTime(v []byte) time.Time {
	if len(v) != 8 {
		return time.Time{}
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(v))).UTC()
}

// sessionID identifies a session.
type sessionID struct{ project, agent, session string }

// sessionOf returns the session that a key names. It is zero if the key names none.
func sessionOf(key []byte) (s sessionID) {
	if parts := bytes.SplitN(key[1:], []byte{0}, 4); len(parts) >= 3 {
		s = sessionID{string(parts[0]), string(parts[1]), string(parts[2])}
	}
	return s
}

// dropSession removes the state of a session, except the record of its rejected observations (holes).
func dropSession(st *stage.State, project, agent, session string) error {
	for _, space := range []byte{keySaid, keyIntent} {
		if err := st.DropPrefix(stage.Key(space, project, agent, session, "")); err != nil {
			return err
		}
	}
	for _, key := range [][]byte{stage.Key(keyShown, project, agent, session), baseKey(project, agent, session)} {
		if err := st.Delete(key); err != nil {
			return err
		}
	}
	return st.Delete(activeKey(project, agent, session))
}

// fading is a session whose state is being dropped.
type fading struct {
	sessionID
	any   bool     // the session has state
	words []uint32 // meaningless words to store instead of the user's, see intent.Faded
}

// expireSessions examines the next sessions, and drops the state of those whose last event was before the horizon.
func (f *Fold) expireSessions(st *stage.State, x *expiry, step *streams.ExpiryStep) error {
	var silent []fading
	from, looked := x.Session, 0
	x.Session = nil
	err := st.ScanFrom([]byte{keyActive}, from, func(k, v []byte) (bool, error) {
		if looked == step.Looks || len(silent) == step.Drops {
			x.Session = bytes.Clone(k)
			return false, nil
		}
		looked++
		if activeTime(v).Add(activeGrain).Before(x.Before) {
			silent = append(silent, fading{sessionID: sessionOf(k)})
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	// Do all reads before the writes. After a write, a scan needs a new iterator.
	held := make(map[string]bool)
	gone := silent[:0]
	for _, s := range silent {
		keep, err := onHold(st, s.project, held)
		if err == nil && !keep {
			err = f.fade(st, &s)
		}
		if err != nil {
			return err
		}
		if !keep {
			gone = append(gone, s)
		}
	}
	for _, s := range gone {
		if err := f.expireSession(st, &s); err != nil {
			return err
		}
	}
	return nil
}

// fade reads what expireSession needs before the session's state is dropped.
func (f *Fold) fade(st *stage.State, s *fading) error {
	words, err := f.userWords(st, s.project, s.agent, s.session)
	if err != nil {
		return err
	}
	s.words = intent.Faded(words)
	for _, space := range []byte{keySaid, keyIntent} {
		if s.any, err = hasKey(st, stage.Key(space, s.project, s.agent, s.session, "")); err != nil || s.any {
			return err
		}
	}
	_, s.any, err = st.Get(stage.Key(keyShown, s.project, s.agent, s.session))
	return err
}

// expireSession drops the state of a session. If there was any, it stores s.words instead of the user's words, and
// marks the session so that its proposals are held.
func (f *Fold) expireSession(st *stage.State, s *fading) error {
	if err := dropSession(st, s.project, s.agent, s.session); err != nil || !s.any {
		return err
	}
	if len(s.words) > 0 {
		if err := st.Set(stage.Key(keyIntent, s.project, s.agent, s.session, ""), wordBytes(s.words)); err != nil {
			return err
		}
	}
	h, err := f.holes(st, s.project, s.agent, s.session)
	if err != nil {
		return err
	}
	h.Expired = true
	return f.putHoles(st, sessionKey(s.project, s.agent, s.session), &h)
}

// dateSessions gives the sessions in a state of an earlier version a time: that of the partition's last event. The time
// of a session's own last event is only in the ledger.
func dateSessions(st *stage.State) error {
	v, _, err := st.Get([]byte{keyClock})
	if err != nil || len(v) != 8 {
		return err
	}
	now := activeTime(v)
	var all []sessionID
	for _, space := range []byte{keySaid, keyIntent, keyShown} {
		err := st.Scan([]byte{space}, func(k, _ []byte) (bool, error) {
			s := sessionOf(k)
			if s.session != "" && !streams.IsSynthetic(s.project) && (len(all) == 0 || s != all[len(all)-1]) {
				all = append(all, s)
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	for _, s := range all {
		key := activeKey(s.project, s.agent, s.session)
		at, err := activeAt(st, key)
		if err == nil && at.IsZero() {
			err = putActive(st, key, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
