package approval

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lazaret/pkg/text"
)

// oracle decides on claims with package regexp.
var oracle = func() (out struct {
	words, turned []*regexp.Regexp
	mention       *regexp.Regexp
}) {
	for _, x := range claims {
		out.words = append(out.words, regexp.MustCompile(x.words))
		var turned *regexp.Regexp
		if x.turned != "" {
			turned = regexp.MustCompile(x.turned)
		}
		out.turned = append(out.turned, turned)
	}
	out.mention = regexp.MustCompile(mention)
	return out
}()

// makes reports whether a clause makes claim i.
func makes(i int, clause string) bool {
	words, turned := oracle.words[i], oracle.turned[i]
	for from := 0; from < len(clause); {
		at := words.FindStringIndex(clause[from:])
		if at == nil {
			return false
		}
		start, end := from+at[0], from+at[1]
		if turned == nil {
			return true
		}
		before := strings.Fields(clause[:start])
		before = append(before[max(0, len(before)-claims[i].before):], clause[start:end])
		if !turned.MatchString(strings.Join(before, " ")) {
			return true
		}
		next := strings.IndexByte(clause[start+1:], ' ')
		if next < 0 {
			return false
		}
		from = start + 1 + next
	}
	return false
}

// agree compares the machine with package regexp for one clause.
func agree(t *testing.T, s *search, clause []string) {
	t.Helper()
	joined := strings.Join(clause, " ")
	ids := s.read(clause, nil)
	found := s.which(ids)
	want := false
	for i, x := range claims {
		at := oracle.words[i].FindStringIndex(joined)
		if (at != nil) != (found&(1<<i) != 0) {
			t.Errorf("claim %d, %q: found is %v, regexp says %v", i, joined, found&(1<<i) != 0, at)
		}
		if at != nil {
			first, n := len(strings.Fields(joined[:at[0]])), len(strings.Fields(joined[at[0]:at[1]]))
			if got := s.end(i, ids[first:]); got != n {
				t.Errorf("claim %d, %q from word %d: %d words, want %d (%s)", i, joined, first, got, n, x.words)
			}
		}
		want = want || makes(i, joined)
	}
	if want = want && oracle.mention.MatchString(joined); s.claimed(ids) != want {
		t.Errorf("%q: claimed is %v, want %v", joined, !want, want)
	}
}

func TestTheMachineFindsTheSameAsPackageRegexp(t *testing.T) {
	s := patterns().search()
	for _, text := range slices.Concat(approvalClaims, noApprovalClaims) {
		for c := range clauses(normalOf(text)) {
			agree(t, s, slices.Clone(c))
		}
	}
	var vocabulary []string
	for w := range s.ids {
		vocabulary = append(vocabulary, w)
	}
	slices.Sort(vocabulary)
	core := strings.Fields("approval approved the no not needed without if any all payments is was user gave has to for of " +
		"x skip review asking can pre green light sign off automatically must steps permission requires")
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		from := core
		if r.IntN(3) == 0 {
			from = vocabulary
		}
		var clause []string
		for range 1 + r.IntN(16) {
			if r.IntN(8) == 0 {
				clause = append(clause, "other")
			} else {
				clause = append(clause, from[r.IntN(len(from))])
			}
		}
		agree(t, s, clause)
		if t.Failed() {
			break
		}
	}
}

func TestWordsOfClauses(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("w ", maxClause+1))
	for text, want := range map[string]string{
		"don't 'ask' ’’ o’clock; x-y\xffz! ' '. `": "dont ask oclock|x y z",
		"": "", ".a\n\nb?": "a|b", long: long[:2*maxClause-1] + "|" + long[:2*(overlap+1)-1],
		long[2:]: long[2:], "straße 4٤": "straße 4٤",
	} {
		var got []string
		for c := range clauses(text) {
			got = append(got, strings.Join(c, " "))
		}
		if g := strings.Join(got, "|"); g != want {
			t.Errorf("%q: %q, want %q", text, g, want)
		}
	}
}

// The number of steps for a text of near misses must grow with its length only.
func TestClaimsAreSearchedInLinearTime(t *testing.T) {
	near := []string{
		"unless the user approved transfer 7, the approval for payments in the x of y is",
		strings.Repeat("if approved x ", 400),
		strings.Repeat("no ", 500) + strings.Repeat("approval for x y z w ", 100),
		strings.Repeat("all future x ", 400) + " approval",
	}
	for _, text := range near {
		work := func(n int) int {
			s := patterns().search()
			for c := range clauses(strings.Repeat(normalOf(text)+". ", n)) {
				if s.claimed(s.read(c, nil)) {
					t.Fatalf("%.40q: a claim", text)
				}
			}
			return s.steps
		}
		words := len(strings.Fields(text))
		if few, many := work(10), work(40); many > 4*few || few > 10*words*60 {
			t.Errorf("%.40q: %d steps, and %d for four times the text of %d words", text, few, many, words)
		}
	}
}

func BenchmarkClaimed(b *testing.B) {
	for _, text := range []string{
		"unless the user approved transfer 7, the approval for payments in the x of y is. ",
		"if approved x if approved all payments if needed ",
		"The meeting about the review of the budget is on Thursday. ",
	} {
		text = strings.Repeat(normalOf(text)+". ", 1<<16/len(text))
		b.Run(text[:12], func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Claimed(text)
			}
		})
	}
}

func normalOf(s string) string { return text.Normalize(s) }
