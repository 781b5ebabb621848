package signals

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// slowIdentifiers is the definition of identifiers.
func slowIdentifiers(s string) []uint32 {
	s = s[:min(len(s), 64<<10)]
	var out []uint32
	seen := make(map[uint32]bool)
	start, odd := -1, false
	end := func(i int) {
		if w := s[max(start, 0):i]; start >= 0 && odd && len(w) >= 6 && len(w) <= 100 && len(out) < maxNames &&
			len(splitName(w)) >= 2 {
			if h := hash32(stem(wholeName(w))); !seen[h] {
				seen[h] = true
				out = append(out, h)
			}
		}
		start, odd = -1, false
	}
	for i, r := range s {
		if notWord(r) && r != '_' && r != '.' && r != '-' {
			end(i)
			continue
		}
		if start < 0 {
			start = i
		}
		odd = odd || r < 'a' || r > 'z'
	}
	end(len(s))
	return distinct(out)
}

func TestIdentifiersAreFoundByBytesAsByRunes(t *testing.T) {
	piece := rapid.OneOf(rapid.SampledFrom([]string{"sendEmail", "send_email", "mail.SendEMail", "FHIRManage", " ", "\n",
		"größeWert", "é", "\xff", "日本Send", "a-b", "notes", "X", "__", "..", "get_user_2"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		s := ""
		for _, p := range rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces") {
			s += p
		}
		if got, want := identifiers(s), slowIdentifiers(s); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, want %v", s, got, want)
		}
	})
}

func TestEveryWordWithClassesIsLookedUp(t *testing.T) {
	for w := range wordClasses {
		if !mayHaveClass(w) {
			t.Errorf("%q would not be found", w)
		}
	}
}

func TestABareWordHasNoPunctuationAroundIt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := rapid.StringMatching(`[-'_ab]{1,6}`).Draw(rt, "word")
		want := strings.Trim(w, "'_")
		if strings.Trim(want, "-") == "" {
			want = ""
		}
		if got := bare(w); got != want {
			rt.Fatalf("%q: %q, want %q", w, got, want)
		}
	})
}

// Each stem must begin with the same letter as its word, because asked looks only at words that begin with the first
// letter of a stem.
func TestAStemBeginsLikeItsWord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := rapid.StringMatching(`[a-z0-9é]{3,12}(ing|ed|ies|ly|s|ational)?`).Draw(rt, "word")
		if s := stem(w); s == "" || s[0] != w[0] {
			rt.Fatalf("the stem of %q is %q", w, s)
		}
	})
	for _, w := range []string{"skis", "dying", "lying", "idly", "yes", "yield", "ies", "ied", "ing", "eed", "aed",
		"oed"} {
		if s := stem(w); s == "" || s[0] != w[0] {
			t.Errorf("the stem of %q is %q", w, s)
		}
	}
}
