package ingest

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// An order to expire drops beliefs from content that was last read before its horizon, if
// they are unchanged and nothing depends on them. Memories stay. Event ids stay, or a repeated
// event would count as new. Phrases and carriers of foreign content stay, or a foreign
// sentence would count as the user's own.

// deadKey counts documents of the indexes whose beliefs have expired. An index cannot remove
// a document, so the indexes are rebuilt once more documents are dead than alive.
var deadKey = []byte{keyCustody, 0, 'e'}

// expire folds an order to expire.
func (f *Fold) expire(st *stage.State, body *streams.CustodyEntry) error {
	c := body.Custody()
	if c == nil || c.Do != streams.DoExpire {
		return nil
	}
	var old [][2]string // project and id of each belief
	alive, dead := uint64(0), uint64(0)
	err := st.Scan([]byte{keyBelief}, func(k, v []byte) (bool, error) {
		project, id, _ := strings.Cut(string(k[1:]), "\x00")
		r := new(record)
		if err := readRecord(id, v, r); err != nil {
			return false, err
		}
		if r.indexed() {
			alive++
		}
		if r.At.Before(c.Before) && r.plain() && r.Ref.Axes.Security == beliefs.Clean && !streams.IsSynthetic(project) {
			old = append(old, [2]string{project, id})
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	held := make(map[string]bool) // whether a project is under legal hold, for projects that were looked up
	for _, x := range old {
		r, err := f.belief(st, x[0], x[1])
		if err != nil || r == nil {
			return err
		}
		if keep, err := f.outlives(st, x[0], r, c.Before, held); err != nil {
			return err
		} else if keep {
			continue
		}
		if err := dropRead(st, x[0], r); err != nil {
			return err
		}
		if r.indexed() {
			alive--
			dead++
		}
	}
	if dead == 0 {
		return nil
	}
	v, _, err := st.Get(deadKey)
	if err != nil {
		return err
	}
	if len(v) == 8 {
		dead += binary.BigEndian.Uint64(v)
	}
	if dead > alive {
		if err := reindex(st); err != nil {
			return err
		}
		dead = 0
	}
	return st.Set(deadKey, binary.BigEndian.AppendUint64(nil, dead))
}

// indexed reports whether recalls find the belief.
func (r *record) indexed() bool { return r.Memory || r.Ref.Kind == beliefs.Content }

// outlives reports whether an order to expire keeps an unchanged belief from observed
// content. It keeps the belief if the content was read again at or after the horizon, if the
// project or one of its data subjects is under legal hold, or if anything depends on the
// belief or on its event.
func (f *Fold) outlives(st *stage.State, project string, r *record, before time.Time,
	held map[string]bool) (bool, error) {
	if !r.last().Before(before) {
		return true, nil
	}
	h, ok := held[project]
	if !ok {
		_, whole, err := st.Get(legalHoldKey(project))
		if err != nil {
			return true, err
		}
		person, err := hasKey(st, personHoldKey(project, ""))
		if err != nil {
			return true, err
		}
		h = whole || person
		held[project] = h
	}
	if h {
		return true, nil
	}
	event := parentKey(streams.Parent{ID: r.Ref.Observation, Agent: r.Agent})
	for _, on := range []string{r.Ref.ID, event} {
		if used, err := hasKey(st, stage.Key(keyImpact, project, on, "")); err != nil || used {
			return true, err
		}
	}
	return false, nil
}

// hasKey reports whether the state has a key with a prefix.
func hasKey(st *stage.State, prefix []byte) (found bool, err error) {
	err = st.Scan(prefix, func(_, _ []byte) (bool, error) {
		found = true
		return false, nil
	})
	return found, err
}

// dropRead removes a belief from observed content, and its text.
func dropRead(st *stage.State, project string, r *record) error {
	var sum [32]byte
	if r.Ref.Kind == beliefs.Content {
		if _, err := hex.Decode(sum[:], []byte(strings.TrimPrefix(r.Digest, "sha256:"))); err != nil {
			return err
		}
		if err := st.Delete(contentKey(project, sum)); err != nil {
			return err
		}
	}
	if p := r.of(); p != (streams.Person{}) {
		if err := st.Delete(personKey(project, p, r.Ref.ID)); err != nil {
			return err
		}
	}
	for _, key := range []byte{keyBelief, keyAgain, keyText} {
		if err := st.Delete(stage.Key(key, project, r.Ref.ID)); err != nil {
			return err
		}
	}
	return nil
}
