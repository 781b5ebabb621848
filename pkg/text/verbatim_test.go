package text

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOnlyVerbatimWordsAreASpan(t *testing.T) {
	const user = "Hi! My name is José Müller, and I prefer  window seats on flights to apple.com HQ."
	for _, c := range []struct {
		text string
		want bool
	}{
		{"I prefer window seats", true},
		{"  i PREFER\nwindow seats.", true},
		{`"My name is José Müller"`, true},
		{user, true},
		{"name", true},
		{"I prefer window", true},
		{"prefer win", false},
		{"refer window", false},
		{"I prefer aisle seats", false},
		{"my name is Jose Müller", false}, // another name
		{"I prefer window\u200b seats", false},
		{"flights to \u0430pple.com", false},
		{"", false},
		{"...", false},
	} {
		if got := VerbatimSpan(c.text, user); got != c.want {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[ab]{1,2}`), 1, 20).Draw(t, "words")
		from := rapid.IntRange(0, len(words)-1).Draw(t, "from")
		to := rapid.IntRange(from+1, len(words)).Draw(t, "to")
		if !VerbatimSpan(strings.Join(words[from:to], " "), strings.Join(words, " ")) {
			t.Fatalf("%v is a span of %v", words[from:to], words)
		}
		other := rapid.SliceOfN(rapid.StringMatching(`[ab]{1,2}`), 1, 4).Draw(t, "other")
		want := strings.Contains(" "+strings.Join(words, " ")+" ", " "+strings.Join(other, " ")+" ")
		if got := VerbatimSpan(strings.Join(other, " "), strings.Join(words, " ")); got != want {
			t.Fatalf("%v in %v: %v", other, words, got)
		}
	})
}

func FuzzVerbatimSpan(f *testing.F) {
	f.Add("window seats", "I like window seats")
	f.Fuzz(func(t *testing.T, text, within string) {
		// The added words are on lines of their own. An unterminated escape sequence in within would continue in a word
		// on the same line.
		if VerbatimSpan(text, within) && !VerbatimSpan(text, "x\n"+within+"\ny") {
			t.Errorf("%q is a span of %q, and not of more than that", text, within)
		}
	})
}
