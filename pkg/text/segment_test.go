package text

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// writings are the notations in which a text may reach a model. Each writes the same text.
var writings = []struct {
	name  string
	write func(text string) string
}{
	{"json", func(s string) string { return asJSON(map[string]any{"x": s}) }},
	{"json among others", func(s string) string {
		return asJSON(map[string]any{"a": "Place of interest.", "n": 12, "list": []any{true, s, "end"}})
	}},
	{"indented json", func(s string) string {
		b, _ := json.MarshalIndent(map[string]any{"name": "n", "x": s}, "", "  ")
		return string(b)
	}},
	{"nested json", func(s string) string { return asJSON(map[string]string{"x": asJSON(map[string]string{"y": s})}) }},
	{"json in json in json", func(s string) string { return asJSON([]string{asJSON([]string{asJSON([]string{s})})}) }},
	{"ascii json", func(s string) string {
		var b strings.Builder
		for _, r := range s {
			if r > 0xffff {
				b.WriteRune(r)
			} else {
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		}
		return `{"x":"` + b.String() + `"}`
	}},
	{"json lines", func(s string) string {
		return asJSON(map[string]string{"x": "first"}) + "\n" + asJSON(map[string]string{"x": s})
	}},
	{"json after words", func(s string) string { return "The result is: " + asJSON(map[string]string{"x": s}) }},
	{"json cut off", func(s string) string { return strings.TrimSuffix(asJSON(map[string]string{"x": s}), `"}`) }},
	{"python", func(s string) string {
		return `{'id': 3, 'x': '` + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t",
			`\t`).Replace(s) + `'}`
	}},
	{"yaml, quoted", func(s string) string { return "id: 3\nx: " + asJSON(s) + "\nz: 1\n" }},
	{"yaml, single quotes", func(s string) string {
		return "id: 3\nx: '" + strings.ReplaceAll(s, "'", "''") + "'\nz: 1\n"
	}},
	{"yaml, item", func(s string) string { return "list:\n  - " + asJSON(s) + "\n  - b\n" }},
	{"html", func(s string) string { return "<p>Place.</p><div>" + html.EscapeString(s) + "</div>" }},
	{"escaped html", func(s string) string { return html.EscapeString(s) }},
	{"html in json", func(s string) string {
		return asJSON(map[string]string{"x": "<p>" + html.EscapeString(s) + "</p>"})
	}},
	{"xml", func(s string) string { return "<?xml version=\"1.0\"?><a><b>1</b><c><![CDATA[" + s + "]]></c></a>" }},
	{"comment", func(s string) string { return "<p>Hello</p><!-- " + s + " -->" }},
	{"csv", func(s string) string {
		var b strings.Builder
		w := csv.NewWriter(&b)
		w.WriteAll([][]string{{"id", "note", "by"}, {"1", s, "bob"}, {"2", "fine", "eve"}})
		return b.String()
	}},
	{"tsv", func(s string) string {
		return "id\tnote\tby\n1\t" + strings.NewReplacer("\n", " ", "\t", " ", "\r", " ").Replace(s) + "\tbob\n"
	}},
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func holdsSegment(segs []Segment, want string) bool {
	want = Normalize(want)
	for _, s := range segs {
		if strings.Contains(Normalize(s.Text), want) {
			return true
		}
	}
	return false
}

func TestPromiseA4EveryNotationGivesItsTextBack(t *testing.T) {
	words := rapid.SampledFrom([]string{"Delete", "the file", "place.", "\n", "\r\n", "\t", " ", "don't", `"quoted"`,
		"- item", "a, b", "AT&T", "naïve", "日本語", "–", "x=1", "(why)", "100%", "C++"})
	rapid.Check(t, func(t *rapid.T) {
		s := strings.TrimSpace(strings.Join(rapid.SliceOfN(words, 1, 12).Draw(t, "words"), " "))
		for _, w := range writings {
			if s == "" || strings.HasPrefix(w.name, "yaml, single") && strings.ContainsAny(s, "\r\n") {
				continue // line folding is not escaping
			}
			written := w.write(s)
			for _, part := range Segments(s) {
				if !holdsSegment(Segments(written), part.Text) {
					t.Fatalf("%s: %q is not in %+v, cut from %q", w.name, part.Text, Segments(written), written)
				}
			}
		}
	})
}

func TestSegmentsKeepKeysAndRecordsApart(t *testing.T) {
	segs := Segments(`[{"name":"A","note":"one two"},{"name":"B","note":"three\nfour","IMPORTANT: read this":1}]`)
	var got []string
	for _, s := range segs {
		got = append(got, fmt.Sprintf("%d %s=%q", s.Record-segs[0].Record, s.Key, s.Text))
	}
	want := []string{`0 name="A"`, `0 note="one two"`, `2 name="B"`, `2 note="three\nfour"`, `2 ="IMPORTANT: read this"`}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestTextWithoutNotationIsOneSegment(t *testing.T) {
	for _, s := range []string{english, "He said: it's done, isn't it?",
		"mail <bob@example.com> or <https://example.com/a>", `C:\new\temp\readme.txt`, "if a < b and c > d",
		"one, two and three\nfour, five", unicodeText} {
		if segs := Segments(s); len(segs) != 1 || Normalize(segs[0].Text) != Normalize(s) {
			t.Errorf("%.60q: %+v", s, segs)
		}
	}
}

func TestSegmentsAreBoundedInTimeAndLeaveNothingOut(t *testing.T) {
	const size = 1 << 20
	for _, unit := range []string{`"`, `:"`, `,"a`, `,""b`, `:'\'`, `-"`, "- \"\n", `{"a":"`, `[["`, `\n`, `\"`, "<a ",
		"<a b=\"", "<!--", "&lt;", "&amp;lt;", "a,b\n", "|\n", `{"a":"b\n"},`, "<p>x</p>", "x\n", "'\n", `"x",`, "aTheb!",
		"aThe.Bb ", "a-the-b", "x.Ab", "a.The"} {
		s := strings.Repeat(unit, size/len(unit))
		Segments(s)
		f := Analyze(s)
		n := 0
		for _, v := range f.Views(s) {
			n += len(v.Text) + len(v.Lines)
		}
		if n > 6*size+1<<20 {
			t.Errorf("%q: %d bytes of views and lines", unit, n)
		}
	}
	var b strings.Builder
	for i := range 3 * maxSegments {
		fmt.Fprintf(&b, `{"a":"word%d"},`, i)
	}
	if segs := Segments(b.String()); !holdsSegment(segs, fmt.Sprintf("word%d", 3*maxSegments-1)) ||
		len(segs) > maxSegments+1 {
		t.Errorf("the last of many strings is not in %d segments", len(segs))
	}
}

func TestLinesBeginWhereAClauseMay(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{"A place.\nDelete the file", "a place.\ndelete the file"},
		{"A place\r\n\r\n- Delete the file", "a place\ndelete the file"},
		{"this sentence is long enough to have been wrapped\nand goes on",
			"this sentence is long enough to have been wrapped and goes on"},
		{"short\nand on", "short\nand on"},
		{"name\tDelete it", "name\ndelete it"},
		{"so — delete it", "so \n delete it"},
		{"1. Delete it\n2) Keep it\n> Quote", "delete it\nkeep it\nquote"},
		{`{"a":"x\ny","b":"z"}`, "x\ny\x1fz"},
		{`[{"a":"x"},{"a":"y"}]`, "x\x1ey"},
		{"nothing here", "nothing here"},
	} {
		if got := Analyze(c.content).Views(c.content)[0].Lines; got != c.want {
			t.Errorf("%q: %q, not %q", c.content, got, c.want)
		}
	}
}

func FuzzSegments(f *testing.F) {
	for _, w := range writings {
		f.Add(w.write("A place.\nDelete \"the\" file, don't wait"))
	}
	f.Fuzz(func(t *testing.T, s string) {
		total := 0
		for _, seg := range Segments(s) {
			total += len(seg.Text)
			if strings.TrimSpace(seg.Text) != seg.Text && strings.ToValidUTF8(s, "") == s {
				t.Fatalf("%q is not trimmed", seg.Text)
			}
		}
		if total > 40*len(s)+64 {
			t.Fatalf("%d bytes of segments from %d", total, len(s))
		}
	})
}
