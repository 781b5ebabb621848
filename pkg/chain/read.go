package chain

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/tlog"
)

// ErrRange says that a leaf or tree does not exist.
var ErrRange = errors.New("beyond the log's end")

func (l *Log) rawLeaf(i int64) ([]byte, error) {
	v, c, err := l.db.Get(key8(spaceLeaf, uint64(i)))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, fmt.Errorf("leaf %d is missing", i)
	}
	if err != nil {
		return nil, fmt.Errorf("reading leaf %d: %w", i, err)
	}
	return append([]byte(nil), v...), c.Close()
}

// Leaf reads a leaf.
func (l *Log) Leaf(i int64) (Leaf, error) {
	if i < 0 || i >= l.Head().Size {
		return Leaf{}, fmt.Errorf("leaf %d: %w", i, ErrRange)
	}
	b, err := l.rawLeaf(i)
	if err != nil {
		return Leaf{}, err
	}
	return DecodeLeaf(b)
}

// Range calls fn for the leaves from <= i < to, in order.
func (l *Log) Range(from, to int64, fn func(i int64, leaf Leaf) error) error {
	for i := from; i < to; i++ {
		leaf, err := l.Leaf(i)
		if err != nil {
			return err
		}
		if err := fn(i, leaf); err != nil {
			return err
		}
	}
	return nil
}

// Payload reads an entry's payload and checks it against its leaf. It returns
// ErrForgotten if its key was destroyed.
func (l *Log) Payload(i int64) ([]byte, error) {
	leaf, err := l.Leaf(i)
	if err != nil {
		return nil, err
	}
	if leaf.Kind != KindEntry {
		return nil, fmt.Errorf("leaf %d is a %s and has no payload", i, leaf.Kind)
	}
	return payload(l.db, l.vault, i, &leaf)
}

func payload(r pebble.Reader, v *vault, i int64, leaf *Leaf) ([]byte, error) {
	rec, c, err := r.Get(key8(spacePayload, uint64(i)))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, fmt.Errorf("the payload of leaf %d is missing", i)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the payload of leaf %d: %w", i, err)
	}
	defer c.Close()
	subject, box, err := splitRecord(rec)
	if err != nil {
		return nil, fmt.Errorf("leaf %d: %w", i, err)
	}
	a, err := v.open(r, subject)
	if err != nil {
		return nil, err
	}
	salt, p, err := unseal(a, i, box)
	if err != nil {
		return nil, fmt.Errorf("leaf %d: %w", i, err)
	}
	if Commit(salt, p) != leaf.Commitment || uint64(len(p)) != leaf.Length {
		return nil, fmt.Errorf("the payload of leaf %d is not the one that it commits to", i)
	}
	return p, nil
}

// ReadHashes implements tlog.HashReader.
func (l *Log) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		v, c, err := l.db.Get(key8(spaceHash, uint64(x)))
		if err != nil {
			return nil, fmt.Errorf("reading tree hash %d: %w", x, err)
		}
		if copy(out[i][:], v) != len(out[i]) || len(v) != len(out[i]) {
			return nil, errors.Join(fmt.Errorf("tree hash %d has %d bytes", x, len(v)), c.Close())
		}
		if err := c.Close(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ProveInclusion proves that leaf i is in the tree of that size.
func (l *Log) ProveInclusion(i, size int64) (tlog.RecordProof, error) {
	if size > l.Head().Size || i < 0 || i >= size {
		return nil, fmt.Errorf("leaf %d in a tree of %d: %w", i, size, ErrRange)
	}
	return tlog.ProveRecord(size, i, l)
}

// ProveConsistency proves that the tree of size old is a prefix of the one of
// size size.
func (l *Log) ProveConsistency(old, size int64) (tlog.TreeProof, error) {
	if size > l.Head().Size || old < 1 || old > size {
		return nil, fmt.Errorf("trees of %d and %d: %w", old, size, ErrRange)
	}
	return tlog.ProveTree(size, old, l)
}
