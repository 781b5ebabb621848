package arbiter

import (
	"encoding/binary"
	"math"
	"time"

	"lazaret/internal/stage"
)

// How long the arbiter stores records, in ledger time, so that a replay removes the same records at the same entry. The
// ledger is not affected.
//
// Findings, recalls and parents affect later proposals. Their number is limited (see dependencies.go), but not their
// age, because an alert on an old belief still counts.
const (
	// keepLate is how long a decided proposal is stored, because a late assessment can make its verdict stricter.
	keepLate = 10 * time.Minute
	// KeepVerdict is how long a verdict can be asked for by its id, and is compared with outcomes. The time begins
	// with the verdict or, if the verdict is a hold, when the hold ends. It is longer than a hold can be open.
	KeepVerdict = 31 * 24 * time.Hour
	// KeepHold is how long a settled hold is stored and listed.
	KeepHold = 31 * 24 * time.Hour

	// pruneSlack is how long expired records may stay, so that one scan removes many.
	pruneSlack = 10 * time.Second
	// pruneMost is the maximum number of records that are removed at one entry.
	pruneMost = 256
)

// pruning caches where a partition's removal queue begins.
//
// The queue is in the state, ordered by time. A scan for its first key steps over removed keys until these are
// compacted. So the position of the first key is cached.
type pruning struct {
	known bool
	from  []byte // the queue has no key before this one
	head  int64  // time of the first key, or noHead
}

const noHead = math.MaxInt64 // the queue is empty

// forgetAt schedules the removal of a key of the state.
func (f *Fold) forgetAt(st *stage.State, at time.Time, key []byte) error {
	q := &f.pruned[st.Partition()]
	k := append(append([]byte{keyForget}, timeKey(at)...), key...)
	if q.known && at.UnixNano() < q.head {
		q.head = at.UnixNano()
		q.from = k
	}
	return st.Set(k, nil)
}

// prune removes expired keys, oldest first, at most pruneMost.
func (f *Fold) prune(st *stage.State, now time.Time) error {
	q := &f.pruned[st.Partition()]
	if q.known && q.head > now.Add(-pruneSlack).UnixNano() {
		return nil
	}
	if !q.known {
		q.from = []byte{keyForget}
	}
	q.known, q.head = true, noHead
	gathered := false
	var gone [][]byte
	err := st.ScanFrom([]byte{keyForget}, q.from, func(k, _ []byte) (bool, error) {
		if len(k) < 10 {
			return true, nil
		}
		at := int64(binary.BigEndian.Uint64(k[1:9]))
		gathered = gathered || at <= now.Add(-pruneSlack).UnixNano()
		if !gathered || at >= now.UnixNano() || len(gone) == pruneMost {
			q.head, q.from = at, append(q.from[:0:0], k...)
			return false, nil
		}
		gone = append(gone, append([]byte(nil), k...))
		return true, nil
	})
	if err != nil {
		q.known = false
		return err
	}
	if n := len(gone); n > 0 && q.head == noHead {
		q.from = gone[n-1]
	}
	for _, k := range gone {
		if err := st.Delete(k); err != nil {
			return err
		}
		if err := st.Delete(k[9:]); err != nil {
			return err
		}
	}
	return nil
}
