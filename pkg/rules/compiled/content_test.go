package compiled

import (
	"math/rand/v2"
	"strings"
	"testing"

	"lazaret/pkg/signals"
	"lazaret/pkg/text"
)

// contentIndex scans text that several fields share only once. For each literal and field, it must give the same result
// as strings.Contains, whatever white space the text has.
func TestTheContentIsFoundInAsItsFieldsAre(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	letters := []string{"a", "b", "A", "c", " ", " ", "\n", "\t", "é", "-"}
	random := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
	folded, denied := 0, 0
	for range 3000 {
		n := len(letters)
		if r.IntN(2) == 0 {
			letters = letters[:8] // only ASCII letters, so that the view differs from the text only in case and white space
		}
		in := signals.NewInput()
		in.Content.Text = random(r.IntN(60))
		letters = letters[:n]
		in.Content.Views = []string{text.Normalize(in.Content.Text), text.Normalize(random(20))}[:r.IntN(3)]
		switch r.IntN(3) {
		case 0:
			in.Action.Text = in.Content.Text
		case 1:
			in.Action.Text = random(20)
		}
		c := &contentIndex{byText: make(map[string]int)}
		var atoms []atom
		fields := map[int32]int{}
		for range 40 {
			s := lowerASCII(random(3 + r.IntN(9)))
			f := r.IntN(contentFields)
			if c.add(contentNames[f], s, int32(len(atoms))) {
				fields[int32(len(atoms))] = f
				atoms = append(atoms, atom{literal: s})
			}
		}
		if len(atoms) == 0 {
			continue
		}
		c.literals = newLiterals(c.lits)
		trial := &Lookup{gen: 1, atoms: make([]uint32, len(atoms))}
		c.match(in, trial)
		ok, _ := alike(in.Content.Text, text.Normalize(in.Content.Text), nil)
		for i, a := range atoms {
			want := false
			for _, s := range [contentFields][]string{{in.Content.Text}, in.Content.Views, {in.Action.Text}}[fields[int32(i)]] {
				want = want || strings.Contains(lowerASCII(s), a.literal)
			}
			// The test may make two atoms for the same literal and field, and then only the last one is stored. Skip
			// the other one. A real index has only one such atom.
			if kept := c.lits[c.byText[a.literal]].atoms[fields[int32(i)]]; kept != int32(i) {
				continue
			}
			if got := trial.met(int32(i)); got != want {
				t.Fatalf("%q in %s of text %q, views %q, arguments %q: %v, want %v", a.literal, contentNames[fields[int32(i)]],
					in.Content.Text, in.Content.Views, in.Action.Text, got, want)
			}
			if ok && want {
				folded++
			}
			if ok && !want && len(in.Content.Views) > 0 && strings.Contains(in.Content.Views[0], a.literal) {
				denied++
			}
		}
	}
	if folded < 100 || denied < 10 {
		t.Fatalf("%d literals found, %d only in the view: the test shows nothing", folded, denied)
	}
}
