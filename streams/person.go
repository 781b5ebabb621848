package streams

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Person identifies whom an entry or a belief concerns: the data subject that its event names, and
// the user. The zero value means no particular person.
type Person struct {
	DataSubject string `json:"data_subject,omitzero"`
	User        string `json:"user,omitzero"`
}

// Of returns the person whom the event concerns.
func (h *EntryHead) Of() Person { return Person{h.DataSubject, h.User} }

// Is reports whether the pseudonym subject is the person's data subject or user.
func (p Person) Is(subject string) bool {
	return subject != "" && (p.DataSubject == subject || p.User == subject)
}

// MaxSeqs is the maximum size in bytes of the text of the list of entries in one statement. A longer list must be split
// into several statements.
const MaxSeqs = 512 << 10

// SeqRange is a range of ledger sequences, both ends included.
type SeqRange struct{ From, To uint64 }

// Ranges converts ascending ledger sequences to ranges. Each range has as many consecutive sequences as possible.
func Ranges(seqs []uint64) (out []SeqRange) {
	for _, q := range seqs {
		if n := len(out); n > 0 && out[n-1].To+1 == q {
			out[n-1].To = q
		} else {
			out = append(out, SeqRange{q, q})
		}
	}
	return out
}

// FormatRanges writes ranges as "12-15,19".
func FormatRanges(rs []SeqRange) string {
	var b []byte
	for _, r := range rs {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, r.From, 10)
		if r.To > r.From {
			b = strconv.AppendUint(append(b, '-'), r.To, 10)
		}
	}
	return string(b)
}

// ParseRanges parses the output of FormatRanges. It accepts only that form: ascending ranges with a gap between them.
func ParseRanges(s string) (out []SeqRange, err error) {
	if len(s) > MaxSeqs {
		return nil, fmt.Errorf("the list of entries has %d bytes, at most %d are allowed: make several statements", len(s),
			MaxSeqs)
	}
	if s == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		a, b, isRange := strings.Cut(part, "-")
		lo, err := strconv.ParseUint(a, 10, 64)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.ParseUint(b, 10, 64)
		}
		if n := len(out); err != nil || lo == 0 || isRange && hi <= lo || n > 0 && lo-1 <= out[n-1].To {
			return nil, fmt.Errorf("%q is not valid in a list of ascending ranges such as 12-15,19", clip(part))
		}
		out = append(out, SeqRange{lo, hi})
	}
	if FormatRanges(out) != s {
		return nil, fmt.Errorf("the list of entries is not in its canonical form")
	}
	return out, nil
}

// Widen shortens the list of ranges until its text has at most limit bytes. It merges neighbouring ranges, those with
// the smallest gap first.
func Widen(rs []SeqRange, limit int) []SeqRange {
	for gap := uint64(2); len(FormatRanges(rs)) > limit; gap *= 2 {
		var out []SeqRange
		for _, r := range rs {
			if n := len(out); n > 0 && r.From-out[n-1].To <= gap {
				out[n-1].To = r.To
			} else {
				out = append(out, r)
			}
		}
		rs = out
	}
	return rs
}

// InRanges reports whether seq is in one of the ascending ranges.
func InRanges(rs []SeqRange, seq uint64) bool {
	i := sort.Search(len(rs), func(i int) bool { return rs[i].To >= seq })
	return i < len(rs) && rs[i].From <= seq
}

// FormatSeqs formats ascending ledger sequences as ranges, such as "12-15,19".
func FormatSeqs(seqs []uint64) string { return FormatRanges(Ranges(seqs)) }

// MaxListed is the maximum number of sequences in a list of ranges. The limit exists because the sequences are held in
// memory one by one.
const MaxListed = 1 << 20

// ParseSeqs parses the output of FormatSeqs.
func ParseSeqs(s string) (out []uint64, err error) {
	rs, err := ParseRanges(s)
	if err != nil {
		return nil, err
	}
	for _, r := range rs {
		if n := r.To - r.From; n >= MaxListed || uint64(len(out))+n >= MaxListed {
			return nil, fmt.Errorf("the ranges contain more than %d entries: make several statements", MaxListed)
		}
		out = slices.Grow(out, int(r.To-r.From)+1)
		for q := r.From; q <= r.To; q++ {
			out = append(out, q)
		}
	}
	return out, nil
}
