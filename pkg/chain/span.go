package chain

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"lazaret/pkg/position"
)

// A Span is a range of a log's leaves, From <= index < To, with the data that is needed to verify
// them from the leaves alone: the right edge of the tree before them, and a signed checkpoint that
// ends with them. An exported shard of a log is a span and its leaves.
type Span struct {
	From, To int64
	Prev     tlog.Hash   // record hash of the leaf before From; zero if From is 0
	Next     uint64      // ledger sequence expected at From, in the form that Leaf.follows takes
	Edge     []tlog.Hash // right edge of the tree of the leaves before From, largest subtree first
	// Before is the checkpoint of size From, or nil for From 0. After is the checkpoint of size To.
	Before, After []byte
	// Handovers are the handovers by which a reader who trusts an earlier key can verify the keys that signed.
	Handovers [][]byte
	// Later is a checkpoint of size To or more. Consistency proves that the tree of Later extends the tree of After.
	// Both fields may be empty.
	Later       []byte
	Consistency tlog.TreeProof
}

// CheckpointAt returns the log's largest checkpoint with at most size leaves. If there is none, it returns ErrRange.
func (l *Log) CheckpointAt(size int64) (Checkpoint, error) {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte{spaceCheckpoint}, UpperBound: key8(spaceCheckpoint,
		uint64(size)+1)})
	if err != nil {
		return Checkpoint{}, err
	}
	if !it.Last() {
		return Checkpoint{}, errors.Join(fmt.Errorf("a checkpoint of at most %d leaves: %w", size, ErrRange), it.Error(),
			it.Close())
	}
	v := append([]byte(nil), it.Value()...)
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return Checkpoint{}, err
	}
	return ParseCheckpoint(v)
}

// Span returns the span of the leaves from <= index < to. The log must have a checkpoint of exactly to leaves and,
// unless from is 0, one of exactly from leaves. CheckpointAt finds such sizes.
func (l *Log) Span(from, to int64) (*Span, error) {
	if from < 0 || from >= to || to > l.Head().Size {
		return nil, fmt.Errorf("leaves %d to %d of %d: %w", from, to-1, l.Head().Size, ErrRange)
	}
	s := &Span{From: from, To: to, Next: 1}
	at := func(size int64) ([]byte, error) {
		c, err := l.CheckpointAt(size)
		if err != nil || c.Size != size {
			return nil, errors.Join(fmt.Errorf("the log has no checkpoint of size %d", size), err)
		}
		return c.Note, nil
	}
	var err error
	if s.After, err = at(to); err != nil {
		return nil, err
	}
	if s.Handovers, err = l.Handovers(); err != nil {
		return nil, err
	}
	if from > 0 {
		if s.Before, err = at(from); err != nil {
			return nil, err
		}
		e, err := loadEdge(from, l)
		if err != nil {
			return nil, err
		}
		for level := 63; level >= 0; level-- {
			if from>>level&1 == 1 {
				s.Edge = append(s.Edge, e.at[level])
			}
		}
		raw, err := l.rawLeaf(from - 1)
		if err != nil {
			return nil, err
		}
		s.Prev = tlog.RecordHash(raw)
		last, err := DecodeLeaf(raw)
		if err != nil {
			return nil, err
		}
		s.Next, _ = last.follows(0)
		leaf, err := l.Leaf(from)
		if err != nil {
			return nil, err
		}
		if leaf.Kind != KindEntry || position.Index(leaf.Seq) == 0 {
			s.Next = position.Sequence(s.Next)
		}
	}
	if h := l.Head(); h.Checkpoint != nil {
		c, err := ParseCheckpoint(h.Checkpoint)
		if err != nil {
			return nil, err
		}
		if c.Size > to {
			if s.Consistency, err = l.ProveConsistency(to, c.Size); err != nil {
				return nil, err
			}
		}
		s.Later = c.Note
	}
	return s, nil
}

// A SpanReader verifies a span while its leaves are read.
type SpanReader struct {
	span  Span
	after Checkpoint
	edge  edge
	prev  tlog.Hash
	next  uint64
	buf   []byte
}

// OpenSigned parses and verifies a checkpoint. It must be signed by a trusted key, or by a key to which the handovers
// lead from a trusted key.
func OpenSigned(cp []byte, trusted note.Verifiers, handovers [][]byte) (Checkpoint, error) {
	ring := &keyring{trusted: trusted, retired: make(map[keyID]int64)}
	for i, h := range handovers {
		if _, err := ring.handover(h); err != nil {
			return Checkpoint{}, fmt.Errorf("handover %d: %w", i, err)
		}
	}
	c, _, err := ring.open(cp)
	return c, err
}

// Read verifies a span's signatures and edge, and returns a reader for its leaves. Pass the leaves to the reader's Add
// in order. Then its Done reports whether the leaves match the checkpoint.
func (s *Span) Read(trusted note.Verifiers) (*SpanReader, error) {
	r := &SpanReader{span: *s, prev: s.Prev, next: s.Next}
	if s.From < 0 || s.From >= s.To {
		return nil, fmt.Errorf("the span is from %d to %d, but its end must be above its beginning", s.From, s.To)
	}
	var err error
	if r.after, err = OpenSigned(s.After, trusted, s.Handovers); err != nil {
		return nil, fmt.Errorf("the checkpoint: %w", err)
	}
	if r.after.Size != s.To {
		return nil, fmt.Errorf("the checkpoint is of %d leaves, but the span ends at %d", r.after.Size, s.To)
	}
	rest := s.Edge
	for level := 63; level >= 0; level-- {
		if s.From>>level&1 == 0 {
			continue
		}
		if len(rest) == 0 {
			return nil, fmt.Errorf("the edge has %d hashes, which are too few for a tree of %d leaves", len(s.Edge), s.From)
		}
		r.edge.at[level], rest = rest[0], rest[1:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("the edge has %d hashes, which are too many for a tree of %d leaves", len(s.Edge), s.From)
	}
	r.edge.size = s.From
	if s.From > 0 {
		before, err := OpenSigned(s.Before, trusted, s.Handovers)
		if err != nil {
			return nil, fmt.Errorf("the earlier checkpoint: %w", err)
		}
		if before.Origin != r.after.Origin {
			return nil, fmt.Errorf("the checkpoints are of different logs, %q and %q", before.Origin, r.after.Origin)
		}
		if before.Size != s.From || before.Root != r.edge.root() {
			return nil, fmt.Errorf("the earlier checkpoint has %d leaves, but its size or its root is not that of the edge",
				before.Size)
		}
	}
	if s.Later != nil {
		later, err := OpenSigned(s.Later, trusted, s.Handovers)
		if err != nil {
			return nil, fmt.Errorf("the later checkpoint: %w", err)
		}
		if err := r.consistent(later, s.Consistency); err != nil {
			return nil, fmt.Errorf("the later checkpoint: %w", err)
		}
	}
	return r, nil
}

// consistent checks that a later checkpoint extends the span's checkpoint After.
func (r *SpanReader) consistent(later Checkpoint, p tlog.TreeProof) error {
	if later.Origin != r.after.Origin || later.Size < r.after.Size {
		return fmt.Errorf("it is of log %q with %d leaves; the span's checkpoint is of log %q with %d", later.Origin,
			later.Size, r.after.Origin, r.after.Size)
	}
	if later.Size == r.after.Size {
		if later.Root != r.after.Root {
			return fmt.Errorf("its root differs from the root of the span's checkpoint, which has as many leaves (%d)",
				later.Size)
		}
		return nil
	}
	return tlog.CheckTree(p, later.Size, later.Root, r.after.Size, r.after.Root)
}

// Add adds the next leaf. It sets the leaf's Index and Prev to the expected values. Done verifies the other fields by
// means of the tree's root.
func (r *SpanReader) Add(leaf Leaf) error {
	if r.edge.size >= r.span.To {
		return fmt.Errorf("more leaves than the %d of the span", r.span.To-r.span.From)
	}
	leaf.Index, leaf.Prev = r.edge.size, r.prev
	after, ok := leaf.follows(r.next)
	if !ok {
		return fmt.Errorf("leaf %d is a %s of ledger entry %s, want sequence %d", leaf.Index, leaf.Kind,
			position.Text(leaf.Seq), position.Sequence(r.next))
	}
	var err error
	if r.buf, err = AppendLeaf(r.buf[:0], &leaf); err != nil {
		return err
	}
	r.prev, r.next = tlog.RecordHash(r.buf), after
	r.edge.add(r.prev, nil)
	return nil
}

// Root returns the root of the tree of all leaves up to the last one that was added.
func (r *SpanReader) Root() tlog.Hash { return r.edge.root() }

// Size returns the number of leaves up to the last one that was added.
func (r *SpanReader) Size() int64 { return r.edge.size }

// Origin returns the log's name.
func (r *SpanReader) Origin() string { return r.after.Origin }

// Done returns an error unless all leaves of the span were added and match the checkpoint After.
func (r *SpanReader) Done() error {
	if r.edge.size != r.span.To {
		return fmt.Errorf("leaves %d to %d are missing", r.edge.size, r.span.To-1)
	}
	if r.edge.root() != r.after.Root {
		return errors.New("the leaves give another root than the signed checkpoint")
	}
	return nil
}

// EdgeBytes encodes the edge of a span as bytes, to write it to a file.
func EdgeBytes(hs []tlog.Hash) []byte {
	b := make([]byte, 0, len(hs)*tlog.HashSize)
	for _, h := range hs {
		b = append(b, h[:]...)
	}
	return b
}

// ParseEdge parses the output of EdgeBytes.
func ParseEdge(b []byte) ([]tlog.Hash, error) {
	if len(b)%tlog.HashSize != 0 {
		return nil, fmt.Errorf("%d bytes are not a list of hashes", len(b))
	}
	out := make([]tlog.Hash, len(b)/tlog.HashSize)
	for i := range out {
		copy(out[i][:], b[i*tlog.HashSize:])
	}
	return out, nil
}
