package chain

import (
	"crypto/sha256"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// nodeHash is tlog.NodeHash (RFC 6962), but calls the hash function once instead of five times. A verification spends a
// tenth of its time here.
func nodeHash(left, right tlog.Hash) tlog.Hash {
	var b [1 + 2*tlog.HashSize]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+tlog.HashSize:], right[:])
	return sha256.Sum256(b[:])
}

// fullTile returns the root of the tree of a tile's hashes. It computes two hashes at a time.
func fullTile(h [TileWidth]tlog.Hash) tlog.Hash {
	var a, b [1 + 2*tlog.HashSize]byte
	a[0], b[0] = 1, 1
	for n := TileWidth / 2; n > 1; n /= 2 {
		for i := 0; i < n; i += 2 {
			copy(a[1:], h[2*i][:])
			copy(a[1+tlog.HashSize:], h[2*i+1][:])
			copy(b[1:], h[2*i+2][:])
			copy(b[1+tlog.HashSize:], h[2*i+3][:])
			h[i], h[i+1] = sum2(a[:], b[:])
		}
	}
	return nodeHash(h[0], h[1])
}

// edge is the right edge of a Merkle tree. For each bit that is set in the tree's size, it has the hash of the complete
// subtree of that height. Nothing else of the tree is needed to append leaves.
type edge struct {
	size int64
	at   [64]tlog.Hash
}

// add adds a record's hash and appends to out the hashes that the tree stores because of this record
// (tlog.StoredHashesForRecordHash): the record's own, and those of the subtrees that the record completes.
func (e *edge) add(h tlog.Hash, out []tlog.Hash) []tlog.Hash { return e.addAt(0, h, out) }

// addTile adds the hash of a full tile of leaves. The edge's size must be a multiple of TileWidth. To out, it appends
// like add, but only hashes from the level of the tile's own hash upward.
func (e *edge) addTile(h tlog.Hash, out []tlog.Hash) []tlog.Hash { return e.addAt(TileHeight, h, out) }

// addAt adds the hash of a full subtree of 1<<level leaves.
func (e *edge) addAt(level int, h tlog.Hash, out []tlog.Hash) []tlog.Hash {
	added := int64(1) << level
	out = append(out, h)
	for ; e.size>>level&1 == 1; level++ {
		h = nodeHash(e.at[level], h)
		out = append(out, h)
	}
	e.at[level] = h
	e.size += added
	return out
}

// root returns the hash of the tree.
func (e *edge) root() tlog.Hash {
	if e.size == 0 {
		h, _ := tlog.TreeHash(0, nil) // computing the hash of the empty tree reads no hashes, so the reader may be nil
		return h
	}
	low := bits.TrailingZeros64(uint64(e.size))
	h := e.at[low]
	for level := low + 1; level < 64; level++ {
		if e.size>>level&1 == 1 {
			h = nodeHash(e.at[level], h)
		}
	}
	return h
}

// loadEdge reads the right edge of the tree of the given size.
func loadEdge(size int64, r tlog.HashReader) (e edge, err error) {
	var idx []int64
	var levels []int
	start := int64(0)
	for level := 63; level >= 0; level-- {
		if size>>level&1 == 1 {
			idx = append(idx, tlog.StoredHashIndex(level, start>>level))
			levels = append(levels, level)
			start += 1 << level
		}
	}
	hs, err := r.ReadHashes(idx)
	if err != nil {
		return e, err
	}
	for i, level := range levels {
		e.at[level] = hs[i]
	}
	e.size = size
	return e, nil
}
