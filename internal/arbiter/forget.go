package arbiter

import (
	"encoding/binary"
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// forget drops a project's proposals, holds, verdicts, findings and timers. Open proposals get no answer. Callers must
// treat that as a hold.
func (f *Fold) forget(st *stage.State, e *streams.Entry, now time.Time) (*stage.Output, error) {
	b := new(streams.CustodyEntry)
	if err := streams.Unmarshal(e.Body, b); err != nil {
		f.log.Error("an entry on an erasure cannot be read and is skipped", "seq", e.Seq, "err", err)
		return nil, nil
	}
	proposals := make(map[uint64]bool)
	open := 0
	err := st.Scan([]byte{keyProposal}, func(k, v []byte) (bool, error) {
		var p struct {
			Project string `json:"project"`
		}
		if err := streams.Unmarshal(v, &p); err != nil {
			return false, err
		}
		if p.Project == e.Project && len(k) == 9 {
			proposals[binary.BigEndian.Uint64(k[1:])] = true
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	if err := f.countHolds(st); err != nil {
		return nil, err
	}
	var of func(k []byte) bool
	of = func(k []byte) bool {
		switch {
		case len(k) == 0:
			return false
		case k[0] == keyProposal && len(k) == 9:
			return proposals[binary.BigEndian.Uint64(k[1:])]
		case k[0] == keyTimer && len(k) >= 10:
			if k[9] == timerDeadline && len(k) == 18 {
				return proposals[binary.BigEndian.Uint64(k[10:])]
			}
			project, _, two := cut(k[10:])
			return two && project == e.Project
		case k[0] == keyForget && len(k) > 9:
			return of(k[9:])
		case k[0] == keyRing || k[0] == keyFilled:
			return len(k) > 2 && stage.OfProject(k[1:], e.Project)
		}
		return stage.OfProject(k, e.Project)
	}
	apart := []byte{keyProposal, keyTimer, keyForget, keyRing, keyFilled}
	err = st.DropProject(e.Project, apart, func(k, _ []byte) (bool, error) {
		gone := of(k)
		if gone && k[0] == keyTimer && k[9] == timerExpiry {
			open++
		}
		return gone, nil
	})
	if err != nil {
		return nil, err
	}
	f.countHold(e.Project, -open)
	f.Reset() // timers and the removal queue are read again from the state
	return stage.NewOutput(streams.TypeDropped, e.Project, &streams.DroppedEntry{EntryHead: streams.EntryHead{Time: now},
		Statement: b.ID})
}

// erased answers a statement about one data subject. The stage's loop has already folded the partition again without
// the entries that the statement lists.
func erased(e *streams.Entry, now time.Time) (*stage.Output, error) {
	b := new(streams.CustodyEntry)
	if err := streams.Unmarshal(e.Body, b); err != nil || streams.Erasure(e.Body) == nil {
		return nil, nil
	}
	return stage.NewOutput(streams.TypeDropped, e.Project, &streams.DroppedEntry{EntryHead: streams.EntryHead{Time: now},
		Statement: b.ID})
}
