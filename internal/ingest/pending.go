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

// Some changes of beliefs are caused by no message, and still need an entry that records them. There are two kinds.
// First, an entry about one belief can change other beliefs. These changes take effect in the state at once, and a
// later entry records them. Second, beliefs age: a belief becomes stale or expired in the state only with the entry
// that records it. Until then, queries compute it from the present time.

// Values of RevisionsEntry.Because.
const (
	becauseConflict = "conflict"
	becauseTime     = "time"
	becauseFallen   = "fallen"
)

// maxRevisions is the maximum number of revisions in one entry.
const maxRevisions = 256

// pendingRevisions is a part of the stored queue of revisions that the ledger does not have yet.
type pendingRevisions struct {
	Because   string             `json:"because"`
	Project   string             `json:"project"`
	Revisions []beliefs.Revision `json:"revisions,omitzero"`
	At        time.Time          `json:"at"`
	// Of is the person whom the beliefs concern; zero if none in particular.
	Of streams.Person `json:"of,omitzero"`
	// Aged is the number of due times (see aged) that the entry handles.
	Aged int `json:"aged,omitzero"`
	// Dependants are decisions and actions that cite a belief which is no longer reliable.
	Dependants []beliefs.Dependant `json:"dependants,omitzero"`
}

// queueRevisions queues revisions that have taken effect, so that entries record them.
func (f *Fold) queueRevisions(st *stage.State, project, because string, all []beliefs.Revision, at time.Time) error {
	parts, of, err := f.byPerson(st, project, all)
	if err != nil {
		return err
	}
	for i, whole := range parts {
		for part := range slices.Chunk(whole, maxRevisions) {
			if err := f.queue(st, &pendingRevisions{Because: because, Project: project, Of: of[i], Revisions: part,
				At: at}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fold) queue(st *stage.State, o *pendingRevisions) error {
	last, _, err := st.Get([]byte{keyPending})
	if err != nil {
		return err
	}
	var seq uint64
	if len(last) == 8 {
		seq = binary.BigEndian.Uint64(last)
	}
	seq++
	if err := st.Set([]byte{keyPending}, binary.BigEndian.AppendUint64(nil, seq)); err != nil {
		return err
	}
	f.wakes[st.Partition()] = true
	return st.Put(pendingKey(seq), o)
}

func pendingKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyPending, '#'}, seq)
}

// oldestPending returns the first part of the queue and its key, or nil if the queue is empty.
func (f *Fold) oldestPending(st *stage.State) (o *pendingRevisions, key []byte, err error) {
	err = st.Scan([]byte{keyPending, '#'}, func(k, v []byte) (bool, error) {
		o, key = new(pendingRevisions), append([]byte(nil), k...)
		return false, streams.Unmarshal(v, o)
	})
	return o, key, err
}

// revisions returns the next pending entry with revisions, or nil.
func (f *Fold) revisions(st *stage.State) (*stage.Admission, error) {
	o, _, err := f.oldestPending(st)
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

// applyRevisions folds an entry with revisions.
func (f *Fold) applyRevisions(st *stage.State, project string, e *streams.RevisionsEntry) error {
	if e.Rollback != nil {
		return f.applyRollback(st, project, e)
	}
	if e.Because != becauseTime {
		// The entry was made from the oldest part of the queue with the same reason, project and person. Remove this
		// part. If that project or person was forgotten in the meantime, there is no such part.
		var key []byte
		err := st.Scan([]byte{keyPending, '#'}, func(k, v []byte) (bool, error) {
			o := new(pendingRevisions)
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
