package auditor

import (
	"encoding/hex"
	"time"

	"lazaret/pkg/chain"
)

// Leaf is a leaf of the log as shown to people.
type Leaf struct {
	Index      int64     `json:"index"`
	Kind       string    `json:"kind"`
	Seq        uint64    `json:"seq"` // position in the ledger
	Time       time.Time `json:"time"`
	Type       string    `json:"type"`
	Project    string    `json:"project"`
	Commitment string    `json:"commitment"` // hex
	Length     int64     `json:"length"`     // of the payload, bytes
}

// Leaves returns the leaves from <= i < to.
func Leaves(l *chain.Log, from, to int64) ([]Leaf, error) {
	out := []Leaf{}
	if from >= to {
		return out, nil
	}
	err := l.Range(from, to, func(_ int64, c chain.Leaf) error {
		out = append(out, NewLeaf(&c))
		return nil
	})
	return out, err
}

// NewLeaf converts a leaf to the form shown to people.
func NewLeaf(c *chain.Leaf) Leaf {
	return Leaf{Index: c.Index, Kind: c.Kind.String(), Seq: c.Seq, Time: c.Time, Type: c.Type, Project: c.Project,
		Commitment: hex.EncodeToString(c.Commitment[:]), Length: int64(c.Length)}
}
