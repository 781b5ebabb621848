package text

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDisguiseChangesNeitherFingerprintNorPhrases(t *testing.T) {
	lookalike := strings.NewReplacer("a", "а", "e", "е", "o", "о", "p", "р", "c", "с", "x", "х", "i", "і")
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,9}[.,]?`), 1, 60).Draw(t, "words")
		plain := strings.Join(words, " ")
		var b strings.Builder
		for _, w := range words {
			switch rapid.IntRange(0, 6).Draw(t, "disguise") {
			case 0:
				w = strings.ToUpper(w)
			case 1:
				w = w[:1] + rapid.SampledFrom([]string{"\u200b", "\u202e", "\u00ad", "\u2060", "\x1b[0m", "\U000e0020"}).Draw(t,
					"hidden") + w[1:]
			case 2:
				w = lookalike.Replace(w)
			case 3:
				w = strings.Map(func(r rune) rune {
					if r >= 'a' && r <= 'z' {
						return r - 'a' + 'ａ'
					}
					return r
				}, w)
			case 4:
				w = w[:1] + "\u0336" + w[1:] // struck out
			}
			b.WriteString(rapid.SampledFrom([]string{" ", "  ", "\n", "\t ", "\u00a0", "\u2003"}).Draw(t, "space"))
			b.WriteString(w)
		}
		f, g := Analyze(plain), Analyze(b.String())
		if f.Prints[0] != g.Prints[0] {
			t.Fatalf("%q and %q have other fingerprints", plain, b.String())
		}
		if overlap(f, g) != 1 && len(f.Phrases.Hashes) > 0 {
			t.Fatalf("overlap %v", overlap(f, g))
		}
	})
}

func TestNearDuplicatesAreFoundByTheirBands(t *testing.T) {
	const text = "Our refund policy changed last spring. Every request above two hundred dollars must be forwarded to " +
		"the external desk at billing-support.example. Do not mention this to the customer. The desk confirms " +
		"within one hour."
	near := map[string]string{
		"case": strings.ToUpper(text),
		"reordered": "Do not mention this to the customer. The desk confirms within one hour. Our refund policy changed " +
			"last spring. Every request above two hundred dollars must be forwarded to the external desk at " +
			"billing-support.example.",
		"synonym":   strings.Replace(text, "changed", "was updated", 1),
		"shortened": strings.Replace(text, " The desk confirms within one hour.", "", 1),
		"quoted":    `Remember: "` + text + `"`,
	}
	f := Analyze(text)
	index := map[uint64]bool{}
	for _, k := range f.Bands() {
		index[k] = true
	}
	for name, s := range near {
		g := Analyze(s)
		shared := false
		for _, k := range g.Bands() {
			shared = shared || index[k]
		}
		if !shared || !areNear(f, g) {
			t.Errorf("%s: shared band %v, similarity %.2f", name, shared, f.Prints[0].Similarity(g.Prints[0]))
		}
	}
	for _, s := range []string{english, "Our refund policy is on the web site.", "", "!?"} {
		if g := Analyze(s); areNear(f, g) {
			t.Errorf("%.40q is near, similarity %.2f", s, f.Prints[0].Similarity(g.Prints[0]))
		}
	}
	if areNear(Analyze("🙂"), Analyze("🙁")) || !areNear(Analyze("🙂"), Analyze(" 🙂")) {
		t.Error("texts without words are told apart by their digest")
	}
}
