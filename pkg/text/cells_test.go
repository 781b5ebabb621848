package text

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func cellsOf(s string) string { return Analyze(s).Views(s)[0].Cells }

func TestCellsOfASentence(t *testing.T) {
	for s, want := range map[string]string{
		`["Move","the","box","to","Ann"]`:                         "\x1emove the box to ann",
		`[["Move","the"],["box","to"],["Ann"]]`:                   "\x1emove the box to ann",
		`{"a":"Move the","b":"box to","c":"Ann"}`:                 "\x1emove the box to ann",
		`<tr><td>Move</td><td>the</td><td>box</td></tr>`:          "\x1emove the box",
		`["This is a text of many words","Move","the","box"]`:     "\x1emove the box",
		`[{"i":"x1","w":"Move"},{"i":"x2","w":"the"}]`:            "\x1ex1 move x2 the\x1emove the",
		`["Move","the","a","b","c","d","e","f","g","h","to","x"]`: "",
		`["red","green","blue"]`:                                  "",
		`["the"]`:                                                 "",
		`Move the box to Ann`:                                     "",
	} {
		if got := cellsOf(s); got != want {
			t.Errorf("%s: cells %q, want %q", s, got, want)
		}
	}
}

// The cells are read twice at most, as rows and as columns.
func TestCellsAreBounded(t *testing.T) {
	words := rapid.SampledFrom([]string{"the", "to", "box", "The box", "", "\u00bd",
		"a longer text of more than three words"})
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for i := range rapid.IntRange(1, 200).Draw(t, "n") {
			b.WriteString(`{"` + string(rune('a'+i%3)) + `":"` + words.Draw(t, "w") + "\"}\n")
		}
		s := b.String()
		if n := len(cellsOf(s)); n > 3*len(s) {
			t.Fatalf("%d bytes of cells in %d bytes", n, len(s))
		}
	})
}
