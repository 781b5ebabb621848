package chain

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// ErrRange reports that the log is too short: it has no such leaf, or no tree of such a size.
var ErrRange = errors.New("beyond the log's end")

// ErrNotHeld reports that the log has no payload for a leaf, because the leaf was imported from another log.
var ErrNotHeld = errors.New("the leaf was imported from another log, and its payload is not stored here")

// bundles iterates over the leaves of a log in order. It reads the records in which the leaves were appended, and
// returns an error if one record does not continue where the record before it ended.
type bundles struct {
	it   *pebble.Iterator
	next int64  // index of the next leaf
	rest []byte // rest of the current record
}

// newBundles returns an iterator over leaves. It begins with leaf number from, and covers at least the leaves below to.
func newBundles(r pebble.Reader, from, to int64) (*bundles, error) {
	// A record has several leaves. The record with the first leaf to read is the last record of the tile that does not
	// begin after this leaf, because records do not cross tiles.
	lower, upper := indexKey(spaceLeaves, from&^(TileWidth-1)), indexKey(spaceLeaves, (to+TileWidth-1)&^(TileWidth-1))
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower[:], UpperBound: upper[:]})
	if err != nil {
		return nil, err
	}
	b := &bundles{it: it, next: from}
	after := indexKey(spaceLeaves, from+1)
	if !it.SeekLT(after[:]) {
		return b, it.Error()
	}
	at, ok := splitIndexKey(it.Key())
	if !ok {
		return b, nil
	}
	b.rest, err = it.ValueAndErr()
	for ; err == nil && at < from; at++ {
		_, b.rest, err = cutLeaf(b.rest)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading leaf %d: %w", from, err), it.Close())
	}
	return b, nil
}

// read returns the next leaf's encoding, which is valid until the next call. After the last leaf, it returns nil.
func (b *bundles) read() (raw []byte, err error) {
	if len(b.rest) == 0 {
		k := indexKey(spaceLeaves, b.next)
		if !b.it.SeekGE(k[:]) {
			return nil, b.it.Error()
		}
		if string(b.it.Key()) != string(k[:]) {
			return nil, nil
		}
		if b.rest, err = b.it.ValueAndErr(); err != nil {
			return nil, err
		}
	}
	if raw, b.rest, err = cutLeaf(b.rest); err != nil {
		return nil, err
	}
	b.next++
	if b.next%TileWidth == 0 && len(b.rest) > 0 {
		return nil, fmt.Errorf("%w: a record of leaves continues past its tile", ErrLeaf)
	}
	return raw, nil
}

func (b *bundles) close() error { return b.it.Close() }

// cutLeaf splits an entry bundle into the encoding of its first leaf and the rest.
func cutLeaf(b []byte) (raw, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, fmt.Errorf("%w: a bundle of leaves ends early", ErrLeaf)
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < n {
		return nil, nil, fmt.Errorf("%w: a bundle of leaves ends early", ErrLeaf)
	}
	return b[2:n], b[n:], nil
}

// splitIndexKey is the inverse of indexKey.
func splitIndexKey(k []byte) (index int64, ok bool) {
	if len(k) != 9 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(k[1:])), true
}

func (l *Log) rawLeaf(i int64) ([]byte, error) {
	var raw []byte
	err := l.rangeRaw(i, i+1, func(_ int64, b []byte) error {
		raw = append(raw, b...)
		return nil
	})
	return raw, err
}

// rangeRaw calls fn with the encoding of each leaf from <= i < to, in order.
func (l *Log) rangeRaw(from, to int64, fn func(i int64, raw []byte) error) error {
	if from >= to {
		return nil
	}
	b, err := newBundles(l.db, from, to)
	if err != nil {
		return err
	}
	for i := from; i < to && err == nil; i++ {
		var raw []byte
		if raw, err = b.read(); err != nil {
			err = fmt.Errorf("reading leaf %d: %w", i, err)
		} else if raw == nil {
			err = fmt.Errorf("leaf %d is missing", i)
		} else {
			err = fn(i, raw)
		}
	}
	return errors.Join(err, b.close())
}

// Leaf returns a leaf.
func (l *Log) Leaf(i int64) (leaf Leaf, err error) {
	err = l.Range(i, i+1, func(_ int64, x Leaf) error {
		leaf = x
		return nil
	})
	return leaf, err
}

// Range calls fn for the leaves from <= i < to in order, until fn returns an error. If the log does not have all these
// leaves, Range returns ErrRange.
func (l *Log) Range(from, to int64, fn func(i int64, leaf Leaf) error) error {
	if size := l.Head().Size; from < 0 || to > size {
		return fmt.Errorf("leaves %d to %d of %d: %w", from, to-1, size, ErrRange)
	}
	return l.rangeRaw(from, to, func(i int64, raw []byte) error {
		leaf, err := DecodeLeaf(raw)
		if err != nil {
			return fmt.Errorf("leaf %d: %w", i, err)
		}
		return fn(i, leaf)
	})
}

// Payload returns an entry's payload, after it has checked that the leaf commits to it. If the payload was erased or
// its key destroyed, it returns ErrForgotten. If the payload was not imported, it returns ErrNotHeld.
func (l *Log) Payload(i int64) ([]byte, error) {
	_, p, err := l.Salted(i)
	return p, err
}

// Salted is like Payload, and also returns the entry's salt. With the salt, others can check that the leaf commits to
// the payload.
func (l *Log) Salted(i int64) (salt [16]byte, payload []byte, err error) {
	leaf, err := l.Leaf(i)
	if err != nil {
		return salt, nil, err
	}
	if leaf.Kind != KindEntry {
		return salt, nil, fmt.Errorf("leaf %d is a %s and has no payload", i, leaf.Kind)
	}
	k := indexKey(spacePayload, i)
	rec, c, err := l.db.Get(k[:])
	if errors.Is(err, pebble.ErrNotFound) {
		if i < l.Head().Imported {
			return salt, nil, fmt.Errorf("leaf %d: %w", i, ErrNotHeld)
		}
		return salt, nil, fmt.Errorf("the payload of leaf %d is missing", i)
	}
	if err != nil {
		return salt, nil, fmt.Errorf("reading the payload of leaf %d: %w", i, err)
	}
	defer c.Close()
	subject, generation, box, err := splitRecord(rec)
	if err != nil {
		return salt, nil, fmt.Errorf("leaf %d: %w", i, err)
	}
	if len(box) == 0 {
		return salt, nil, fmt.Errorf("leaf %d: %w", i, errErased)
	}
	a, err := l.vault.open(l.db, string(subject), generation)
	if err != nil {
		return salt, nil, fmt.Errorf("leaf %d: %w", i, err)
	}
	plain, err := unseal(nil, a, binary.BigEndian.AppendUint64(nil, uint64(i)), box)
	if err != nil {
		return salt, nil, fmt.Errorf("leaf %d: %w", i, err)
	}
	copy(salt[:], plain)
	payload = plain[len(salt):]
	if Commit(salt, payload) != leaf.Commitment || uint64(len(payload)) != leaf.Length {
		return salt, nil, fmt.Errorf("the payload of leaf %d is not the one that it commits to", i)
	}
	return salt, payload, nil
}

// Subject returns the data subject under whose key a payload is encrypted.
func (l *Log) Subject(i int64) (string, error) {
	k := indexKey(spacePayload, i)
	rec, c, err := l.db.Get(k[:])
	if err != nil {
		return "", fmt.Errorf("reading the payload of leaf %d: %w", i, err)
	}
	defer c.Close()
	subject, _, _, err := splitRecord(rec)
	return string(subject), err
}
