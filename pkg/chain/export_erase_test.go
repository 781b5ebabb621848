package chain

import (
	"bytes"
	"testing"
)

// Box returns the ciphertext in a leaf's payload record. No other record has the same bytes.
func (l *Log) Box(t *testing.T, i int64) []byte {
	t.Helper()
	k := indexKey(spacePayload, i)
	rec, c, err := l.db.Get(k[:])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return bytes.Clone(rec[len(rec)-48:])
}
