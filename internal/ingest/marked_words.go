package ingest

import (
	"encoding/binary"
	"strings"
	"unicode"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

const (
	maxMarkedText = 32 << 10 // bytes of text to compare; for a longer action see carriesMarked
	minCode       = 4        // minimum length in bytes of a word with a digit that is stored by itself, not only in pairs
)

// noteMarked stores the words of a memory whose sensitivity is above internal: the marked words.
func noteMarked(st *stage.State, project string, e *streams.MemoryEntry) error {
	if e.Belief.Sensitivity.Within(beliefs.Internal) {
		return nil
	}
	terms := markedTerms(e.Content, &e.Features)
	if whole := text.Terms(e.Content, 2); len(whole) == 1 {
		terms = append(terms, whole[0]) // it is the memory's only word
	}
	for _, t := range terms {
		if err := st.Set(markedKey(project, t), nil); err != nil {
			return err
		}
	}
	return nil
}

// carriesMarked reports whether the arguments of an action have marked words: two adjacent words, a word with digits,
// or the only word of a memory whose sensitivity is above internal. If the arguments are too large to compare, it
// reports whether the project has any marked words.
func carriesMarked(st *stage.State, project string, e *streams.ActionEntry) (found bool, err error) {
	if len(e.Text) > maxMarkedText || e.Features.Partial {
		err := st.Scan(stage.Key(keyMarked, project, ""), func(_, _ []byte) (bool, error) {
			found = true
			return false, nil
		})
		return found, err
	}
	terms := append(markedTerms(e.Text, &e.Features), text.Terms(e.Text, maxMarkedText)...)
	if decoded := text.DecodeWords(e.Text); decoded != "" {
		terms = append(appendMarked(terms, text.Normalize(decoded)), text.Terms(decoded, maxMarkedText)...)
	}
	for _, t := range terms {
		if _, found, err = st.Get(markedKey(project, t)); err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// markedTerms returns the pairs of adjacent words of a text and of its decoded views, without function words, and the
// words with digits.
func markedTerms(s string, f *text.Features) (out []text.Term) {
	for _, v := range f.Views(s) {
		out = appendMarked(out, v.Text)
	}
	return out
}

// appendMarked appends the terms of markedTerms of one normalized text.
func appendMarked(out []text.Term, s string) []text.Term {
	terms := text.Terms(s, maxMarkedText)
	for i := 1; i < len(terms); i++ {
		var pair [16]byte
		binary.BigEndian.PutUint64(pair[:], uint64(terms[i-1]))
		binary.BigEndian.PutUint64(pair[8:], uint64(terms[i]))
		out = append(out, text.Label("pair", string(pair[:])))
	}
	apart := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for w := range strings.FieldsFuncSeq(s, apart) {
		if len(w) >= minCode && strings.ContainsFunc(w, unicode.IsDigit) {
			out = append(out, text.Label("code", w))
		}
	}
	return out
}

func markedKey(project string, t text.Term) []byte {
	return binary.BigEndian.AppendUint64(stage.Key(keyMarked, project, ""), uint64(t))
}
