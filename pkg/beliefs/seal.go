package beliefs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Identity is what of a belief never changes: what it says, and who said it.
type Identity struct {
	Content     string // digest of exactly its bytes
	Kind        ClaimKind
	Key         string
	Origin      Origin
	Source      string
	Observation string // event that introduced it
	Namespace   Namespace
	Sensitivity Sensitivity
	Grade       Grade
}

// Seal commits to a belief's identity: 16 bytes of a SHA-256, in hex. Whoever
// made it from the ledger's entry recognises by it what is served under the
// belief's name, and that neither its words nor their origin are others.
//
// How a belief stands is not in it: that changes, and every change is an entry.
func (i *Identity) Seal() string {
	d := sha256.New()
	parts := []string{i.Content, i.Kind.String(), i.Key, string(i.Origin), i.Source, i.Observation, i.Namespace.String(),
		i.Sensitivity.String()}
	if i.Grade != NoGrade {
		parts = append(parts, i.Grade.String())
	}
	for _, s := range parts {
		fmt.Fprintf(d, "%d:%s", len(s), s) // no two identities read the same
	}
	return hex.EncodeToString(d.Sum(nil)[:16])
}
