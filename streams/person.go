package streams

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Person is whom an entry or a belief says something of: the data subject that
// its event named, and the user. The zero value is nobody in particular.
type Person struct {
	DataSubject string `json:"data_subject,omitzero"`
	User        string `json:"user,omitzero"`
}

// Of is whom an event says something of.
func (h *EntryHead) Of() Person { return Person{h.DataSubject, h.User} }

// Is reports whether a pseudonym names the person.
func (p Person) Is(subject string) bool {
	return subject != "" && (p.DataSubject == subject || p.User == subject)
}

// MaxSeqs bounds the list of entries in one statement, in bytes of its text. A
// longer list takes several statements.
const MaxSeqs = 512 << 10

// FormatSeqs writes rising ledger sequences as a list of ranges, "12-15,19".
func FormatSeqs(seqs []uint64) string {
	var b []byte
	for i := 0; i < len(seqs); {
		j := i
		for j+1 < len(seqs) && seqs[j+1] == seqs[j]+1 {
			j++
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, seqs[i], 10)
		if j > i {
			b = strconv.AppendUint(append(b, '-'), seqs[j], 10)
		}
		i = j + 1
	}
	return string(b)
}

// MaxListed bounds how many sequences a list may stand for: ranges are short, and
// what they stand for is held in memory.
const MaxListed = 1 << 20

// ParseSeqs reads a list that FormatSeqs wrote, in that one form: rising, no two
// ranges that touch.
func ParseSeqs(s string) ([]uint64, error) {
	if len(s) > MaxSeqs {
		return nil, fmt.Errorf("the list of entries has %d bytes, at most %d are admitted: make several statements", len(s), MaxSeqs)
	}
	if s == "" {
		return nil, nil
	}
	var out []uint64
	for part := range strings.SplitSeq(s, ",") {
		a, b, isRange := strings.Cut(part, "-")
		lo, err := strconv.ParseUint(a, 10, 64)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.ParseUint(b, 10, 64)
		}
		switch n := len(out); {
		case err != nil || lo == 0 || isRange && hi <= lo || n > 0 && lo <= out[n-1]+1:
			return nil, fmt.Errorf("%q is no part of a list of rising ranges such as 12-15,19", clip(part))
		case hi-lo >= MaxListed || uint64(n)+hi-lo >= MaxListed:
			return nil, fmt.Errorf("the list stands for more than %d entries: make several statements", MaxListed)
		}
		out = slices.Grow(out, int(hi-lo)+1)
		for q := lo; q <= hi; q++ {
			out = append(out, q)
		}
	}
	if FormatSeqs(out) != s {
		return nil, fmt.Errorf("the list of entries is not in its canonical form")
	}
	return out, nil
}
