//go:build !amd64 || purego

package chain

import "crypto/sha256"

// sum2 computes sha256.Sum256 of two messages.
func sum2(a, b []byte) (x, y [sha256.Size]byte) { return sha256.Sum256(a), sha256.Sum256(b) }
