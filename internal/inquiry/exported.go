package inquiry

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"lazaret/pkg/chain"
	"lazaret/streams"
)

// Exported is the tree computed from an export.
type Exported struct {
	Size   int64 // number of leaves
	stored []tlog.Hash
}

// Root returns the root of the first n leaves.
func (x *Exported) Root(n int64) (tlog.Hash, error) {
	if n < 0 || n > x.Size {
		return tlog.Hash{}, fmt.Errorf("the export has only %d leaves, but the checkpoint has %d", x.Size, n)
	}
	return tlog.TreeHash(n, tlog.HashReaderFunc(x.read))
}

func (x *Exported) read(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		if at >= int64(len(x.stored)) {
			return nil, fmt.Errorf("no hash %d", at)
		}
		out[i] = x.stored[at]
	}
	return out, nil
}

// ReadExport computes the tree of an export of all entries as JSON lines, redacted or not. If its roots
// equal those of the log's checkpoints, no line was changed, left out or moved. It does not verify
// bodies: their commitments need salts that only the log has.
func ReadExport(r io.Reader) (*Exported, error) {
	x := new(Exported)
	var prev tlog.Hash
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			raw, lerr := exportedLeaf(line, x.Size, prev)
			if lerr != nil {
				return nil, fmt.Errorf("line %d: %w", x.Size+1, lerr)
			}
			hs, herr := tlog.StoredHashes(x.Size, raw, tlog.HashReaderFunc(x.read))
			if herr != nil {
				return nil, herr
			}
			x.stored = append(x.stored, hs...)
			prev = tlog.RecordHash(raw)
			x.Size++
		}
		if err == io.EOF {
			return x, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// exportedLeaf returns the leaf of a line.
func exportedLeaf(line []byte, index int64, prev tlog.Hash) ([]byte, error) {
	var e Entry
	if err := streams.Unmarshal(line, &e); err != nil {
		return nil, err
	}
	if e.Index != index {
		return nil, fmt.Errorf("it has leaf %d, want %d: export all entries, in order", e.Index, index)
	}
	l := chain.Leaf{Kind: kindOf(e.Kind), Index: e.Index, Seq: e.Seq, Time: e.Time, Type: e.Type, Project: e.Project,
		Length: uint64(e.Bytes), Prev: prev}
	if n, err := hex.Decode(l.Commitment[:], []byte(e.Commitment)); err != nil || n != len(l.Commitment) ||
		len(e.Commitment) != 2*n {
		return nil, fmt.Errorf("the commitment is not %d hex digits", 2*len(l.Commitment))
	}
	return chain.AppendLeaf(nil, &l)
}
