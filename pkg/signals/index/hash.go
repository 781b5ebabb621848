package index

import (
	"crypto/sha256"
	"encoding/binary"
)

// The minimum and maximum length in bytes of a piece. A piece is an unusual word that may be a part of a longer value.
const (
	MinPiece = 4
	MaxPiece = 64
)

// Hash returns the first bytes of the SHA-256 of a carrier or piece. It is a cryptographic hash
// because attackers may choose the texts.
func Hash(v string) uint64 {
	sum := sha256.Sum256([]byte(v))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}

// PieceBit returns the bit that stands for pieces of length n, from MinPiece to MaxPiece.
func PieceBit(n int) uint64 { return 1 << (n - MinPiece) }

// Hashes returns the Hash of each text.
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
