package stage

import (
	"encoding/binary"
	"fmt"
	"slices"

	"lazaret/pkg/position"
)

// decided is the set of inputs of one partition that ingest has decided on: all up to a position, and some after it,
// because projects take turns (see intakeStage.next).
//
// It is a fold of the ledger, because every entry names its input. A message is purged from the intake only once it is
// decided. So settle can raise low to the intake's first message, and even a fold from the beginning of the ledger
// keeps few positions in done.
type decided struct {
	low   uint64   // every input up to this intake position is decided
	done  []uint64 // decided positions above low, ascending
	dirty bool     // changed since it was last stored
}

// has reports whether an input is decided.
func (d *decided) has(p uint64) bool {
	if position.Compare(p, d.low) <= 0 {
		return true
	}
	_, ok := slices.BinarySearchFunc(d.done, p, position.Compare)
	return ok
}

// add adds a decided input.
func (d *decided) add(p uint64) {
	if position.Compare(p, d.low) <= 0 {
		return
	}
	if i, ok := slices.BinarySearchFunc(d.done, p, position.Compare); !ok {
		d.done, d.dirty = slices.Insert(d.done, i, p), true
	}
}

// settle records that all inputs before a position are decided: low becomes the last of them.
func (d *decided) settle(before uint64) {
	n, _ := slices.BinarySearchFunc(d.done, before, position.Compare)
	if n > 0 {
		d.low, d.dirty = d.done[n-1], true
		d.done = append(d.done[:0], d.done[n:]...)
	}
}

// last returns the highest decided position.
func (d *decided) last() uint64 {
	if n := len(d.done); n > 0 {
		return d.done[n-1]
	}
	return d.low
}

func decidedKey(p int) []byte { return []byte{spaceMeta, 'd', byte(p)} }

func (d *decided) bytes() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+8*len(d.done)), d.low)
	for _, p := range d.done {
		b = binary.BigEndian.AppendUint64(b, p)
	}
	return b
}

// loadDecided loads the decided inputs of a partition. src is the input of the stage's last entry. A state that an
// earlier version stored has no set of decided inputs. That version decided inputs in order, so every input up to src
// is decided.
func (s *store) loadDecided(p int, src uint64) (d decided, err error) {
	v, ok, err := s.get(decidedKey(p))
	if err != nil || !ok {
		return decided{low: src}, err
	}
	if len(v) == 0 || len(v)%8 != 0 {
		return d, fmt.Errorf("stage state: the decided inputs of partition %d are %d bytes, want a multiple of 8: remove "+
			"the state folder, it is rebuilt from the ledger", p, len(v))
	}
	d.low = binary.BigEndian.Uint64(v)
	for v = v[8:]; len(v) > 0; v = v[8:] {
		d.done = append(d.done, binary.BigEndian.Uint64(v))
	}
	return d, nil
}
