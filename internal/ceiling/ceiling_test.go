package ceiling

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lazaret/pkg/beliefs"
)

const pin = "the vault code of the north door is blue heron seven"

// ledger is a short history: a memory that is marked secret, and entries that follow from it.
var ledger = []Entry{
	{Project: "p", Seq: 1, Ingest: true, Body: []byte(`{"id":"o1","origin":"user","blocks":[{"text":"` + pin +
		`"}],"claims":[{"belief":{"id":"b0"}}]}`)},
	{Project: "p", Seq: 2, Ingest: true,
		Body: []byte(`{"id":"m1","content":"` + pin + `","belief":{"id":"b1","sensitivity":"secret"}}`)},
	{Project: "p", Seq: 3, Src: 2, Body: []byte(`{"group":"core","alerts":[{"message":"it names blue heron"}]}`)},
	{Project: "p", Seq: 4, Src: 3,
		Body: []byte(`{"proposal":2,"id":"m1","summary":"the vault code of…","verdict":"allow"}`)},
	{Project: "p", Seq: 5, Ingest: true,
		Body: []byte(`{"id":"m2","content":"seven birds open it","parents":[{"id":"m1"}],"belief":{"id":"b2"}}`)},
	{Project: "p", Seq: 6, Ingest: true,
		Body: []byte(`{"id":"a1","tool":"send","args":{"body":"` + base64.StdEncoding.EncodeToString([]byte(pin)) +
			`"},"level":"L4"}`)},
	{Project: "p", Seq: 7, Ingest: true,
		Body: []byte(`{"id":"a2","tool":"send","args":{"body":"seven birds open it"},"level":"L4"}`)},
	{Project: "p", Seq: 8, Ingest: true,
		Body: []byte(`{"id":"a3","tool":"read","args":{"path":"notes.txt"},"level":"L1"}`)},
	{Project: "p", Seq: 9, Ingest: true,
		Body: []byte(`{"id":"r1","query":"door","admitted":[{"id":"b9","content":"a list"}],"refused":[{"id":"b1","reason":"sensitivity"}]}`)},
	{Project: "p", Seq: 10, Ingest: true,
		Body: []byte(`{"id":"r2","admitted":[{"id":"b1","sensitivity":"secret","content":"…"}]}`)},
	{Project: "p", Seq: 11, Ingest: true,
		Body: []byte(`{"id":"x","code":"LZ103","raw":"` +
			base64.StdEncoding.EncodeToString([]byte(`{"content":"y","sensitivity":"secret",`)) + `"}`)},
	{Project: "q", Seq: 12, Ingest: true, Body: []byte(`{"id":"a1","tool":"send","args":{"body":"` + pin + `"}}`)},
	{Project: "p", Seq: 13, Ingest: true,
		Body: []byte(`{"id":"m4","content":"pin 4711","belief":{"id":"b4","sensitivity":"confidential"}}`)},
	{Project: "p", Seq: 14, Ingest: true,
		Body: []byte(`{"id":"a5","tool":"send","args":{"body":"Use PIN 4711, please"}}`)},
	{Project: "p", Seq: 15, Ingest: true, Body: []byte(`{"id":"o3","status":"ok","action":"a1"}`)},
	{Project: "p", Seq: 16, Ingest: true,
		Body: []byte(`{"id":"m5","content":"tea","belief":{"id":"b5","sensitivity":"public"}}`)},
	{Project: "p", Seq: 17, Src: 8, // a verdict on what another agent observed
		Body: []byte(`{"verdict":"hold","reasons":[{"path":["action:a6","observation:other/o3"]}]}`)},
}

func TestALabelGoesWhereTheContentGoes(t *testing.T) {
	i, c, s := beliefs.Internal, beliefs.Confidential, beliefs.Secret
	// want has two labels for each entry: the one when the entry is scanned, and the one at the end.
	want := map[uint64][2]beliefs.Sensitivity{1: {i, s}, 2: {s, s}, 3: {s, s}, 4: {s, s}, 5: {s, s}, 6: {s, s},
		7: {s, s}, 8: {i, i}, 9: {i, i}, 10: {s, s}, 11: {s, s}, 12: {i, i},
		13: {c, c}, 14: {c, c}, 15: {s, s}, 16: {i, i}, 17: {s, s}}
	var l Labels
	for _, e := range ledger {
		if got := l.Scan(e); got != want[e.Seq][0] {
			t.Errorf("entry %d is scanned as %s, want %s: %s", e.Seq, got, want[e.Seq][0], e.Body)
		}
	}
	for _, e := range ledger {
		if got := l.Of(e); got != want[e.Seq][1] {
			t.Errorf("at the end, entry %d is %s, want %s: %s", e.Seq, got, want[e.Seq][1], e.Body)
		}
	}
	if got := l.Text("p", "she said: The vault code of the north door is BLUE heron seven!"); got != s {
		t.Errorf("a text with the secret is %s", got)
	}
}

// No body causes a panic, and a body that contains marked content is labeled.
func TestEveryBodyHasALabel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Labels
		for _, e := range ledger[:2] {
			l.Scan(e)
		}
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		e := Entry{Project: "p", Seq: 20, Ingest: true, Body: body}
		l.Scan(e)
		e.Seq, e.Body = 21, append([]byte(pin+" "), body...)
		if got := l.Of(e); got != beliefs.Secret {
			t.Fatalf("an entry with the marked words is %s", got)
		}
	})
}

// A sender chooses what args and the raw bytes of a rejected message contain. A sensitivity in them labels the
// entry and nothing else.
func TestArgumentsAndRejectedMessagesMarkNothingElse(t *testing.T) {
	inner := `[{"content":"four words of tea","id":"m9","sensitivity":"secret"}]`
	for name, body := range map[string]string{
		"args": `{"id":"a","tool":"send","args":{"x":` + inner + `}}`,
		"raw":  `{"id":"a","code":"LZ103","raw":"` + base64.StdEncoding.EncodeToString([]byte(inner)) + `"}`,
	} {
		var l Labels
		if got := l.Scan(Entry{Project: "p", Seq: 1, Ingest: true, Body: []byte(body)}); got != beliefs.Secret {
			t.Errorf("%s: the entry itself is %s", name, got)
		}
		if got := l.Text("p", "here are four words of tea, m9"); got != beliefs.Internal {
			t.Errorf("%s: a text that shares the words is %s", name, got)
		}
	}
}

// The marks of a project are bounded. Beyond a bound every text of the project has the highest label.
func TestTheMarksOfAProjectAreBounded(t *testing.T) {
	for name, content := range map[string]func(i int) string{
		"few words": func(i int) string { return fmt.Sprintf("word%d", i) },
		"phrases": func(i int) string {
			return fmt.Sprintf("a%d b%d c%d d%d e%d f%d g%d h%d i%d j%d k%d l%d", i, i, i, i, i, i, i, i, i, i, i, i)
		},
		"the same phrase": func(i int) string {
			return fmt.Sprintf("the vault of the north door has this code and no other: a%d b%d c%d d%d e%d", i, i, i, i, i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l Labels
			l.Scan(Entry{Project: "q", Seq: 1, Ingest: true, Body: ledger[1].Body})
			for i := range maxTexts + maxTexts/8 {
				l.Scan(Entry{Project: "p", Seq: uint64(i + 2), Ingest: true, Body: fmt.Appendf(nil,
					`{"id":"e%d","content":"%s","belief":{"id":"b%d","sensitivity":"secret"}}`, i, content(i), i)})
			}
			m := l.projects["p"]
			words := 0
			for _, p := range m.words {
				words += len(p.sorted)
			}
			if words > maxWords+1 || len(m.texts) > maxTexts || m.listed > maxPhrases || len(m.names) > maxNames {
				t.Errorf("words %d, texts %d, phrases %d, names %d", words, len(m.texts), m.listed, len(m.names))
			}
			for h, at := range m.phrases {
				if len(at) > maxSharing {
					t.Fatalf("phrase %d has %d texts", h, len(at))
				}
			}
			if got := l.Text("p", content(maxTexts+maxTexts/16)); got != beliefs.Secret {
				t.Errorf("a content beyond the bound is %s", got)
			}
			if got := l.Text("q", "another project"); got != beliefs.Internal {
				t.Errorf("a text of another project is %s", got)
			}
		})
	}
}

// A project keeps a maximum number of labels of entries and drops the oldest. An entry that refers by position or id to
// an entry whose label was dropped must still get a label, and so must a text that quotes it. For that, unrelated
// entries get a label too. With Whole, no label is dropped, and unrelated entries get none.
func TestAnEntryWhoseLabelIsDroppedStaysLabeled(t *testing.T) {
	for _, whole := range []bool{false, true} {
		l := Labels{Whole: whole}
		l.Scan(Entry{Project: "p", Seq: 2, Ingest: true,
			Body: []byte(`{"id":"a0","tool":"send","args":{"x":{"sensitivity":"confidential"}}}`)})
		m := l.projects["p"]
		for i := range uint64(2*maxRecent + 1) {
			m.seqs.put(i+3, beliefs.Confidential)
			m.recent.put(fmt.Sprint("a", i+1), beliefs.Confidential)
		}
		if n := len(m.seqs.now) + len(m.seqs.before) + len(m.recent.now) + len(m.recent.before); (n > 4*maxRecent) != whole {
			t.Errorf("whole %v: %d labels", whole, n)
		}
		for name, got := range map[string]beliefs.Sensitivity{
			"an assessment": l.Of(Entry{Project: "p", Seq: 1 << 30, Src: 2, Body: []byte(`{"alerts":[{"message":"x"}]}`)}),
			"a reference":   l.Of(Entry{Project: "p", Seq: 1 << 30, Ingest: true, Body: []byte(`{"action":"a0"}`)}),
			"an alert":      l.Text("p", "x", 2),
		} {
			if got != beliefs.Confidential {
				t.Errorf("whole %v: %s of the first entry is %s", whole, name, got)
			}
		}
		later, other := beliefs.Confidential, beliefs.Internal
		if whole {
			later = beliefs.Internal
		}
		if got := l.Text("p", "x", 1<<30); got != later {
			t.Errorf("whole %v: a later text is %s", whole, got)
		}
		if got := l.Text("q", "x", 2); got != other {
			t.Errorf("whole %v: a text of another project is %s", whole, got)
		}
	}
}

// prefixes.in must report the same as a search of the text for each string of the set.
func TestASetOfStringsFindsWhatASearchForEachFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p prefixes
		words := rapid.SliceOf(rapid.StringMatching(`[ab]{5,9}`)).Draw(t, "words")
		s := rapid.StringMatching(`[ab]{0,40}`).Draw(t, "text")
		want := false
		for _, w := range words {
			p.add(w)
			want = want || strings.Contains(s, w)
		}
		if got := p.in(s); got != want {
			t.Fatalf("found: %t, want %t; the set is %q", got, want, p.sorted)
		}
	})
}

func shortMemories(n int) (out []Entry) {
	for i := range n {
		out = append(out, Entry{Project: "p", Seq: uint64(i + 1), Ingest: true, Body: fmt.Appendf(nil,
			`{"id":"e%d","content":"pin %d","belief":{"id":"b%d","sensitivity":"secret"}}`, i, i, i)})
	}
	return out
}

func BenchmarkScan(b *testing.B) {
	body := []byte(`{"id":"o","origin":"web","blocks":[{"text":"` +
		strings.Repeat("some words of a page about kettles and tea ", 24) + `"}],"claims":[{"belief":{"id":"b"}}]}`)
	for name, first := range map[string][]Entry{"nothing is marked": nil, "something is": ledger[:2],
		"10,000 short memories are": shortMemories(10_000)} {
		b.Run(name, func(b *testing.B) {
			var l Labels
			for _, e := range first {
				l.Scan(e)
			}
			for b.Loop() {
				l.Scan(Entry{Project: "p", Seq: 9, Ingest: true, Body: body})
			}
		})
	}
}
