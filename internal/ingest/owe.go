package ingest

import (
	"encoding/binary"
	"slices"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

func init() {
	writesIn(streams.TypeRevision, (*Fold).applyRevisions)
}

// Some changes have no event of their own and need an additional entry. One kind is changes of
// other beliefs that follow from a change or a verdict. They take effect at once, and their entry
// follows. The other kind is aging, which is stored by its entry. Until then queries compute it
// from the time of the query.

// Reasons of an entry with revisions.
const (
	becauseConflict = "conflict"
	becauseTime     = "time"
	becauseFallen   = "fallen"
)

// maxOwed is the maximum number of revisions in one entry.
const maxOwed = 256

// owed is a part of the stored queue of pending revisions.
type owed struct {
	Because   string             `json:"because"`
	Project   string             `json:"project"`
	Revisions []beliefs.Revision `json:"revisions,omitzero"`
	At        time.Time          `json:"at"`
	// Of is the person whom the beliefs concern.
	Of streams.Person `json:"of,omitzero"`
	// Aged is the number of beliefs that became stale or expired.
	Aged int `json:"aged,omitzero"`
	// Dependants are decisions and actions that cite a belief which is no longer reliable.
	Dependants []beliefs.Dependant `json:"dependants,omitzero"`
}

// owe queues revisions that have taken effect, for entries in the ledger.
func (f *Fold) owe(st *stage.State, project, because string, all []beliefs.Revision, at time.Time) error {
	parts, of, err := f.byPerson(st, project, all)
	if err != nil {
		return err
	}
	for i, whole := range parts {
		for part := range slices.Chunk(whole, maxOwed) {
			if err := f.queue(st, &owed{Because: because, Project: project, Of: of[i], Revisions: part, At: at}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fold) queue(st *stage.State, o *owed) error {
	last, _, err := st.Get([]byte{keyOwed})
	if err != nil {
		return err
	}
	var seq uint64
	if len(last) == 8 {
		seq = binary.BigEndian.Uint64(last)
	}
	seq++
	if err := st.Set([]byte{keyOwed}, binary.BigEndian.AppendUint64(nil, seq)); err != nil {
		return err
	}
	f.owes[st.Partition()] = true
	return st.Put(owedKey(seq), o)
}

func owedKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyOwed, '#'}, seq)
}

// oldestOwed returns the first part of the queue, or nil.
func (f *Fold) oldestOwed(st *stage.State) (o *owed, key []byte, err error) {
	err = st.Scan([]byte{keyOwed, '#'}, func(k, v []byte) (bool, error) {
		o, key = new(owed), append([]byte(nil), k...)
		return false, streams.Unmarshal(v, o)
	})
	return o, key, err
}

// revisions returns the next pending entry of revisions, or nil.
func (f *Fold) revisions(st *stage.State) (*stage.Admission, error) {
	o, _, err := f.oldestOwed(st)
	if err != nil {
		return nil, err
	}
	if o == nil {
		if o, err = f.aged(st); err != nil || o == nil {
			return nil, err
		}
	}
	now, err := f.clock(st, o.Project)
	if err != nil {
		return nil, err
	}
	return admission(streams.TypeRevision, o.Project,
		&streams.RevisionsEntry{EntryHead: named(streams.EntryHead{Time: now}, o.Of), Because: o.Because, Aged: o.Aged,
			Revisions: o.Revisions, Dependants: o.Dependants})
}

// applyRevisions folds an entry of revisions.
func (f *Fold) applyRevisions(st *stage.State, project string, e *streams.RevisionsEntry) error {
	if e.Rollback != nil {
		return f.applyRollback(st, project, e)
	}
	if e.Because != becauseTime {
		// The entry is the oldest part of the queue, unless that part was forgotten.
		var key []byte
		err := st.Scan([]byte{keyOwed, '#'}, func(k, v []byte) (bool, error) {
			o := new(owed)
			if err := streams.Unmarshal(v, o); err != nil {
				return false, err
			}
			if o.Because == e.Because && o.Project == project && o.Of == e.Of() {
				key = append([]byte(nil), k...)
			}
			return key == nil, nil
		})
		if err != nil || key == nil {
			return err
		}
		return st.Delete(key)
	}
	if err := f.dropDue(st, project, e); err != nil {
		return err
	}
	for i := range e.Revisions {
		if err := f.revise(st, project, &e.Revisions[i]); err != nil {
			return err
		}
	}
	return nil
}
