package compiled

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// FuzzRequiredLiterals matches texts with regular expressions. A text that matches must meet the expression's
// requirement and contain one of its required literals.
func FuzzRequiredLiterals(f *testing.F) {
	f.Add(`(?i)pass(word|phrase)s?`, "PASSPHRASE")
	f.Add(`k[e3]lvin`, "k3lvin")
	f.Add(`(?i)kiss`, "\u212Aiss")
	f.Add(`(ab|cd){2,}x`, "abcdx")
	f.Add(`(?:do not|never)\b[^.]{0,9}(?:drop|forget)|keep (?:this )?verbatim`, "never forget")
	f.Fuzz(func(t *testing.T, expr, s string) {
		lits := RequiredLiterals(expr)
		re, err := regexp.Compile(expr)
		if err != nil || !re.MatchString(s) {
			return
		}
		if q := requires(expr); q != nil && !q.metBy(lowerASCII(s)) {
			t.Errorf("%q matches %q, which does not meet the requirement", expr, s)
		}
		if lits == nil {
			return
		}
		for _, l := range lits {
			if strings.Contains(lowerASCII(s), l) {
				return
			}
		}
		t.Errorf("%q matches %q without any of %q", expr, s, lits)
	})
}

func (q *requirement) metBy(s string) bool {
	met := func(k *requirement) bool { return k.metBy(s) }
	switch {
	case q.all != nil:
		return !slices.ContainsFunc(q.all, func(k *requirement) bool { return !met(k) })
	case q.some != nil:
		return slices.ContainsFunc(q.some, met)
	}
	return slices.ContainsFunc(q.one, func(l string) bool { return strings.Contains(s, l) })
}

// Consecutive parts are required together.
func TestAllPartsAreRequired(t *testing.T) {
	q := requires(`\b(?:do not|never)\b[^.;]{0,40}\b(?:drop|forget)\b|\bkeep (?:this )?verbatim\b`)
	for text, want := range map[string]bool{
		"never drop":         true,
		"we never met":       false,
		"do forget":          false,
		"keep this verbatim": true,
		"keep verbatim":      true,
		"keep it":            false,
	} {
		if got := q.metBy(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestRequiredLiterals(t *testing.T) {
	for expr, want := range map[string][]string{
		`pass(?:word|phrase)`:     {"passphrase", "password"},
		`(?i)Send`:                {"send", "ſend"}, // s has a variant outside of ASCII
		`(?i)Send.*evil`:          {"evil"},
		`(?i)forward.*x`:          {"forward"},
		`\b(?:send|set)\b`:        {"send", "set"},
		`(?i)xkskskskyz`:          {"kyz", "\u212Ayz"},
		`alpha[ -]beta`:           {"alpha beta", "alpha-beta"},
		`a|bcd`:                   nil,
		`.*`:                      nil,
		`(?:foo)+bar?`:            {"foo"},
		`colou?r`:                 {"color", "colour"},
		`[xy]abc\d+`:              {"xabc", "yabc"},
		`no .{0,20}instructions?`: {"instruction"},
	} {
		if got := RequiredLiterals(expr); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// In random texts, the index must find exactly the literals that strings.Contains finds.
func TestLiteralsFindWhatContainsFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	letters := "abcAB. "
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	for round := range 400 {
		var lits []literal
		n := 50
		letters = "abcAB. "
		if round%4 == 0 {
			// A short alphabet and few literals, so that literals are searched by their marks.
			letters, n = "abA-9. ", 1+r.IntN(3)
		}
		for i := range n {
			lits = append(lits, literal{text: lowerASCII(random(3 + r.IntN(14))), atoms: [contentFields]int32{int32(i)}})
		}
		l := newLiterals(lits)
		for range 20 {
			s := random(r.IntN(200)) + lits[r.IntN(n)].text + random(r.IntN(9))
			found := make(map[int32]bool)
			l.scan(s, func(l *literal) bool { return found[l.atoms[0]] }, func(l *literal, at int) {
				if !strings.HasPrefix(lowerASCII(s[at:]), l.text) {
					t.Fatalf("%q in %q is not at %d", l.text, s, at)
				}
				found[l.atoms[0]] = true
			})
			for _, lit := range lits {
				if want := strings.Contains(lowerASCII(s), lit.text); want != found[lit.atoms[0]] {
					t.Fatalf("%q in %q: %v, want %v", lit.text, s, found[lit.atoms[0]], want)
				}
			}
		}
	}
}
