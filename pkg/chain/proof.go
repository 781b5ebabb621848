package chain

import (
	"encoding/binary"
	"errors"
	"fmt"

	tproof "github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// A Proof shows that a leaf is in a log. The verifier needs only the log's public key to check it. The text form of a
// proof is C2SP tlog-proof.
type Proof struct {
	Leaf       Leaf
	Raw        []byte // the leaf's encoding, which the tree commits to
	Checkpoint []byte // signed note, perhaps with cosignatures
	// Salt and Payload are set if the payload is to be proven too: the leaf commits to them. Otherwise Payload is nil.
	Salt    [16]byte
	Payload []byte

	hashes tlog.RecordProof
}

// Prove returns a proof of a leaf for the view's checkpoint. If the checkpoint does not cover the leaf, Prove returns
// ErrRange.
func (v *View) Prove(i int64) (*Proof, error) {
	raw, p, err := v.Leaf(i)
	if err != nil {
		return nil, err
	}
	return newProof(i, raw, v.Note, p)
}

func newProof(i int64, raw, checkpoint []byte, hashes tlog.RecordProof) (*Proof, error) {
	leaf, err := DecodeLeaf(raw)
	if err != nil {
		return nil, fmt.Errorf("leaf %d: %w", i, err)
	}
	return &Proof{Leaf: leaf, Raw: raw, Checkpoint: checkpoint, hashes: hashes}, nil
}

// Prove returns a proof of a leaf for the log's own last signed checkpoint, with the cosignatures that the checkpoint
// has. If there is no checkpoint, it returns ErrNoCheckpoint. If the checkpoint does not cover the leaf, it returns
// ErrRange.
func (l *Log) Prove(i int64) (*Proof, error) {
	h := l.Head()
	if h.Checkpoint == nil {
		return nil, ErrNoCheckpoint
	}
	cp, err := ParseCheckpoint(h.Checkpoint)
	if err != nil {
		return nil, fmt.Errorf("the last checkpoint: %w", err)
	}
	if i < 0 || i >= cp.Size {
		return nil, fmt.Errorf("leaf %d of %d that the checkpoint covers: %w", i, cp.Size, ErrRange)
	}
	raw, err := l.rawLeaf(i)
	if err != nil {
		return nil, err
	}
	hashes, err := l.ProveInclusion(i, cp.Size)
	if err != nil {
		return nil, err
	}
	return newProof(i, raw, h.Checkpoint, hashes)
}

// extraVersion is the format version of the extra data in a proof.
const extraVersion = 1

// ErrProof reports that a proof is invalid.
var ErrProof = errors.New("the proof is invalid")

// MarshalText returns the proof as C2SP tlog-proof. FORMAT.md describes the extra data.
func (p *Proof) MarshalText() ([]byte, error) {
	extra := binary.BigEndian.AppendUint16([]byte{extraVersion}, uint16(len(p.Raw)))
	extra = append(extra, p.Raw...)
	if p.Payload != nil {
		extra = append(append(extra, p.Salt[:]...), p.Payload...)
	}
	t := tproof.TLogProof{Index: uint64(p.Leaf.Index), Checkpoint: p.Checkpoint, ExtraData: extra}
	for _, h := range p.hashes {
		t.Hashes = append(t.Hashes, h)
	}
	return t.Marshal(), nil
}

// CheckProof parses and verifies a proof. A trusted key must have signed the checkpoint. The leaf must be in the
// checkpoint's tree. If the proof has a payload, the leaf must commit to it. If quorum is not nil, the checkpoint must
// also have the witnesses' cosignatures.
func CheckProof(text []byte, vs note.Verifiers, quorum Quorum) (*Proof, error) {
	var t tproof.TLogProof
	if err := t.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	cp, err := OpenCheckpoint(t.Checkpoint, vs)
	if err != nil {
		return nil, fmt.Errorf("%w: its checkpoint: %w", ErrProof, err)
	}
	if quorum != nil && !quorum.Satisfied(t.Checkpoint) {
		return nil, fmt.Errorf("%w: its checkpoint lacks the cosignatures that the witness policy asks for", ErrProof)
	}
	p := &Proof{Checkpoint: t.Checkpoint}
	if len(t.ExtraData) < 3 || t.ExtraData[0] != extraVersion {
		return nil, fmt.Errorf("%w: its leaf is missing or has a version that this program does not read", ErrProof)
	}
	var rest []byte
	if p.Raw, rest, err = cutLeaf(t.ExtraData[1:]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	if p.Leaf, err = DecodeLeaf(p.Raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProof, err)
	}
	for _, h := range t.Hashes {
		p.hashes = append(p.hashes, h)
	}
	if t.Index != uint64(p.Leaf.Index) || p.Leaf.Index >= cp.Size {
		return nil, fmt.Errorf("%w: it is for index %d, its leaf is %d, the tree has %d", ErrProof, t.Index, p.Leaf.Index,
			cp.Size)
	}
	if err := tlog.CheckRecord(p.hashes, cp.Size, cp.Root, p.Leaf.Index, tlog.RecordHash(p.Raw)); err != nil {
		return nil, fmt.Errorf("%w: leaf %d is not in the tree of its checkpoint", ErrProof, p.Leaf.Index)
	}
	if len(rest) == 0 {
		return p, nil
	}
	if len(rest) < len(p.Salt) {
		return nil, fmt.Errorf("%w: its payload is truncated", ErrProof)
	}
	copy(p.Salt[:], rest)
	p.Payload = rest[len(p.Salt):]
	if Commit(p.Salt, p.Payload) != p.Leaf.Commitment || uint64(len(p.Payload)) != p.Leaf.Length {
		return nil, fmt.Errorf("%w: its payload is not the one that leaf %d commits to", ErrProof, p.Leaf.Index)
	}
	return p, nil
}
