package inquiry

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"

	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/statement"
	"lazaret/pkg/chain"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// The statement that erased a payload may come after the range of a bundle. An operator signs it with a
// key that was activated earlier. A bundle with erased payloads therefore also contains, from outside
// its range, the statements, the activations of trust files with their chunks, and the resets of the
// ledger. These leaves are not proven to be in the tree, so only statements signed by operators count.

// orders returns the leaves from outside the range that erasures in the range need, in the format of entries.jsonl.
func (l *Log) orders(from, to int64) ([]byte, error) {
	var b bytes.Buffer
	trusts := make(map[string]bool) // digests of trust files
	var chunks []*bundleLine
	digest := make(map[int64]string) // leaf → digest of the bundle that its chunk belongs to
	var lines []*bundleLine
	err := l.chain.Range(0, l.Size(), func(i int64, leaf chain.Leaf) error {
		ground := slices.Contains(statement.Grounds(), leaf.Type)
		if i >= from && i < to && !ground || leaf.Kind == chain.KindGap ||
			leaf.Kind == chain.KindEntry && !ground && !slices.Contains(statement.Types(), leaf.Type) {
			return nil
		}
		x, err := l.bundleLine(&leaf, true)
		if err != nil {
			return err
		}
		outside := i < from || i >= to
		_, body := statement.Split(x.payload())
		switch streams.Type(leaf.Type) {
		case streams.TypeActivation:
			a := new(streams.ActivationEntry)
			if streams.Unmarshal(body, a) != nil || a.Do != streams.DoActivateTrust {
				return nil
			}
			trusts[a.Digest] = true
		case streams.TypeChunk:
			c := new(streams.ChunkEntry)
			if outside && streams.Unmarshal(body, c) == nil {
				digest[i] = c.Digest
				chunks = append(chunks, x)
			}
			return nil
		}
		if outside {
			lines = append(lines, x)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, x := range chunks {
		if trusts[digest[x.Index]] {
			lines = append(lines, x)
		}
	}
	sort.Slice(lines, func(i, j int) bool { return lines[i].Index < lines[j].Index })
	for _, x := range lines {
		text, err := streams.Marshal(x)
		if err != nil {
			return nil, err
		}
		b.Write(append(text, '\n'))
	}
	return b.Bytes(), nil
}

// payload returns the payload of a line, or nil.
func (x *bundleLine) payload() []byte {
	if x.Payload != nil {
		return []byte(*x.Payload)
	}
	return x.Base64
}

// opened returns the payload of a line, checked against its leaf.
func (x *bundleLine) opened(leaf *chain.Leaf) ([]byte, error) {
	var salt [16]byte
	b, err := hex.DecodeString(x.Salt)
	if err != nil || len(b) != len(salt) {
		return nil, errors.New("the salt is missing")
	}
	copy(salt[:], b)
	p := x.payload()
	if chain.Commit(salt, p) != leaf.Commitment || uint64(len(p)) != leaf.Length {
		return nil, errors.New("its payload does not match its commitment")
	}
	return p, nil
}

// statement returns a line in the form that chain.Lawful.Judge reads. first is the index of the first leaf of the
// line's ledger.
func (x *bundleLine) statement(leaf *chain.Leaf, first int64) *chain.Statement {
	s := &chain.Statement{Leaf: *leaf, First: first}
	s.Index = x.Index
	switch {
	case x.Forgotten:
		s.Err = chain.ErrForgotten
	case x.Payload == nil && x.Base64 == nil:
		s.Err = chain.ErrNotHeld // the log never had the payload, or the bundle was made without payloads
	default:
		s.Payload, s.Err = x.opened(leaf)
	}
	return s
}

// judge searches, for each erased payload, for the signed statement that ordered its erasure.
func (v *bundleCheck) judge(m *manifest, operators note.Verifiers) {
	if m.Format == bundleFormat1 && len(v.gone) > 0 {
		v.skip("by whose order %d payloads were erased: a bundle of version 1 does not contain the orders; "+
			"create the bundle again", len(v.gone))
		return
	}
	all := v.said
	b, err := v.read(bundleOrders)
	if err != nil {
		v.bad(m.From, "%s: %v", bundleOrders, err)
	}
	first := int64(0)
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(make([]byte, 1<<16), maxBundleLine)
	for lines.Scan() {
		x := new(bundleLine)
		if err = streams.Unmarshal(lines.Bytes(), x); err != nil {
			break
		}
		if x.Index >= m.From && x.Index < m.To {
			err = fmt.Errorf("leaf %d is in the bundle's range, but this file may only have leaves outside of it", x.Index)
			break
		}
		if x.Kind == chain.KindReset.String() {
			first = x.Index + 1
			continue
		}
		leaf, _ := x.leaf() // the payload does not match a commitment that is not a hash
		leaf.Kind = chain.KindEntry
		all = append(all, x.statement(&leaf, first))
	}
	if err = errors.Join(err, lines.Err()); err != nil {
		v.bad(m.From, "%s: %v", bundleOrders, err)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Index < all[j].Index })
	r := statement.Lawful(operators).Judge(slices.Values(all))
	for _, f := range r.Bad {
		v.bad(f.Index, "%s", f.Text)
	}
	v.rep.Skipped = append(v.rep.Skipped, r.Skipped...)
	for i := range v.gone {
		leaf := &v.gone[i]
		// The bundle does not record the key under which a payload was encrypted, so try each possible one.
		if !r.May(leaf.Project, false, leaf) && !r.May(leaf.Project, true, leaf) &&
			!r.May(statement.LateSubject(leaf.Project), false, leaf) {
			v.bad(leaf.Index, "the payload of leaf %d (%s of ledger entry %s) is erased, but no valid statement "+
				"orders that", leaf.Index, leaf.Type, position.Text(leaf.Seq))
		}
	}
}
