package position

import "cmp"

// Bits is the number of bits of a position that hold the sequence.
const Bits = 44

// At returns the position of the entry with this index in a message.
func At(sequence uint64, index int) uint64 { return sequence | uint64(index)<<Bits }

// Sequence returns the sequence of the message that holds the entry at a position.
func Sequence(p uint64) uint64 { return p & (1<<Bits - 1) }

// Index returns the index in its message of the entry at a position.
func Index(p uint64) int { return int(p >> Bits) }

// Next returns the position of the entry after p in the same message.
func Next(p uint64) uint64 { return p + 1<<Bits }

// Compare compares two positions in ledger order.
func Compare(a, b uint64) int {
	return cmp.Or(cmp.Compare(Sequence(a), Sequence(b)), cmp.Compare(a, b))
}

// Later returns the later of two positions.
func Later(a, b uint64) uint64 {
	if Compare(a, b) < 0 {
		return b
	}
	return a
}
