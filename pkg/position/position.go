package position

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

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

// Text returns a position for people: the sequence, and the index after a dot if it is not 0, as in 98 and 98.2.
func Text(p uint64) string {
	if Index(p) == 0 {
		return strconv.FormatUint(p, 10)
	}
	return fmt.Sprintf("%d.%d", Sequence(p), Index(p))
}

// Parse parses a position in the form of Text, such as 98.2, or as a plain number.
func Parse(s string) (uint64, error) {
	sequence, index, dotted := strings.Cut(s, ".")
	p, err := strconv.ParseUint(sequence, 10, 64)
	if err == nil && dotted {
		i, wrong := strconv.ParseUint(index, 10, 64-Bits)
		if wrong == nil && p == Sequence(p) {
			return At(p, int(i)), nil
		}
		err = wrong
	}
	if err != nil || dotted {
		return 0, fmt.Errorf("%q is not the position of a ledger entry, such as 98 or 98.2", s)
	}
	return p, nil
}
