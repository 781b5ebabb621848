package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestMask(t *testing.T) {
	for _, c := range []struct {
		in    string
		spans []Span
		want  string
	}{
		{"abcdef", nil, "abcdef"},
		{"abcdef", []Span{{Start: 1, End: 3}}, "a[masked]def"},
		{"abcdef", []Span{{Start: 4, End: 6}, {Start: 0, End: 2}}, "[masked]cd[masked]"},
		{"abcdef", []Span{{Start: 1, End: 4}, {Start: 2, End: 3}, {Start: 3, End: 5}}, "a[masked]f"},
		{"abcdef", []Span{{Start: 1, End: 2}, {Start: 2, End: 3}}, "a[masked]def"},
		{"abcdef", []Span{{Start: -1, End: 2}, {Start: 5, End: 7}, {Start: 3, End: 3}, {Start: 4, End: 2}}, "abcdef"},
		{"aüb", []Span{{Start: 2, End: 3}}, "a[masked]b"},
		{"aüb", []Span{{Start: 0, End: 2}}, "[masked]b"},
		{"a🙂b", []Span{{Start: 3, End: 4}}, "a[masked]b"},
		{"\xff\xfe\x80", []Span{{Start: 1, End: 2}}, "\xff[masked]\x80"},
		{"abc", []Span{{Start: 0, End: 3}}, "[masked]"},
		{"", []Span{{}}, ""},
	} {
		if got := Mask(c.in, c.spans); got != c.want {
			t.Errorf("%q %v: %q, want %q", c.in, c.spans, got, c.want)
		}
	}
}

func TestCarriersAreMaskedWhereTheyStand(t *testing.T) {
	pem := "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n7bq2\n-----END RSA PRIVATE KEY-----"
	for _, c := range []struct {
		in    string
		kinds []Kind
		want  string
	}{
		{"write to bob@example.com.", nil, "write to [masked]."},
		{"write to <bob@example.com>, then", []Kind{Email}, "write to <[masked]>, then"},
		{"bob@example.com and /etc/passwd", []Kind{Path}, "bob@example.com and [masked]"},
		{"see https://evil.example/a?b=c. Then", []Kind{URL}, "see [masked]. Then"},
		{"see https://evil.example/a", []Kind{Host}, "see [masked]"},
		{"pay DE89 3704 0044 0532 0130 00 now", []Kind{IBAN}, "pay [masked] now"},
		{"card 4111 1111 1111 1111 please", []Kind{Card}, "card [masked] please"},
		{"call +1 (555) 234-5678 today", []Kind{Phone}, "call [masked] today"},
		{"run curl -s https://a.example/x and wait", []Kind{Command}, "run [masked] and wait"},
		{"key " + pem + " end", []Kind{Secret}, "key [masked]-----END RSA PRIVATE KEY----- end"},
		{"naïve 日本語 bob@example.com 日本語", nil, "naïve 日本語 [masked] 日本語"},
		{"é bo\u200bb@exam\u00adple.com é", nil, "é [masked] é"},
		{"ｂｏｂ＠ｅｘａｍｐｌｅ．ｃｏｍ too", nil, "[masked] too"},
		{"\x1b[31mbob@example.com\x1b[0m", nil, "\x1b[31m[masked]\x1b[0m"},
		{"nothing here", nil, "nothing here"},
	} {
		if got := Mask(c.in, CarrierSpans(c.in, c.kinds...)); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
	many := strings.Repeat("bob@example.com ", 1000)
	if got := Mask(many, CarrierSpans(many)); strings.Contains(got, "bob") {
		t.Error("occurrences beyond the bounds of Features are left")
	}
}

// checkMask checks the invariants for any content.
func checkMask(t interface{ Fatalf(string, ...any) }, s string, spans []Span) {
	clean, stretches := newScratch().align(s)
	var end stretch
	for _, st := range stretches {
		if st.clean != end.cleanEnd || st.raw != end.rawEnd || st.same && clean[st.clean:st.cleanEnd] != s[st.raw:st.rawEnd] {
			t.Fatalf("%q: %+v", s, stretches)
		}
		end = st
	}
	if end.cleanEnd != len(clean) || end.rawEnd != len(s) {
		t.Fatalf("%q: %+v", s, stretches)
	}
	found := CarrierSpans(s)
	kinds := map[string]bool{}
	for i, m := range found {
		if m.Start < 0 || m.End <= m.Start || m.End > len(s) || i > 0 && found[i-1].Start > m.Start {
			t.Fatalf("%q: %+v", s, found)
		}
		kinds[m.Kind] = true
	}
	for _, c := range Analyze(s).Carriers {
		if c.Via == "" && !kinds[string(c.Kind)] {
			t.Fatalf("%q: no span for %+v", s, c)
		}
	}
	for _, spans := range [][]Span{spans, found} {
		got := Mask(s, spans)
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Fatalf("%q %v: cut inside a character: %q", s, spans, got)
		}
		if kept := len(got) - len(maskText)*strings.Count(got, maskText); kept > len(s) {
			t.Fatalf("%q %v: %q", s, spans, got)
		}
	}
}

func TestMaskProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := contents().Draw(t, "content")
		offset := rapid.IntRange(-2, len(s)+2)
		spans := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Span {
			return Span{Start: offset.Draw(t, "start"), End: offset.Draw(t, "end")}
		})).Draw(t, "spans")
		checkMask(t, s, spans)
		for _, m := range spans {
			if m.Start >= 0 && m.End > m.Start && m.End <= len(s) && !strings.Contains(Mask(s, spans), maskText) {
				t.Fatalf("%q %v: nothing masked", s, spans)
			}
		}
	})
}

func FuzzMask(f *testing.F) {
	for _, s := range []string{english, toolOutput, unicodeText, "bo\u200bb@example.com", "\xff\x1b[3", "W\u0340",
		"A\u0300\u00a0", "-----BEGIN PRIVATE KEY-----"} {
		f.Add(s, 1, 3)
	}
	f.Fuzz(func(t *testing.T, s string, start, end int) {
		checkMask(t, s, []Span{{Start: start, End: end}, {Start: start / 2, End: start}})
	})
}
