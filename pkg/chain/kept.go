package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/tlog"
)

// The store has a record for each checkpoint and each handover. The log numbers the changes of these records. A change
// is a new record, or new cosignatures in a record. For each change, the log stores the record's key and the hash of
// its new value. Each signed checkpoint has an extension line that commits to all changes before it. So a verification
// notices that a record was removed or replaced.

// keptLine is the beginning of this extension line. The line goes on with <number of changes> SP <hash over the
// changes, base64>.
const keptLine = "lazaret-kept "

// history counts the checkpoints and handovers of a log. It also has the number of changes of their records, and the
// hash over these changes.
type history struct {
	checkpoints, handovers uint64
	changes                uint64
	hash                   tlog.Hash
	// uncovered is set if an earlier version wrote the log. Such a log has no list of changes.
	uncovered bool
}

const (
	countsSize  = 16
	historySize = countsSize + 8 + tlog.HashSize
	changeSize  = 9 + sha256.Size
)

func readHistory(r pebble.Reader) (h history, err error) {
	v, c, err := r.Get([]byte{spaceCounts})
	if errors.Is(err, pebble.ErrNotFound) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	defer c.Close()
	if len(v) != countsSize && len(v) != historySize {
		return h, fmt.Errorf("the record of how many checkpoints there are has %d bytes, want %d", len(v), historySize)
	}
	h.checkpoints, h.handovers = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])
	if h.uncovered = len(v) == countsSize; !h.uncovered {
		h.changes, h.hash = binary.BigEndian.Uint64(v[countsSize:]), tlog.Hash(v[countsSize+8:])
	}
	return h, nil
}

func (h *history) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, h.checkpoints)
	b = binary.BigEndian.AppendUint64(b, h.handovers)
	if h.uncovered {
		return b
	}
	return append(binary.BigEndian.AppendUint64(b, h.changes), h.hash[:]...)
}

func change(key, value []byte) []byte {
	sum := sha256.Sum256(value)
	return append(bytes.Clone(key), sum[:]...)
}

// add adds a change.
func (h *history) add(change []byte) {
	h.hash = sha256.Sum256(append(h.hash[:], change...))
	h.changes++
}

// line returns the extension line about changes for the next checkpoint.
func (h *history) line() string {
	if h.uncovered {
		return ""
	}
	return keptLine + strconv.FormatUint(h.changes, 10) + " " + base64.StdEncoding.EncodeToString(h.hash[:]) + "\n"
}

// kept returns the number of changes, and the hash over them, that a checkpoint commits to. If the checkpoint has no
// such extension line, ok is false.
func (c *Checkpoint) kept() (changes uint64, hash tlog.Hash, ok bool) {
	rest, ok := strings.CutPrefix(c.Extension, keptLine)
	if !ok {
		return 0, hash, false
	}
	n, sum, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), " ")
	b, err := base64.StdEncoding.Strict().DecodeString(sum)
	if err != nil || len(b) != len(hash) {
		return 0, hash, false
	}
	changes, err = strconv.ParseUint(n, 10, 64)
	return changes, tlog.Hash(b), err == nil
}

// record stores a checkpoint or handover, and lists the change. If the checkpoint or handover is new, it also counts
// it. The caller must hold l.signing.
func (l *Log) record(key, value []byte) error {
	h, err := readHistory(l.db)
	if err != nil {
		return err
	}
	b := l.db.NewBatch()
	defer b.Close()
	switch _, c, err := l.db.Get(key); {
	case err == nil:
		if err := c.Close(); err != nil {
			return err
		}
	case !errors.Is(err, pebble.ErrNotFound):
		return err
	case key[0] == spaceHandover:
		h.handovers++
	default:
		h.checkpoints++
	}
	if !h.uncovered {
		at, c := key8(spaceKept, h.changes), change(key, value)
		if err := b.Set(at, c, nil); err != nil {
			return err
		}
		h.add(c)
	}
	if err := errors.Join(b.Set(key, value, nil), b.Set([]byte{spaceCounts}, h.encode(), nil)); err != nil {
		return err
	}
	return b.Commit(pebble.Sync)
}

// cover lists the checkpoints and handovers of a log that an earlier version wrote, as if they had just been stored. If
// their number differs from the log's counts, a record was added or removed. cover then changes nothing, so that a
// verification finds the difference.
func (l *Log) cover() error {
	old, err := readHistory(l.db)
	if err != nil || !old.uncovered {
		return nil // nothing to do, or the record cannot be read, which a verification reports
	}
	const at = 1 << 16 // changes per batch
	var h history
	b := l.db.NewBatch()
	defer func() { b.Close() }()
	for _, space := range []byte{spaceHandover, spaceCheckpoint} {
		it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte{space}, UpperBound: []byte{space + 1}})
		if err != nil {
			return err
		}
		for ok := it.First(); ok && err == nil; ok = it.Next() {
			if len(it.Key()) != changeSize-sha256.Size {
				break // the number of records differs from the counts; a verification reports that
			}
			c := change(it.Key(), it.Value())
			err = b.Set(key8(spaceKept, h.changes), c, nil)
			h.add(c)
			if space == spaceHandover {
				h.handovers++
			} else {
				h.checkpoints++
			}
			if h.changes%at == 0 && err == nil {
				err = errors.Join(b.Commit(pebble.NoSync), b.Close())
				b = l.db.NewBatch()
			}
		}
		if err := errors.Join(err, it.Error(), it.Close()); err != nil {
			return fmt.Errorf("recording which checkpoints the log keeps: %w", err)
		}
	}
	if h.checkpoints != old.checkpoints || h.handovers != old.handovers {
		return nil
	}
	if err := b.Set([]byte{spaceCounts}, h.encode(), nil); err != nil {
		return err
	}
	return b.Commit(pebble.Sync)
}

// recordKey is the key under which the store has a checkpoint or handover.
type recordKey [changeSize - sha256.Size]byte

func (k recordKey) String() string {
	n := binary.BigEndian.Uint64(k[1:])
	if k[0] == spaceHandover {
		return fmt.Sprintf("handover %d", n)
	}
	return fmt.Sprintf("the checkpoint of size %d", n)
}

// counted checks that the store has exactly the checkpoints and handovers that the log listed, each as it was listed
// last. It also checks that the list is the one to which the signed checkpoints commit.
func (v *verification) counted(cps []signed, good []bool) {
	end := max(v.want.Size-1, 0)
	h, err := readHistory(v.snap)
	if err != nil {
		v.bad(end, "%v", err)
		return
	}
	have := history{handovers: uint64(v.rep.Handovers), uncovered: h.uncovered}
	claims := make(map[uint64][]int)
	last := -1 // index of the log's own last checkpoint
	for i := range cps {
		c := &cps[i]
		if c.own {
			have.checkpoints++
		}
		if !good[i] {
			continue
		}
		if c.own && (last < 0 || c.Size > cps[last].Size) {
			last = i
		}
		if n, _, ok := c.kept(); ok && (c.own || c.head || c.seen || v.ours(c, cps)) {
			claims[n] = append(claims[n], i)
		}
	}
	lastOf := v.changes(&have, cps, claims)
	if h != have {
		v.bad(end, "the log has %d checkpoints and %d handovers after %d changes, but %d and %d after %d changes were "+
			"recorded", have.checkpoints, have.handovers, have.changes, h.checkpoints, h.handovers, h.changes)
	}
	// The claims that are left commit to more changes than the log has.
	for _, n := range slices.Sorted(maps.Keys(claims)) {
		for _, i := range claims[n] {
			v.otherHistory(&cps[i], n)
		}
	}
	if !h.uncovered {
		v.unchanged(lastOf)
	}
	if last >= 0 {
		if _, _, ok := cps[last].kept(); !ok || h.uncovered {
			v.skip("the number of stored checkpoints and the cosignatures of older ones: an earlier version signed the " +
				"last checkpoint; the auditor's next checkpoint will cover them")
		}
	}
}

// ours reports whether one of the checkpoint's keys also signed a checkpoint that the log has.
func (v *verification) ours(c *signed, cps []signed) bool {
	return slices.ContainsFunc(c.by, func(id keyID) bool {
		return slices.ContainsFunc(cps, func(o signed) bool { return o.own && slices.Contains(o.by, id) })
	})
}

// changes reads the list of changes and compares it with claims: the checkpoints, as indexes in cps, by the number of
// changes to which each commits. It removes claims that agree with the list, and reports those that differ. It returns
// the last listed hash of each record.
func (v *verification) changes(h *history, cps []signed, claims map[uint64][]int) map[recordKey][sha256.Size]byte {
	lastOf := make(map[recordKey][sha256.Size]byte)
	agree := func() {
		for _, i := range claims[h.changes] {
			if _, hash, _ := cps[i].kept(); hash != h.hash {
				v.otherHistory(&cps[i], h.changes)
			}
		}
		delete(claims, h.changes)
	}
	agree()
	if h.uncovered {
		return lastOf // the records are from an interrupted cover
	}
	v.each(spaceKept, func(k, b []byte) {
		if len(b) != changeSize || !bytes.Equal(k, key8(spaceKept, h.changes)) {
			v.bad(max(v.want.Size-1, 0), "change %d of the stored checkpoints is missing or invalid: %x", h.changes, k)
		}
		h.add(b)
		if len(b) == changeSize {
			lastOf[recordKey(b)] = [sha256.Size]byte(b[len(recordKey{}):])
		}
		agree()
	})
	return lastOf
}

// otherHistory reports a checkpoint that commits to other changes than the log has.
func (v *verification) otherHistory(c *signed, changes uint64) {
	if c.own || c.head {
		v.bad(max(c.Size-1, 0), "%s of size %d was signed after %d changes of the stored checkpoints, which differ from "+
			"those in the log: checkpoints, cosignatures or handovers were removed or changed", c.what, c.Size, changes)
		return
	}
	v.skip("the stored checkpoints up to size %d: %s was signed over different ones; they were removed, or the log "+
		"was restored or created again", c.Size, c.what)
}

// unchanged checks that each stored checkpoint and handover still has the hash that the log listed last.
func (v *verification) unchanged(lastOf map[recordKey][sha256.Size]byte) {
	at := func(k recordKey) int64 {
		if k[0] == spaceHandover {
			return 0
		}
		return max(min(int64(binary.BigEndian.Uint64(k[1:])), v.want.Size)-1, 0)
	}
	for _, space := range []byte{spaceHandover, spaceCheckpoint} {
		v.each(space, func(k, b []byte) {
			if len(k) != len(recordKey{}) {
				return // the method checkpoints reports it
			}
			key := recordKey(k)
			want, ok := lastOf[key]
			delete(lastOf, key)
			if !ok {
				v.bad(at(key), "the log has %s, but no record that it was stored", key)
			} else if want != sha256.Sum256(b) {
				v.bad(at(key), "%s differs from its record: its signatures or cosignatures were changed", key)
			}
		})
	}
	gone := slices.SortedFunc(maps.Keys(lastOf), func(a, b recordKey) int { return bytes.Compare(a[:], b[:]) })
	for _, k := range gone {
		v.bad(at(k), "%s was recorded and is missing", k)
	}
}
