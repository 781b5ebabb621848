package text

import (
	"slices"
	"strings"
	"testing"
)

func marked(s, in string, least int) string {
	w := WordingOf(s)
	hit := make([]bool, w.Len())
	w.Mark(WordingOf(in), least, hit)
	var out []string
	for i, f := range strings.Fields(s) {
		if hit[i] {
			out = append(out, f)
		}
	}
	return strings.Join(out, " ")
}

func TestAnExcerptIsMarkedWordForWord(t *testing.T) {
	page := "The ferry to Hven leaves at nine from the north pier, and it returns in the late afternoon from the " +
		"old harbour."
	for _, c := range [][2]string{
		{"Keep this: leaves at nine from the NORTH pier please", "leaves at nine from the NORTH pier"},
		{"leaves at ten from the north pier", ""},
		{"The ferry to Hven leaves today and it returns in the late afternoon again",
			"The ferry to Hven leaves and it returns in the late afternoon"},
		{"nine", ""},
		{"", ""},
	} {
		if got := marked(c[0], page, 5); got != c[1] {
			t.Errorf("of %q %q is marked, want %q", c[0], got, c[1])
		}
	}
}

func TestPhrasesOfAWordingAreThoseOfTheTextUnsampled(t *testing.T) {
	s := "The blue ferry to Hven leaves at nine from the north pier and returns in the late afternoon."
	if a, b := WordingOf(s).Phrases(nil), []uint64(Analyze(s).Phrases.Hashes); !slices.Equal(a, b) {
		t.Errorf("%v, want %v", a, b)
	}
	w := WordingOf(s)
	hit := make([]bool, w.Len())
	for i := range 6 {
		hit[i] = true
	}
	if n := len(w.Phrases(hit)); n != 2 { // blue ferry hven, ferry hven leaves
		t.Errorf("%d phrases of the first six words, want 2", n)
	}
}
