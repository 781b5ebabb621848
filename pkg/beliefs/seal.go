package beliefs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

// Seal returns a commitment to a belief's identity: 16 bytes of a SHA-256, in hex. A seal made from
// the ledger entry detects whether the content or the origin of a served belief was changed.
//
// The belief's axes are not part of it, because they change. Every change is a ledger entry.
func (i *Identity) Seal() string {
	d := sha256.New()
	parts := []string{i.Content, i.Kind.String(), i.Key, string(i.Origin), i.Source, i.Observation, i.Namespace.String(),
		i.Sensitivity.String()}
	if i.Grade != NoGrade {
		parts = append(parts, i.Grade.String())
	}
	for _, s := range parts {
		fmt.Fprintf(d, "%d:%s", len(s), s) // length-prefixed, so that different identities have different encodings
	}
	return hex.EncodeToString(d.Sum(nil)[:16])
}
