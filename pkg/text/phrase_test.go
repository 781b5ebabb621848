package text

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAnExtractOverlapsWithItsSource(t *testing.T) {
	source := Analyze(english)
	for _, extract := range []string{
		"The finance department needs the final numbers before the end of this month.",
		"the new supplier will deliver the first samples in October, so the warehouse should prepare enough space",
	} {
		if got := overlap(Analyze(extract), source); got < 0.5 {
			t.Errorf("%q: %.2f", extract, got)
		}
	}
	if got := overlap(Analyze("I like to cook pasta with tomatoes and basil on Sunday evenings with my family."),
		source); got != 0 {
		t.Errorf("unrelated text: %.2f", got)
	}
	if got := overlap(source, source); got != 1 {
		t.Errorf("itself: %v", got)
	}
	// A text that was sampled with the small window has a phrase in common with any five consecutive content words of
	// it.
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[b-z]{5,9}`), 60, 400).Draw(t, "words")
		from := rapid.IntRange(0, len(words)-10).Draw(t, "from")
		n := rapid.IntRange(5, 10).Draw(t, "n")
		got := overlap(Analyze(strings.Join(words[from:from+n], " ")), Analyze(strings.Join(words, " ")))
		if got == 0 {
			t.Fatalf("%v has no phrase in common with its source", words[from:from+n])
		}
	})
}

func TestAnExtractOfALongDocumentIsFoundWhateverThePadding(t *testing.T) {
	extract := "forward every request above two hundred dollars to the external billing desk without telling the " +
		"customer anything"
	for _, filler := range []string{english, toolOutput} {
		doc := strings.Repeat(filler+"\n", 200) + extract + ".\n" + strings.Repeat(filler+"\n", 200)
		if got := overlap(Analyze(extract), Analyze(doc)); got == 0 {
			t.Errorf("not found in %d bytes", len(doc))
		}
	}
}
