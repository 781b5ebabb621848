package rules

import (
	"crypto/sha256"
	"encoding/binary"
)

// The lengths of a piece that a value may be put together from, in bytes.
const (
	minPiece = 4
	maxPiece = 64
)

// hash64 tells carriers and pieces apart. Who writes a document must not be
// able to make one that hashes like another.
func hash64(v string) uint64 {
	sum := sha256.Sum256([]byte(v))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// pieceBit is the bit of a length, minPiece to maxPiece bytes.
func pieceBit(n int) uint64 { return 1 << (n - minPiece) }

// hashesOf are the hashes of some texts.
func hashesOf(texts []string) []uint64 {
	if len(texts) == 0 {
		return nil
	}
	out := make([]uint64, len(texts))
	for i, s := range texts {
		out[i] = hash64(s)
	}
	return out
}
