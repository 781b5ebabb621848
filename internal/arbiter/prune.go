package arbiter

import (
	"encoding/binary"
	"time"

	"lazaret/internal/stage"
)

// How long the arbiter keeps records, in ledger time, so that a replay forgets the same
// at the same entry. The ledger keeps all of it; these limits are about the arbiter's own
// answers.
//
// Tables that affect later actions are not here: findings, recalls and derivations are
// bounded by number and not by age (bearing.go), since an alert on an old belief still
// counts.
const (
	// keepLate is how long a decided proposal is kept so that a late assessment
	// can still tighten it.
	keepLate = 10 * time.Minute
	// KeepVerdict is how long a verdict can be asked for again by its id, and
	// an outcome held against it: from the verdict on, or from the end of its
	// hold. Longer than a hold may stay open.
	KeepVerdict = 31 * 24 * time.Hour
	// KeepHold is how long a hold that ended is listed.
	KeepHold = 31 * 24 * time.Hour

	// pruneSlack lets expired records gather, so that not every entry scans for a few.
	pruneSlack = 10 * time.Second
	// pruneMost bounds what one entry removes.
	pruneMost = 256
)

// pruning caches the position of a partition's removal queue.
//
// The queue is in the state, ordered by time. Removed keys slow down a scan for the first
// one until they are compacted away, so its place is remembered.
type pruning struct {
	known bool
	from  []byte // no key of the queue lies before it
	head  int64  // time of the first one, or noHead
}

const noHead = int64(^uint64(0) >> 1)

// forgetAt lets a key of the state be removed at a time.
func (f *Fold) forgetAt(st *stage.State, at time.Time, key []byte) error {
	q := &f.pruned[st.Partition()]
	k := append(append([]byte{keyForget}, timeKey(at)...), key...)
	if q.known && at.UnixNano() < q.head {
		q.head = at.UnixNano()
		q.from = k
	}
	return st.Set(k, nil)
}

// prune removes expired keys, at most pruneMost, oldest first.
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
