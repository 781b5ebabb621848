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

// ExportedRoot computes the tree's size and root from an export of all entries
// as JSON lines, redacted or not: it is that of the log's checkpoint of this
// size, or a line was altered, left out or moved. It says nothing about bodies:
// those are held against commitments with the salts that only the log has.
func ExportedRoot(r io.Reader) (size int64, root tlog.Hash, err error) {
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			if x >= int64(len(stored)) {
				return nil, fmt.Errorf("no hash %d", x)
			}
			out[i] = stored[x]
		}
		return out, nil
	})
	var prev tlog.Hash
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			raw, lerr := exportedLeaf(line, size, prev)
			if lerr != nil {
				return size, root, fmt.Errorf("line %d: %w", size+1, lerr)
			}
			hs, herr := tlog.StoredHashes(size, raw, read)
			if herr != nil {
				return size, root, herr
			}
			stored = append(stored, hs...)
			prev = tlog.RecordHash(raw)
			size++
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return size, root, err
		}
	}
	root, err = tlog.TreeHash(size, read)
	return size, root, err
}

// exportedLeaf is the leaf of a line.
func exportedLeaf(line []byte, index int64, prev tlog.Hash) ([]byte, error) {
	var e Entry
	if err := streams.Unmarshal(line, &e); err != nil {
		return nil, err
	}
	if e.Index != index {
		return nil, fmt.Errorf("it is of leaf %d, want %d: export all entries, in order", e.Index, index)
	}
	l := chain.Leaf{Index: e.Index, Seq: e.Seq, Time: e.Time, Type: e.Type, Project: e.Project, Length: uint64(e.Bytes), Prev: prev}
	for _, k := range []chain.Kind{chain.KindEntry, chain.KindGap, chain.KindReset} {
		if k.String() == e.Kind {
			l.Kind = k
		}
	}
	if n, err := hex.Decode(l.Commitment[:], []byte(e.Commitment)); err != nil || n != len(l.Commitment) || len(e.Commitment) != 2*n {
		return nil, fmt.Errorf("the commitment is not %d bytes of hex", len(l.Commitment))
	}
	return chain.AppendLeaf(nil, &l)
}
