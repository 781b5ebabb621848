package index

import (
	"crypto/sha256"
	"encoding/binary"
)

// The lengths of a piece that a value may be put together from, in bytes.
const (
	MinPiece = 4
	MaxPiece = 64
)

// Hash is the start of a SHA-256 of a carrier or piece, since attackers
// may choose the texts.
func Hash(v string) uint64 {
	sum := sha256.Sum256([]byte(v))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// PieceBit is the bit of a length, minPiece to maxPiece bytes.
func PieceBit(n int) uint64 { return 1 << (n - MinPiece) }

// Hashes are the hashes of some texts.
func Hashes(texts []string) []uint64 {
	if len(texts) == 0 {
		return nil
	}
	out := make([]uint64, len(texts))
	for i, s := range texts {
		out[i] = Hash(s)
	}
	return out
}
