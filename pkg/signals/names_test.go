package signals

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// identifiers must find exactly the words that a simple definition, written here, finds. Each proper name must have two
// to four words of the text.
func FuzzNamesInText(f *testing.F) {
	f.Add("call send_email or http.get, sendMoney, Ünï_code and a-b; x_ 9_lives Foo.Bar")
	f.Add("Maria Jane Lopez wrote to (Acme Corp). the Big Blue Sky Over Us ends 'Rome Italy'")
	f.Fuzz(func(t *testing.T, s string) {
		var want []uint32
		for _, w := range strings.FieldsFunc(s[:min(len(s), 64<<10)], func(r rune) bool {
			return notWord(r) && r != '_' && r != '.' && r != '-'
		}) {
			if h := hash32(stem(wholeName(w))); len(w) >= 6 && len(w) <= 100 && len(splitName(w)) >= 2 &&
				!slices.Contains(want, h) && len(want) < maxNames {
				want = append(want, h)
			}
		}
		if got := identifiers(s); !slices.Equal(got, distinct(want)) {
			t.Errorf("%q: identifiers %v, want %v", s, got, want)
		}
		for _, n := range properNames(s) {
			words := strings.Fields(strings.TrimPrefix(n, "name:"))
			if len(words) < 2 || len(words) > 4 || !strings.Contains(strings.ToLower(s), words[0]) {
				t.Errorf("%q: proper name %q", s, n)
			}
		}
	})
}

// Every signal says which state it reads.
func TestSignalsNameTheStateThatTheyRead(t *testing.T) {
	for _, s := range Signals() {
		// A signal of the content reads only the entry, and no state. Any other signal must depend on a part of the
		// state.
		if PartsOf(s.Name) == 0 && !strings.HasPrefix(s.Name, "content.") && s.Name != "signal.user_named" {
			t.Errorf("%s reads no state", s.Name)
		}
	}
	for name := range fieldParts {
		group, field, _ := strings.Cut(name, ".")
		g, _ := reflect.TypeFor[Input]().FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, group) })
		if _, ok := g.Type.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, field) }); !ok {
			t.Errorf("there is no %s", name)
		}
	}
}

// For plain ASCII texts, pieces and splitName have fast paths. They must give the same results as the general paths.
func TestPlainWordsAndPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	letters := []rune("aabBzZ09 ._-/:@\n\t\"'(ü")
	for range 20_000 {
		var b strings.Builder
		for range r.IntN(40) {
			b.WriteRune(letters[r.IntN(len(letters)-r.IntN(2))])
		}
		s := b.String()
		// A letter outside ASCII at the end makes splitName use the general path for the whole text.
		long := splitName(s + " ü")
		if short := splitName(s); !slices.Equal(short, long) && !slices.Equal(append(slices.Clone(short), "ü"), long) {
			t.Fatalf("words of %q: %q, want %q", s, short, long)
		}
		if short, long := pieces(s), pieces(s+" ü"); !slices.Equal(short, long) {
			t.Fatalf("pieces of %q: %q, want %q", s, short, long)
		}
	}
}
