package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"lazaret/pkg/position"
)

// Version is the version of the leaf format.
const Version = 1

// MaxLeaf is the maximum size of a leaf, in bytes (C2SP tlog-tiles).
const MaxLeaf = 65535

// MaxName is the maximum length in bytes of the type, and of the project, in a leaf.
const MaxName = 1024

// Kind is the kind of a leaf.
type Kind uint8

// The kinds of leaves.
const (
	KindEntry Kind = 1 // an entry of the ledger
	KindGap   Kind = 2 // missing ledger sequences: Seq is the first, Length their number
	KindReset Kind = 3 // the ledger was recreated at Time; Seq is the last sequence of the ledger before that
)

func (k Kind) String() string {
	switch k {
	case KindEntry:
		return "entry"
	case KindGap:
		return "gap"
	case KindReset:
		return "reset"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Leaf is one leaf of the tree.
type Leaf struct {
	Kind       Kind
	Index      int64
	Seq        uint64 // position in the ledger, see package position
	Time       time.Time
	Type       string
	Project    string
	Length     uint64    // size of the payload in bytes
	Commitment [32]byte  // SHA-256(salt ‖ payload)
	Prev       tlog.Hash // record hash of the previous leaf; zero for the first
}

const fixedLeaf = 1 + 1 + 8 + 8 + 8 + 8 + 32 + 32 + 2 + 2

// ErrLeaf reports bytes that are not a valid leaf.
var ErrLeaf = errors.New("not a leaf")

// AppendLeaf appends the encoding of a leaf, as described in FORMAT.md.
func AppendLeaf(b []byte, l *Leaf) ([]byte, error) {
	if len(l.Type) > MaxName || len(l.Project) > MaxName {
		return b, fmt.Errorf("leaf %d: type has %d bytes and project %d, at most %d are possible", l.Index, len(l.Type),
			len(l.Project), MaxName)
	}
	b = append(b, Version, byte(l.Kind))
	b = binary.BigEndian.AppendUint64(b, uint64(l.Index))
	b = binary.BigEndian.AppendUint64(b, l.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(l.Time.UnixNano()))
	b = binary.BigEndian.AppendUint64(b, l.Length)
	b = append(b, l.Commitment[:]...)
	b = append(b, l.Prev[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(l.Type)))
	b = append(b, l.Type...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(l.Project)))
	return append(b, l.Project...), nil
}

// follows reports whether the leaf may come next in the log. next is the position after the leaf before it. If the leaf
// begins a ledger message, the message must have the sequence of next. If the index of next is not 0, the leaf may also
// be the next entry of the message before, which has this index. after is next for the leaf after this one.
func (l *Leaf) follows(next uint64) (after uint64, ok bool) {
	due, seq := position.Sequence(next), position.Sequence(l.Seq)
	switch l.Kind {
	case KindEntry:
		ok = l.Seq == due || position.Index(next) > 0 && l.Seq == next-1
		return position.Next(l.Seq + 1), ok && seq > 0
	case KindGap:
		return l.Seq + l.Length, l.Seq == due && l.Length > 0 && l.Length < 1<<position.Bits-l.Seq
	}
	return 1, seq == l.Seq && seq+1 == due && l.Length == 0
}

// DecodeLeaf decodes a leaf. It accepts only the encoding that AppendLeaf writes.
func DecodeLeaf(b []byte) (l Leaf, err error) {
	typ, project, err := l.scan(b)
	l.Type, l.Project = string(typ), string(project)
	return l, err
}

// scan decodes a leaf. It returns type and project as slices of b.
func (l *Leaf) scan(b []byte) (typ, project []byte, err error) {
	if len(b) < fixedLeaf {
		return nil, nil, fmt.Errorf("%w: %d bytes, at least %d are needed", ErrLeaf, len(b), fixedLeaf)
	}
	if b[0] != Version {
		return nil, nil, fmt.Errorf("%w: version %d, this program reads %d", ErrLeaf, b[0], Version)
	}
	if l.Kind = Kind(b[1]); l.Kind < KindEntry || l.Kind > KindReset {
		return nil, nil, fmt.Errorf("%w: kind %d", ErrLeaf, b[1])
	}
	l.Index = int64(binary.BigEndian.Uint64(b[2:]))
	l.Seq = binary.BigEndian.Uint64(b[10:])
	l.Time = time.Unix(0, int64(binary.BigEndian.Uint64(b[18:]))).UTC()
	l.Length = binary.BigEndian.Uint64(b[26:])
	copy(l.Commitment[:], b[34:])
	copy(l.Prev[:], b[66:])
	rest := b[98:]
	if typ, rest, err = cutString(rest); err != nil {
		return nil, nil, err
	}
	if project, rest, err = cutString(rest); err != nil {
		return nil, nil, err
	}
	if len(rest) > 0 {
		return nil, nil, fmt.Errorf("%w: %d bytes follow it", ErrLeaf, len(rest))
	}
	if l.Index < 0 {
		return nil, nil, fmt.Errorf("%w: negative index", ErrLeaf)
	}
	return typ, project, nil
}

func cutString(b []byte) (s, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, fmt.Errorf("%w: it ends early", ErrLeaf)
	}
	n := int(binary.BigEndian.Uint16(b))
	if n > MaxName || len(b) < 2+n {
		return nil, nil, fmt.Errorf("%w: a string of %d bytes in the %d that are left", ErrLeaf, n, len(b)-2)
	}
	return b[2 : 2+n], b[2+n:], nil
}

// Commit returns the commitment to a payload.
func Commit(salt [16]byte, payload []byte) (c [32]byte) {
	h := sha256.New()
	h.Write(salt[:])
	h.Write(payload)
	h.Sum(c[:0])
	return c
}
