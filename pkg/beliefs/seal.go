package beliefs

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Identity is the part of a belief that never changes: its content and who said it.
type Identity struct {
	Content     string // digest of the exact bytes
	Kind        ClaimKind
	Key         string
	Origin      Origin
	Source      string
	Observation string // id of the event that introduced it
	Namespace   Namespace
	Sensitivity Sensitivity
	Grade       Grade
}

// Seal returns a commitment to a belief's identity: 16 bytes of a SHA-256, in hex. A seal made from the ledger entry
// detects whether the content or the origin of a served belief was changed.
//
// The axes of the belief are not part of its identity, because they change. Every change of them is a ledger entry.
func (i *Identity) Seal() string {
	parts := [...]string{i.Content, i.Kind.String(), i.Key, string(i.Origin), i.Source, i.Observation,
		i.Namespace.String(),
		i.Sensitivity.String(), i.Grade.String()}
	n := len(parts)
	if i.Grade == NoGrade {
		n--
	}
	b := make([]byte, 0, 512)
	for _, s := range parts[:n] {
		// Write the length before each part, so that different identities have different encodings.
		b = strconv.AppendInt(b, int64(len(s)), 10)
		b = append(append(b, ':'), s...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
