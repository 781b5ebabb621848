//go:build !purego

package chain

import (
	"crypto/sha256"
	"encoding/binary"

	"golang.org/x/sys/cpu"
)

// blocks2 hashes n blocks, of 64 bytes each, of two messages. a and b are the hash states of the two messages.
//
//go:noescape
func blocks2(a, b *[8]uint32, p, q *byte, n int, k *[64]uint32)

// hasSHA reports whether the processor has the SHA instructions.
func hasSHA() bool

var twoAtOnce = hasSHA() && cpu.X86.HasSSSE3 && cpu.X86.HasSSE41

// sum2 computes sha256.Sum256 of two messages at the same time. The SHA instructions for one message have to wait for
// each other's results, so hashing a second message in between costs little. A verification spends half of its time on
// hashing.
func sum2(a, b []byte) (x, y [sha256.Size]byte) {
	if !twoAtOnce {
		return sha256.Sum256(a), sha256.Sum256(b)
	}
	s, t := initial, initial
	var ends [2][2 * sha256.BlockSize]byte
	p, q := together(&s, &t, a, b)
	p, q = hashBlocks(&s, p), hashBlocks(&t, q)
	p, q = together(&s, &t, end(&ends[0], p, len(a)), end(&ends[1], q, len(b)))
	hashBlocks(&s, p)
	hashBlocks(&t, q)
	for i := range s {
		binary.BigEndian.PutUint32(x[4*i:], s[i])
		binary.BigEndian.PutUint32(y[4*i:], t[i])
	}
	return x, y
}

// together hashes as many whole blocks as both messages have. It returns the parts of the two messages that are left.
func together(s, t *[8]uint32, p, q []byte) (restP, restQ []byte) {
	n := min(len(p), len(q)) / sha256.BlockSize
	if n > 0 {
		blocks2(s, t, &p[0], &q[0], n, &roundKeys)
	}
	return p[n*sha256.BlockSize:], q[n*sha256.BlockSize:]
}

// hashBlocks hashes all whole blocks of one message. It returns the part of the message that is left.
func hashBlocks(s *[8]uint32, p []byte) []byte {
	discarded := initial
	rest, _ := together(s, &discarded, p, p)
	return rest
}

// end returns the last blocks of a message of the given length: rest, the part after the whole blocks, with the
// padding.
func end(buf *[2 * sha256.BlockSize]byte, rest []byte, length int) []byte {
	n := copy(buf[:], rest)
	buf[n] = 0x80
	size := sha256.BlockSize
	if n+1+8 > size {
		size *= 2
	}
	binary.BigEndian.PutUint64(buf[size-8:], uint64(length)*8)
	return buf[:size]
}

var initial = [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}

var roundKeys = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}
