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

// oddFields returns the words that may be unusual. For a text that is not ASCII these are all
// words.
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

// pieces returns the unusual words of a content, which are candidates for parts of a value.
func pieces(s string) []string {
	s = streams.Clip(s, 16<<10)
	var out []string
	add := func(w string) (more bool) {
		if w = trimmed.trim(w); len(w) >= index.MinPiece && len(w) <= index.MaxPiece && unusual.in(w) {
			// Conversion to lower case may change the length.
			if w = strings.ToLower(w); len(w) >= index.MinPiece && len(w) <= index.MaxPiece {
				out = append(out, w)
			}
		}
		return len(out) < maxPieces
	}
	// Words are split at ASCII spaces here. Only words with unusual bytes are examined further.
	start, odd := 0, false
	for i := range len(s) {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			// Other kinds of spaces may follow, so start again.
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

// notePieces stores the pieces. The index stores the possible lengths of pieces by their first
// bytes, so that one lookup can rule out a piece at a position instead of one lookup per length.
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

// pieceLengths returns the lengths of known pieces with which v may begin, as bits.
func (s *State) pieceLengths(v string) uint64 {
	if b := s.t.Index(); b != nil {
		return b.Lengths(v)
	}
	return 0
}

// pieceFrom returns the event that brought a piece.
func (s *State) pieceFrom(v string) (event string, ok bool) {
	b := s.t.Index()
	if b == nil {
		return "", false
	}
	ref, ok := b.Piece(v, index.Hash(v))
	if !ok {
		return "", false
	}
	return readOrigin(b.Origin(ref)).event, true
}

// values returns the words of an action's arguments that may have been assembled from pieces.
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
		lengths := s.pieceLengths(v)
		if lengths == 0 {
			continue
		}
		if len(v) <= index.MaxPiece && lengths&index.PieceBit(len(v)) != 0 {
			if _, whole := s.pieceFrom(v); whole {
				continue
			}
		}
		if f := s.assemble(v); f != nil {
			out = append(out, f)
		}
	}
	return out
}

// assemble splits a value into two to four known pieces from at least two observations. It returns
// nil if that is not possible.
func (s *State) assemble(v string) *Fragment {
	type way struct {
		pieces, events []string
	}
	ways := make([]*way, len(v)+1)
	ways[0] = new(way)
	for i := range v {
		if ways[i] == nil || len(ways[i].pieces) == 4 {
			continue
		}
		if len(v)-i < index.MinPiece {
			break
		}
		for lengths := s.pieceLengths(v[i:]); lengths != 0; {
			n := 63 - bits.LeadingZeros64(lengths)
			lengths &^= 1 << n
			j := i + index.MinPiece + n
			if j > len(v) || ways[j] != nil || i == 0 && j == len(v) {
				continue
			}
			if ev, ok := s.pieceFrom(v[i:j]); ok {
				ways[j] = &way{append(slices.Clone(ways[i].pieces), v[i:j]), append(slices.Clone(ways[i].events), ev)}
			}
		}
	}
	w := ways[len(v)]
	if w == nil || len(w.pieces) < 2 {
		return nil
	}
	evs := slices.Clone(w.events)
	slices.Sort(evs)
	if len(slices.Compact(evs)) < 2 {
		return nil
	}
	return &Fragment{Value: v, Pieces: w.pieces, Events: w.events}
}
