package chain

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/tlog"
)

// Tile returns a tile's hashes, 32 bytes each, in the layout of C2SP tlog-tiles. Level 0 has the hashes of leaves,
// level n the hashes of full tiles of level n-1. width is the number of hashes, from 1 to TileWidth.
func (l *Log) Tile(level int, n int64, width int) ([]byte, error) {
	if level < 0 || level > 7 || n < 0 || n > 1<<62>>(TileHeight*(level+1)) || width < 1 || width > TileWidth ||
		l.Head().Size>>(TileHeight*level) < n<<TileHeight+int64(width) {
		return nil, fmt.Errorf("tile %d of level %d, %d wide: %w", n, level, width, ErrRange)
	}
	return l.tile(l.db, level, n, width)
}

// tile reads a tile. Level 0 is computed from the leaves. The other levels are stored.
func (l *Log) tile(r pebble.Reader, level int, n int64, width int) ([]byte, error) {
	from := n << TileHeight
	out := make([]byte, 0, width*tlog.HashSize)
	if level == 0 {
		b, err := newBundles(r, from, from+int64(width))
		if err != nil {
			return nil, err
		}
		for i := range width {
			raw, err := b.read()
			if err == nil && raw == nil {
				err = errors.New("it is missing")
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("reading leaf %d: %w", from+int64(i), err), b.close())
			}
			h := tlog.RecordHash(raw)
			out = append(out, h[:]...)
		}
		return out, b.close()
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: hashKey(level, from),
		UpperBound: hashKey(level, from+int64(width))})
	if err != nil {
		return nil, err
	}
	i := from
	for ok := it.First(); ok; ok = it.Next() {
		if !bytes.Equal(it.Key(), hashKey(level, i)) || len(it.Value()) != tlog.HashSize {
			break
		}
		out = append(out, it.Value()...)
		i++
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return nil, fmt.Errorf("reading tile %d of level %d: %w", n, level, err)
	}
	if i != from+int64(width) {
		return nil, fmt.Errorf("hash %d of tile level %d is missing", i, level)
	}
	return out, nil
}

// EntryBundle returns the encoded leaves of a tile in the layout of C2SP tlog-tiles: for each leaf
// its length in two bytes, then the leaf.
func (l *Log) EntryBundle(n int64, width int) ([]byte, error) {
	from, size := n<<TileHeight, l.Head().Size
	// Check n first. For a number that is too large, the shift would overflow, and n would be taken for another bundle.
	if n < 0 || n > size>>TileHeight || width < 1 || width > TileWidth || from+int64(width) > size {
		return nil, fmt.Errorf("entry bundle %d, %d wide: %w", n, width, ErrRange)
	}
	out := make([]byte, 0, width*192)
	err := l.rangeRaw(from, from+int64(width), func(_ int64, raw []byte) error {
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(raw))), raw...)
		return nil
	})
	return out, err
}

// SplitBundle splits an entry bundle into its leaves.
func SplitBundle(b []byte) ([][]byte, error) {
	var out [][]byte
	for len(b) > 0 {
		raw, rest, err := cutLeaf(b)
		if err != nil {
			return nil, err
		}
		out, b = append(out, raw), rest
	}
	return out, nil
}

// ReadHashes implements tlog.HashReader.
func (l *Log) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	read := make(map[tlog.Tile][]byte)
	size := l.Head().Size
	for i, x := range indexes {
		t := tlog.TileForIndex(TileHeight, x)
		// Adjacent hashes are in the same tile. Read each tile once, as wide as the log has it, for all of them.
		key := tlog.Tile{H: t.H, L: t.L, N: t.N}
		data := read[key]
		if len(data) < t.W*tlog.HashSize {
			w := t.W
			if avail := size>>(TileHeight*t.L) - t.N<<TileHeight; avail > int64(w) {
				w = int(min(avail, TileWidth))
			}
			var err error
			if data, err = l.tile(l.db, t.L, t.N, w); err != nil {
				return nil, err
			}
			read[key] = data
		}
		t.W = len(data) / tlog.HashSize
		h, err := tlog.HashFromTile(t, data, x)
		if err != nil {
			return nil, fmt.Errorf("tree hash %d: %w", x, err)
		}
		out[i] = h
	}
	return out, nil
}

// ProveInclusion returns a proof that leaf i is in the tree of the given size.
func (l *Log) ProveInclusion(i, size int64) (tlog.RecordProof, error) {
	if size > l.Head().Size || i < 0 || i >= size {
		return nil, fmt.Errorf("leaf %d in a tree of %d: %w", i, size, ErrRange)
	}
	return tlog.ProveRecord(size, i, l)
}

// ProveConsistency returns a proof that the tree of the first old leaves is a prefix of the tree of the first size
// leaves.
func (l *Log) ProveConsistency(old, size int64) (tlog.TreeProof, error) {
	if size > l.Head().Size || old < 1 || old > size {
		return nil, fmt.Errorf("trees of %d and %d: %w", old, size, ErrRange)
	}
	return tlog.ProveTree(size, old, l)
}

// Root returns the hash of the tree of the first size leaves.
func (l *Log) Root(size int64) (tlog.Hash, error) {
	if size < 0 || size > l.Head().Size {
		return tlog.Hash{}, fmt.Errorf("a tree of %d: %w", size, ErrRange)
	}
	return tlog.TreeHash(size, l)
}
