package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"lazaret/pkg/position"
)

// eraser removes files that the store no longer needs. Unlike Pebble's own cleaner it does not let Pebble recycle log
// files: a recycled file still has its former contents after the new ones. Pebble does not recycle files if it has its
// archiving cleaner. Pebble recognizes that cleaner by an unexported method, which eraser gets by embedding the
// cleaner.
type eraser struct {
	pebble.DeleteCleaner
	noRecycling
}

type noRecycling struct{ pebble.ArchiveCleaner }

// eraseTimeout is the maximum time that the removal of files may take once nothing needs them any more.
const eraseTimeout = 30 * time.Second

// Erase removes destroyed keys from the store's files. Afterwards neither Pebble's tables nor its write-ahead logs have
// a destroyed key, not even wrapped. Copies made by Snapshot share the older files and still have the destroyed keys.
// Remove these copies before you call Erase. Erase is slow, but appends and reads continue meanwhile.
func (l *Log) Erase(ctx context.Context) error {
	return l.erase(ctx, [][2][]byte{{{spaceKey}, {spaceKey + 1}}})
}

// erase compacts the given ranges of keys until no file has overwritten values of these keys.
func (l *Log) erase(ctx context.Context, ranges [][2][]byte) error {
	if err := l.db.Flush(); err != nil {
		return fmt.Errorf("erasing the destroyed records: %w", err)
	}
	for _, r := range ranges {
		if err := l.db.Compact(ctx, r[0], r[1], false); err != nil {
			return fmt.Errorf("erasing the destroyed records: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	for {
		m := l.db.Metrics()
		if m.WAL.ObsoleteFiles == 0 && m.Table.ObsoleteCount == 0 && m.Table.ZombieCount == 0 {
			// Pebble deletes files in the background. Only this method, which Pebble has for tests, waits until they are
			// deleted.
			l.db.TestOnlyWaitForCleaning()
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("erasing the destroyed records: %d old logs and %d old tables are still there",
				m.WAL.ObsoleteFiles, m.Table.ObsoleteCount+m.Table.ZombieCount), ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// EraseEntries erases the payloads of single entries of one project in the current ledger. It is for payloads whose key
// must not be destroyed, because the key also encrypts payloads that stay. seqs are the ledger sequences, in ascending
// order. EraseEntries ignores entries of the types in kept, entries of other projects, and sequences without an entry.
// It returns the number of payloads that it erased.
//
// Unlike DestroyKeys, EraseEntries also removes the encrypted payloads from the store's files. It must, because the key
// that decrypts them remains in use. Copies made by Snapshot must be removed before. All proofs stay valid. The log
// does not record why the payloads were erased. Verify accepts the missing payloads if VerifyOptions.Lawful finds an
// entry of the log that lists them.
func (l *Log) EraseEntries(ctx context.Context, seqs []uint64, project string, kept []string) (int, error) {
	l.appending.Lock()
	defer l.appending.Unlock()
	var gone []int64
	size := l.Head().Size
	from, err := l.Present(size)
	if err != nil {
		return 0, err
	}
	err = l.find(seqs, from, size, func(i int64, leaf *Leaf) {
		if leaf.Project == project && !slices.Contains(kept, leaf.Type) {
			gone = append(gone, i)
		}
	})
	if err != nil {
		return 0, fmt.Errorf("looking for entries to erase: %w", err)
	}
	b := l.db.NewBatch()
	defer b.Close()
	n := 0
	for _, i := range gone {
		k := indexKey(spacePayload, i)
		v, c, err := l.db.Get(k[:])
		if errors.Is(err, pebble.ErrNotFound) {
			continue // taken from another log, without a payload
		}
		if err != nil {
			return 0, fmt.Errorf("reading the payload of leaf %d: %w", i, err)
		}
		subject, _, box, err := splitRecord(v)
		if err == nil && len(box) > 0 {
			n++
			err = b.Set(k[:], v[:2+len(subject)+4], nil)
		}
		if err := errors.Join(err, c.Close()); err != nil {
			return 0, fmt.Errorf("erasing the payload of leaf %d: %w", i, err)
		}
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return 0, fmt.Errorf("erasing payloads: %w", err)
	}
	return n, l.erase(ctx, spans(gone))
}

// EraseUpTo erases the payloads of all entries up to a ledger sequence, including the entries of ledgers before a
// recreation. It keeps payloads of leaves for which spare returns true. In all else, EraseUpTo is like EraseEntries.
func (l *Log) EraseUpTo(ctx context.Context, seq uint64, spare func(leaf *Leaf) bool) (int, error) {
	l.appending.Lock()
	defer l.appending.Unlock()
	to := l.Head().Size
	if seq < l.Head().LastSeq {
		var err error
		if to, err = l.FindSeq(seq + 1); err != nil {
			return 0, err
		}
	}
	lower, upper := indexKey(spacePayload, 0), indexKey(spacePayload, to)
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: lower[:], UpperBound: upper[:]})
	if err != nil {
		return 0, err
	}
	b := l.db.NewBatch()
	n, lo, hi := 0, int64(0), int64(-1)
	var ranges [][2][]byte
	span := func() {
		if hi >= 0 {
			from, to := indexKey(spacePayload, lo), indexKey(spacePayload, hi+1)
			ranges = append(ranges, [2][]byte{from[:], to[:]})
		}
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		i, good := splitIndexKey(it.Key())
		subject, _, box, serr := splitRecord(it.Value())
		if !good || serr != nil || len(box) == 0 {
			continue // the payload was erased before, or is damaged, which a verification reports
		}
		var leaf Leaf
		if leaf, err = l.Leaf(i); err != nil || spare(&leaf) {
			continue
		}
		n++
		if hi < 0 || i-hi > spanGap {
			span()
			lo = i
		}
		hi = i
		if err = b.Set(it.Key(), it.Value()[:2+len(subject)+4], nil); err == nil && b.Len() > eraseBatch {
			err = errors.Join(b.Commit(pebble.NoSync), b.Close(), ctx.Err())
			b = l.db.NewBatch()
		}
	}
	span()
	if err = errors.Join(err, it.Error(), it.Close()); err == nil {
		err = b.Commit(pebble.Sync)
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return 0, fmt.Errorf("erasing payloads up to ledger sequence %d: %w", seq, err)
	}
	return n, l.erase(ctx, ranges)
}

// eraseBatch is the maximum size of one batch of changes in EraseUpTo, in bytes.
const eraseBatch = 1 << 20

// LastBefore returns the sequence of the last entry of the current ledger that is older than a
// time, or 0.
func (l *Log) LastBefore(t time.Time) (uint64, error) {
	size := l.Head().Size
	from, err := l.Present(size)
	if err != nil {
		return 0, err
	}
	n := sort.Search(int(size-from), func(i int) bool {
		leaf, e := l.Leaf(from + int64(i))
		err = errors.Join(err, e)
		return !leaf.Time.Before(t)
	})
	if err != nil || n == 0 {
		return 0, err
	}
	leaf, err := l.Leaf(from + int64(n) - 1)
	if leaf.Kind == KindGap {
		return leaf.Seq + leaf.Length - 1, err
	}
	return position.Sequence(leaf.Seq), err
}

// spanGap is a number of leaves: about as many as one table has. Two erased payloads that are at most so many leaves
// apart are compacted together.
const spanGap = 16 << 10

// spans returns ranges of keys that contain the payloads of all given leaves. The leaves must be in ascending order.
func spans(leaves []int64) (out [][2][]byte) {
	for i := 0; i < len(leaves); {
		j := i
		for j+1 < len(leaves) && leaves[j+1]-leaves[j] <= spanGap {
			j++
		}
		lo, hi := indexKey(spacePayload, leaves[i]), indexKey(spacePayload, leaves[j]+1)
		out = append(out, [2][]byte{lo[:], hi[:]})
		i = j + 1
	}
	return out
}

// Present returns the index of the first of the log's leaves that can be of the current ledger: the one after the
// last reset. It looks at the leaves before size.
func (l *Log) Present(size int64) (from int64, err error) {
	if l.Head().Resets == 0 {
		return 0, nil
	}
	err = l.Range(0, size, func(i int64, leaf Leaf) error {
		if leaf.Kind == KindReset {
			from = i + 1
		}
		return nil
	})
	return from, err
}

// find looks at the leaves from <= i < to, whose sequences must ascend. It calls fn for each leaf whose sequence is one
// of seqs. seqs must be in ascending order.
func (l *Log) find(seqs []uint64, from, to int64, fn func(i int64, leaf *Leaf)) error {
	for _, seq := range seqs {
		if from == to {
			return nil
		}
		lo, hi := from, to
		// Search forward in growing steps, because most listed sequences are close to each other.
		for step := int64(1); from+step < to; step *= 2 {
			leaf, err := l.Leaf(from + step)
			if err != nil {
				return err
			}
			if position.Sequence(leaf.Seq) >= seq {
				hi = from + step
				break
			}
			lo = from + step
		}
		for lo < hi {
			mid := lo + (hi-lo)/2
			leaf, err := l.Leaf(mid)
			if err != nil {
				return err
			}
			if position.Sequence(leaf.Seq) < seq {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		if lo == to {
			return nil // all other sequences come later
		}
		for from = lo; from < to; from++ { // all entries of the message
			leaf, err := l.Leaf(from)
			if err != nil {
				return err
			}
			if leaf.Kind != KindEntry || position.Sequence(leaf.Seq) != seq {
				break
			}
			fn(from, &leaf)
		}
	}
	return nil
}
