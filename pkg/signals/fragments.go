package signals

import (
	"iter"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

const (
	maxJoined = 96 // maximum length of an assembled value, in bytes
	maxPieces = 64 // maximum number of pieces of one content
)

var partPieces = keep(orderPieces, (*State).notePieces)

func init() {
	register(partPieces, Signal{
		Name:   "signal.fragments",
		Doc:    "argument values that combine pieces of different observations",
		Key:    "piece",
		Window: "all",
		Bound:  "100000 pieces",
		Cost:   "up to 2000 per value",
	}, (*State).fragments)
}

// Fragment is a value that was assembled from pieces of different observations.
type Fragment struct {
	Value  string   `cel:"value"`
	Pieces []string `cel:"pieces"`
	Events []string `cel:"events" doc:"observations that contained the pieces"`
}

// oddFields yields the words of s that may be unusual. From the first word that is not ASCII on, it yields all words.
func oddFields(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, odd := 0, false
		for i := 0; i <= len(s); i++ {
			if i == len(s) || s[i] == ' ' || s[i] >= '\t' && s[i] <= '\r' {
				if odd && !yield(s[start:i]) {
					return
				}
				start, odd = i+1, false
				continue
			}
			if s[i] >= utf8.RuneSelf {
				for w := range strings.FieldsSeq(s[start:]) { // other kinds of spaces may follow
					if !yield(w) {
						return
					}
				}
				return
			}
			odd = odd || unusual[s[i]]
		}
	}
}

// pieces returns the unusual words of a content. Each may be a piece of a value that is split over several contents.
func pieces(s string) []string {
	s = streams.Clip(s, 16<<10)
	var out []string
	add := func(w string) (more bool) {
		if w = trimmed.trim(w); len(w) >= index.MinPiece && len(w) <= index.MaxPiece && unusual.in(w) {
			// Conversion to lower case may change the number of bytes, so check it again.
			if w = strings.ToLower(w); len(w) >= index.MinPiece && len(w) <= index.MaxPiece {
				out = append(out, w)
			}
		}
		return len(out) < maxPieces
	}
	// Split words at ASCII spaces, and examine only words with unusual bytes. That is faster than splitting at all
	// kinds of spaces.
	start, odd := 0, false
	for i := range len(s) {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			// The text is not ASCII and may have other kinds of spaces. So start again and split at all of them.
			out = nil
			for w := range strings.FieldsSeq(s) {
				if !add(w) {
					break
				}
			}
			return out
		case c == ' ' || c >= '\t' && c <= '\r':
			if odd && !add(s[start:i]) {
				return out
			}
			start, odd = i+1, false
		default:
			odd = odd || unusual[c]
		}
	}
	if odd {
		add(s[start:])
	}
	return out
}

// notePieces stores the pieces of the content. For each beginning of a piece, the index also stores the lengths of the
// pieces that begin so. So one lookup shows that no piece begins at a position of a value, instead of one lookup per
// length.
func (s *State) notePieces() {
	if !s.hasExternalContent() {
		return
	}
	b := s.t.Index()
	if b == nil {
		return
	}
	b.Prefetch(index.PostPieces, s.In.piecesBy)
	for i, p := range s.In.pieces {
		if h := s.In.piecesBy[i]; !b.HasPiece(p, h) {
			b.PutPiece(p, h, s.ownOrigin(b))
		}
	}
}

// values returns those words of an action's arguments that may have been assembled from pieces.
func values(s string) []string {
	var out []string
	for v := range oddFields(s) {
		if v = trimmed.trim(v); len(v) < minValue || len(v) > maxJoined || !unusual.in(v) {
			continue
		}
		if v = strings.ToLower(v); len(v) >= minValue && len(v) <= maxJoined {
			out = append(out, v)
		}
	}
	return out
}

func (s *State) fragments() []*Fragment {
	var out []*Fragment
	b := s.t.Index()
	if b == nil || !b.HasPieces() {
		return out
	}
	for _, v := range s.In.values {
		lengths := b.Lengths(v)
		if lengths == 0 || len(v) <= index.MaxPiece && lengths&index.PieceBit(len(v)) != 0 && b.HasPiece(v, index.Hash(v)) {
			continue
		}
		if f := assemble(b, v, lengths); f != nil {
			out = append(out, f)
		}
	}
	return out
}

// assemble splits a value into two to four known pieces from at least two observations. If that is not possible, it
// returns nil. lengths are the lengths of pieces with which the value may begin, as bits.
func assemble(b *index.Index, v string, lengths uint64) *Fragment {
	// ways has, for each position of the value, a way to split the value up to there: into n pieces, of which the last
	// one begins at from.
	type way struct {
		n    int
		from int
		ref  uint32 // of the last piece
	}
	var ways [maxJoined + 1]way
	for i := range v {
		if i > 0 && ways[i].n == 0 || ways[i].n == 4 {
			continue
		}
		if len(v)-i < index.MinPiece {
			break
		}
		if i > 0 {
			lengths = b.Lengths(v[i:])
		}
		for lengths != 0 {
			n := 63 - bits.LeadingZeros64(lengths)
			lengths &^= 1 << n
			j := i + index.MinPiece + n
			if j > len(v) || ways[j].n > 0 || i == 0 && j == len(v) {
				continue
			}
			if ref, ok := b.Piece(v[i:j], index.Hash(v[i:j])); ok {
				ways[j] = way{ways[i].n + 1, i, ref}
			}
		}
	}
	n := ways[len(v)].n
	if n < 2 {
		return nil
	}
	f := &Fragment{Value: v, Pieces: make([]string, n), Events: make([]string, n)}
	for end := len(v); n > 0; end = ways[end].from {
		n--
		f.Pieces[n], f.Events[n] = v[ways[end].from:end], readOrigin(b.Origin(ways[end].ref)).event
	}
	evs := slices.Clone(f.Events)
	slices.Sort(evs)
	if len(slices.Compact(evs)) < 2 {
		return nil
	}
	return f
}
