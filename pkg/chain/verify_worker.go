package chain

import (
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"lazaret/pkg/position"
)

// worker checks tiles one after another.
type worker struct {
	v       *verification
	u       *unit
	bundles *records // records of leaves
	boxes   *records // records of payloads
	sizes   map[int64]bool
	keys    map[string]opened

	leaves  [TileWidth]Leaf
	records [TileWidth]tlog.Hash // hashes of the leaves
	hashes  []tlog.Hash
	texts   [2][]byte // leaves with their RFC 6962 prefix, which are hashed in pairs
	ad      [8]byte   // additional data of a payload's encryption

	// Decrypted payloads, which are hashed in pairs.
	held  [2]*Leaf
	plain [2][]byte // salt ‖ payload
	holds int

	payloads, forgotten, notHeld, bytes int64
	sealed                              int64 // payloads that were not decrypted because the master key is missing
}

// opened is a data subject's key, or the error because of which it is not available.
type opened struct {
	aead cipher.AEAD
	err  error
}

// tile checks n leaves, the first of which has index at. It reports whether these leaves are valid, whatever their
// payloads.
func (w *worker) tile(at int64, n int) bool {
	for i := 0; i < n; {
		index := at + int64(i)
		if !w.bundles.on(spaceLeaves, index) {
			w.v.bad(index, "leaf %d is missing", index)
			return false
		}
		b, err := w.bundles.it.ValueAndErr()
		if err != nil {
			w.v.bad(index, "leaf %d cannot be read: %v", index, err)
			return false
		}
		if len(b) == 0 {
			w.v.bad(index, "leaf %d is empty in the log's store", index)
			return false
		}
		for ; len(b) > 0; i++ {
			index = at + int64(i)
			raw, rest, err := cutLeaf(b)
			if err == nil && i == n {
				err = fmt.Errorf("%w: more leaves than the log has", ErrLeaf)
			}
			if err == nil {
				err = w.leaf(i, index, raw)
			}
			if err != nil {
				w.v.bad(index, "leaf %d: %v", index, err)
				return false
			}
			b = rest
		}
		w.bundles.next()
	}
	w.tree(at, n)
	for i := range n {
		w.payload(&w.leaves[i])
	}
	w.commitments()
	return true
}

// leaf checks leaf i of the tile. Two leaves are hashed at a time, an even one together with the next one.
func (w *worker) leaf(i int, index int64, raw []byte) error {
	leaf := &w.leaves[i]
	*leaf = Leaf{}
	typ, project, err := leaf.scan(raw)
	if err != nil {
		return err
	}
	if w.v.o.Payload != nil || w.v.o.Lawful != nil {
		leaf.Type, leaf.Project = string(typ), string(project)
	}
	u := w.u
	w.texts[i%2] = append(append(w.texts[i%2][:0], 0), raw...)
	w.bytes += int64(len(raw))
	if i%2 == 1 {
		w.records[i-1], w.records[i] = sum2(w.texts[0], w.texts[1])
		u.last = w.records[i-1]
	}
	if index == u.from {
		u.first = *leaf
		if u.next = leaf.Seq; leaf.Kind == KindReset || position.Index(leaf.Seq) > 0 {
			u.next++ // the unit begins here, so join must check that this leaf continues the unit before
		}
	} else if leaf.Prev != u.last {
		return errors.New("it does not follow the leaf before it")
	}
	if leaf.Index != index {
		return fmt.Errorf("it says that it is leaf %d", leaf.Index)
	}
	after, ok := leaf.follows(u.next)
	if !ok {
		return fmt.Errorf("it is a %s of ledger entry %s (%d), want sequence %d", leaf.Kind, position.Text(leaf.Seq),
			leaf.Length, position.Sequence(u.next))
	}
	u.next, u.seq, u.time = after, position.Sequence(after)-1, leaf.Time
	switch leaf.Kind {
	case KindEntry:
		u.entries++
		if l := w.v.o.Lawful; l != nil && slices.Contains(l.Statements, leaf.Type) {
			w.v.stated.Store(true)
		}
	case KindGap:
		u.gaps++
	case KindReset:
		u.resets++
		u.epoch = leaf.Time
	}
	if i%2 == 1 {
		u.last = w.records[i]
	}
	return nil
}

// tree computes the hashes of the tree over the tile's n leaves, the first of which has index at.
func (w *worker) tree(at int64, n int) {
	if n%2 == 1 {
		w.records[n-1] = sha256.Sum256(w.texts[0])
		w.u.last = w.records[n-1]
	}
	cut := n < TileWidth
	for i := int64(1); i < int64(n) && !cut; i++ {
		cut = w.sizes[at+i]
	}
	if !cut {
		w.u.tiles = append(w.u.tiles, fullTile(w.records))
		return
	}
	var e edge
	for i, h := range w.records[:n] {
		w.hashes = e.add(h, w.hashes[:0])
		if i+1 < TileWidth && (i+1 == n || w.sizes[at+e.size]) {
			w.u.at[at+e.size] = (*[TileHeight]tlog.Hash)(slices.Clone(e.at[:TileHeight]))
		}
	}
	if n == TileWidth {
		w.u.tiles = append(w.u.tiles, e.at[TileHeight])
	}
}

// payload checks that a leaf commits to its payload.
func (w *worker) payload(leaf *Leaf) {
	there := w.boxes.on(spacePayload, leaf.Index)
	if leaf.Kind != KindEntry {
		if there {
			w.v.bad(leaf.Index, "leaf %d is a %s and has a payload", leaf.Index, leaf.Kind)
			w.boxes.next()
		}
		return
	}
	if !there {
		if leaf.Index < w.v.want.Imported {
			w.notHeld++
			return
		}
		w.v.bad(leaf.Index, "the payload of leaf %d is missing", leaf.Index)
		return
	}
	if w.v.log.vault.master == nil {
		w.sealed++
		w.boxes.next()
		return
	}
	switch err := w.open(leaf); {
	case err == nil:
		if w.holds == len(w.held) {
			w.commitments()
		}
	case errors.Is(err, ErrForgotten):
		erased := errors.Is(err, errErased)
		if w.lawful(leaf, erased) {
			w.forgotten++
			if w.v.o.Missing != nil {
				w.v.o.Missing(leaf)
			}
			break
		}
		what := "the key of the payload"
		if erased {
			what = "the payload"
		}
		w.v.bad(leaf.Index, "%s of leaf %d (%s of ledger entry %s) is destroyed without a valid statement on "+
			"forgetting", what, leaf.Index, leaf.Type, position.Text(leaf.Seq))
	default:
		w.v.bad(leaf.Index, "leaf %d: %v", leaf.Index, err)
	}
	w.boxes.next()
}

// lawful reports whether the payload of this leaf, which is missing, may be missing.
func (w *worker) lawful(leaf *Leaf, erased bool) bool {
	if w.v.o.Lawful == nil {
		return true
	}
	rec, err := w.boxes.it.ValueAndErr()
	if err != nil {
		return false
	}
	subject, _, _, err := splitRecord(rec)
	return err == nil && w.v.ruling().May(string(subject), erased, leaf)
}

// open decrypts the payload of this leaf. commitments later checks it.
func (w *worker) open(leaf *Leaf) error {
	rec, err := w.boxes.it.ValueAndErr()
	if err != nil {
		return err
	}
	subject, generation, box, err := splitRecord(rec)
	if err != nil {
		return err
	}
	id := rec[:2+len(subject)+4]
	key, ok := w.keys[string(id)]
	if !ok {
		key.aead, key.err = w.v.log.vault.open(w.v.snap, string(subject), generation)
		w.keys[string(id)] = key
	}
	if len(box) == 0 {
		return errErased
	}
	if key.err != nil {
		return key.err
	}
	binary.BigEndian.PutUint64(w.ad[:], uint64(leaf.Index))
	plain, err := unseal(w.plain[w.holds][:0], key.aead, w.ad[:], box)
	if err != nil {
		return err
	}
	w.held[w.holds], w.plain[w.holds] = leaf, plain
	w.holds++
	return nil
}

// commitments checks that the leaves commit to the payloads that open has decrypted.
func (w *worker) commitments() {
	var sums [2][sha256.Size]byte
	if w.holds == 2 {
		sums[0], sums[1] = sum2(w.plain[0], w.plain[1])
	} else if w.holds == 1 {
		sums[0] = sha256.Sum256(w.plain[0])
	}
	for i := range w.holds {
		leaf, plain := w.held[i], w.plain[i]
		if sums[i] != leaf.Commitment || uint64(len(plain)-16) != leaf.Length {
			w.v.bad(leaf.Index, "leaf %d: its payload is not the one that it commits to", leaf.Index)
			continue
		}
		w.payloads++
		w.bytes += int64(len(plain))
		if w.v.o.Payload != nil {
			w.v.o.Payload(leaf, plain[16:])
		}
	}
	w.holds = 0
}
