package ingest

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// mutation is a way to write a refused value again.
type mutation struct {
	name      string
	of        func(s string) string
	elsewhere bool // under another key, by another agent, in another session
}

func eachWord(s string, f func(i int, w string) string) string {
	var out []string
	for i, w := range strings.Fields(s) {
		if w = f(i, w); w != "" {
			out = append(out, w)
		}
	}
	return strings.Join(out, " ")
}

// swapClauses exchanges neighbouring clauses. If the text has only one clause, it exchanges the halves of the text.
func swapClauses(s string) string {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ';' || r == '.' || r == '\n' || r == ':' })
	if len(parts) < 2 {
		w := strings.Fields(s)
		return strings.Join(append(slices.Clone(w[len(w)/2:]), w[:len(w)/2]...), " ")
	}
	for i := 0; i+1 < len(parts); i += 2 {
		parts[i], parts[i+1] = parts[i+1], parts[i]
	}
	return strings.Join(parts, ",")
}

func entities(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, "&#%d;", r)
	}
	return b.String()
}

func fullwidth(s string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r + 0xfee0
		}
		return r
	}, s)
}

var mutations = []mutation{
	{"verbatim", func(s string) string { return s }, false},
	{"another key, agent and session", func(s string) string { return s }, true},
	{"upper case", strings.ToUpper, false},
	{"lower case", strings.ToLower, false},
	{"spacing", func(s string) string { return strings.Join(strings.Fields(s), "  \t ") }, false},
	{"line breaks", func(s string) string { return strings.Join(strings.Fields(s), "\n") }, false},
	{"zero-width characters", func(s string) string {
		return eachWord(s, func(_ int, w string) string { c := cut(w, len(w)/2); return c + "\u200b" + w[len(c):] })
	}, false},
	{"soft hyphens", func(s string) string { return eachWord(s, func(_ int, w string) string { return w + "\u00ad" }) },
		false},
	{"confusables", func(s string) string {
		return strings.NewReplacer("a", "а", "e", "е", "o", "о", "p", "р").Replace(s)
	}, false},
	{"full width", fullwidth, false},
	{"punctuation", func(s string) string { return "\"" + strings.TrimRight(s, ". ") + "\"!!" }, false},
	{"order of sentences", reordered, false},
	{"order of clauses", swapClauses, false},
	{"synonym of one word", func(s string) string {
		n := len(strings.Fields(s)) / 2
		return eachWord(s, func(i int, w string) string {
			if i == n {
				return "furthermore"
			}
			return w
		})
	}, false},
	{"one word left out", func(s string) string {
		n := len(strings.Fields(s)) / 3
		return eachWord(s, func(i int, w string) string {
			if i == n {
				return ""
			}
			return w
		})
	}, false},
	{"an introduction", func(s string) string { return "Please remember the following: " + s }, false},
	{"base64", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }, false},
	{"hex", func(s string) string { return hex.EncodeToString([]byte(s)) }, false},
	{"URL encoding", func(s string) string { return url.QueryEscape(s) }, false},
	{"HTML entities", entities, false},
}

// TestRefusedValuesAreRecognised refuses 50 texts of the corpora, and writes each again in 20 variants. At least 950 of
// the 1,000 variants must be recognized, and at most one of 500 benign texts may be.
func TestRefusedValuesAreRecognised(t *testing.T) {
	if len(mutations) != 20 {
		t.Fatalf("%d mutations", len(mutations))
	}
	var refused []string
	lines := append(corpora(t, "memory_small_sets.jsonl"), corpora(t, "attack_*.jsonl")...)
	sets := map[string]int{}
	for _, l := range lines {
		s := l.Content
		if x, ok := l.Meta.Injected.(string); ok && x != "" {
			s = x
		}
		// Take only short texts, because a long one is a document that contains a value. Take at most ten from each
		// data set.
		if l.Label != "attack" || sets[l.Dataset] == 10 || len(s) > 2000 || len(strings.Fields(s)) < shortPrint ||
			slices.Contains(refused, s) {
			continue
		}
		sets[l.Dataset]++
		refused = append(refused, s)
	}
	refused = refused[:min(len(refused), 50)]
	if len(refused) != 50 {
		t.Fatalf("%d texts, of %v", len(refused), sets)
	}
	h := newHouse(t, offline(t))
	for i, s := range refused {
		m := h.write(beliefs.OriginWeb, &streams.Memory{Head: streams.Head{ID: fmt.Sprint("m", i), Session: "s"}, Key: "k",
			Content: s})
		h.verdict(m, streams.Deny)
	}
	total := 0
	for _, mu := range mutations {
		n, exact := 0, 0
		for i, s := range refused {
			agent, again := "agent", &streams.Memory{Head: streams.Head{ID: fmt.Sprint("n", i), Session: "s"}, Key: "k",
				Content: mu.of(s)}
			if mu.elsewhere {
				agent, again.Key, again.Session = "other", "another", "elsewhere"
			}
			m, err := h.probe(agent, again)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case m.Tombstone == nil:
				if testing.Verbose() {
					t.Logf("%s: not recognised: text %d of %d words", mu.name, i, len(strings.Fields(s)))
				}
				continue
			case m.Tombstone.Exact:
				exact++
			}
			n++
			if m.Tombstone.Why != buriedDenied || m.Tombstone.Event == "" || m.Tombstone.Belief == "" ||
				m.Tombstone.At.IsZero() {
				t.Fatalf("%s: the match does not name the refusal: %+v", mu.name, m.Tombstone)
			}
		}
		total += n
		t.Logf("%-31s %d of %d, %d of them exactly", mu.name, n, len(refused), exact)
	}
	t.Logf("recognised: %d of %d", total, len(mutations)*len(refused))
	if total < 950 {
		t.Errorf("%d of 1000 mutations are recognised, want 950", total)
	}
	// Harmless texts.
	benign := slices.DeleteFunc(append(corpora(t, "benign_*.jsonl"), corpora(t, "memory_small_sets.jsonl")...),
		func(l corpusLine) bool { return l.Label != "benign" })
	if testing.Short() {
		benign = everyNth(benign, 10)
	}
	wrong := 0
	for _, l := range benign {
		ft := text.Analyze(l.Content)
		m, err := h.f.recognise(h.st, "demo", &ft)
		if err != nil {
			t.Fatal(err)
		}
		if m != nil {
			if wrong++; testing.Verbose() {
				t.Logf("false match: %s, %+v", l.ID, m)
			}
		}
	}
	t.Logf("false matches: %d of %d benign texts", wrong, len(benign))
	if wrong > len(benign)/500 {
		t.Errorf("%d of %d benign texts are taken for a refused one", wrong, len(benign))
	}
}
