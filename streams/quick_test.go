package streams

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"lazaret/internal/fuzztest"
)

// mutate changes some bytes of a document, or exchanges parts of it.
func mutate(r *rand.Rand, doc string) string {
	b := []byte(doc)
	const bytes = "\"\\{}[]:, \n\x00\x1f\x7f\x80\xc3\xa9u0129eE.-tfnaA_"
	for range r.IntN(3) {
		if len(b) == 0 {
			break
		}
		switch i := r.IntN(len(b)); r.IntN(3) {
		case 0:
			b[i] = bytes[r.IntN(len(bytes))]
		case 1:
			b = append(b[:i:i], append([]byte{bytes[r.IntN(len(bytes))]}, b[i:]...)...)
		default:
			b = append(b[:i:i], b[min(len(b), i+1+r.IntN(4)):]...)
		}
	}
	return string(b)
}

// document returns JSON that clients may send.
func document(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	name := func() string {
		return pick("id", "session", "user", "data_subject", "tool", "call", "source", "content", "content", "x", "Tool",
			`\u0069d`, "args", "blocks", "time", "stream", "seq")
	}
	value := func() string {
		if r.IntN(4) > 0 {
			return pick(`"plain"`, `"Grüße 😀 aus Köln"`, `"a\nb\t\"c\" \\ \/"`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`,
				`""`, `"`+strings.Repeat("some words ", 9)+`"`, `"ends with a quote\\"`)
		}
		return pick("null", "true", "7", "0", "-1", "01", "1.5", "1e3", `[]`, `{}`, `["a", 7 ,{"b":[null]}]`, `{"a":1,"a":2}`,
			`{"a": {"b" : "\u0061"}}`, `[{"text":"t"}]`, "[[[[[[[[[[1]]]]]]]]]]", `"2026-01-02T03:04:05Z"`)
	}
	var b strings.Builder
	b.WriteString(pick("{", " {", "{ "))
	for i := range r.IntN(6) {
		if i > 0 {
			b.WriteString(pick(",", ", "))
		}
		b.WriteString(`"` + name() + `"` + pick(":", ": ", " :") + value())
	}
	return b.String() + pick("}", " }", "}\n", "} x")
}

// quickAgrees fails t if one of the quick readers accepts a document that the codec refuses or reads otherwise, or if
// it fails but changes its receiver. It returns how many observations and batches were read quickly.
func quickAgrees(t *testing.T, doc []byte) (observations, batches int) {
	t.Helper()
	var got, want Observation
	switch {
	case got.quick(doc):
		if err := UnmarshalExact(doc, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is read as\n%+v, want\n%+v, %v", doc, got, want, err)
		}
		observations++
	case !reflect.DeepEqual(got, want):
		t.Fatalf("%q is not read quickly, but changes the observation to %+v", doc, got)
	}
	events := quickBatch(doc)
	if events == nil {
		return observations, 0
	}
	if want, bad := slowBatch(doc); bad != nil || !reflect.DeepEqual(events, want) {
		t.Fatalf("%q is read as\n%+v, want\n%+v, %v", doc, events, want, bad)
	}
	for _, e := range events {
		n, _ := quickAgrees(t, e.Data)
		observations += n
	}
	return observations, 1
}

// Documents that the quick readers accept are read as by the codec.
func TestDocumentsAreReadTheSameInBothWays(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	observations, batches := 0, 0
	for range 200_000 {
		o, _ := quickAgrees(t, []byte(mutate(r, document(r))))
		observations += o
		var all []string
		for range 1 + r.IntN(3) {
			all = append(all, `{"specversion":"1.0","id":"`+string(rune('a'+r.IntN(26)))+`","source":"s","type":"t","data":`+
				document(r)+"}")
		}
		_, b := quickAgrees(t, []byte(mutate(r, "["+strings.Join(all, ",")+"]")))
		batches += b
	}
	if observations < 10_000 || batches < 10_000 {
		t.Errorf("only %d observations and %d batches are read quickly", observations, batches)
	}
	if got := quickBatch([]byte("[" + strings.Repeat(`{"specversion":"1.0","id":"a","data":1},`, MaxBatch) +
		`{"specversion":"1.0","id":"a","data":1}]`)); got != nil {
		t.Errorf("%d events in a batch", len(got))
	}
}

// quickSeeds returns documents in which a reader of JSON may differ from the codec.
func quickSeeds() (seeds []string) {
	fields := []string{"id", "session", "user", "data_subject", "tool", "call", "source", "content", "args", "time",
		"blocks", "specversion", "data", "datacontenttype", "data_base64"}
	values := []string{
		`"x"`, `""`, `null`, `true`, `0`, `-0`, `-1`, `1.5`, `1e3`, `01`, `123456789012345678901234567890`, `{}`, `[]`,
		`"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\u0000"`, `"\u00zz"`, `"\x"`, `"\"`, `"\\"`, `"\\\""`,
		`"\/\b\f\n\r\t"`,
		"\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\xc0\xaf\"", "\"\xf4\x90\x80\x80\"", "\"\xef\xbb\xbf\"", "\"\x00\"",
		"\"12345678\x1f\"", "\"\x1f12345678\"", "\"\x7f\u2028\"", "\"a\nb\"", "nul", "tru e", `"x`, `'x'`,
		strings.Repeat("[", 9) + strings.Repeat("]", 9), strings.Repeat("[", 7) + "1" + strings.Repeat("]", 7),
		strings.Repeat(`{"a":`, 9) + "1" + strings.Repeat("}", 9), `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`,
		`{"a":{"b":1,"b":1}}`, `[1,]`, `[,1]`, `{"a":1,}`, `{"a"}`, `{1:2}`, `[1 2]`, "1 2",
	}
	for _, f := range fields {
		for _, v := range values {
			seeds = append(seeds, `{"`+f+`":`+v+`}`, `[{"specversion":"1.0","id":"a","data":{"`+f+`":`+v+`}}]`)
		}
		element := ""
		for _, m := range [...]string{`"specversion":"1.0"`, `"id":"a"`, `"data":{"content":"x"}`} {
			if !strings.HasPrefix(m, `"`+f+`"`) {
				element += "," + m
			}
		}
		for _, v := range append(values, `"1.0"`, `"application/json"`, `"application/JSON"`, `"text/plain"`, `"eA=="`) {
			seeds = append(seeds, `[{"`+f+`":`+v+element+`}]`)
		}
		upper := strings.ToUpper(f[:1]) + f[1:]
		seeds = append(seeds, `{"`+f+`":"x","`+f+`":"x"}`, `{"`+f+`":"x","`+upper+`":"y"}`, `{"`+upper+`":"x"}`,
			`{"`+strings.Replace(f, "s", "\u017f", 1)+`":"x"}`, `{"\u00`+fmt.Sprintf("%x", f[0])+f[1:]+`":"x"}`,
			`{"`+f+"\xff"+`":"x"}`, `{"`+strings.ReplaceAll(f, "_", "")+`":"x"}`, `{"`+f+`" : "x" }`+"\r\n\t ",
			`{"`+f+`":"x"}x`, `{"`+f+`":"x"}{}`, `{"`+f+`":"x",}`, `{,"`+f+`":"x"}`, `{"`+f+`":"x"`,
			"\xef\xbb\xbf"+`{"`+f+`":"x"}`, "\f"+`{"`+f+`":"x"}`, "\u00a0"+`{"`+f+`":"x"}`)
	}
	many := ""
	for i := range quickNames + 1 {
		many += fmt.Sprintf(`,"n%d":0`, i)
	}
	return append(seeds, "", " ", "[]", "[ ]", "[{}]", "{}", "{ }", "null", "[null]",
		`[{"specversion":"1.0","id":"a","data":1}`, `[{"specversion":"1.0","id":"a","data":1}]]`,
		`[{"specversion":"1.0","id":"a","data":1},]`,
		`[{"specversion":"1.0","id":"a","data":1}{"specversion":"1.0","id":"b","data":1}]`,
		`[{"specversion":"1.0","id":"a","data":{`+many[1:]+`}}]`, `{"content":"x"`+many+`}`)
}

func FuzzQuick(f *testing.F) {
	for _, s := range quickSeeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		fuzztest.Bounded(t, len(doc), func() { quickAgrees(t, doc) })
	})
}

// The usual forms of clients are read quickly.
func TestTheUsualFormsAreReadQuickly(t *testing.T) {
	o := &Observation{Head: Head{Session: "s", User: "u"}, Tool: "web.search", Source: "https://x/", Content: "a\n\"ü\""}
	body, err := Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := new(Observation); !got.quick(body) || !reflect.DeepEqual(got, o) {
		t.Errorf("%s is read as %+v", body, got)
	}
	batch, err := MarshalBatch([]Event{o, &Observation{Head: Head{ID: "b"}, Args: []byte(`{"a":[1,{"b":"c"}]}`),
		Blocks: []Block{{Type: "text", Text: "t"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := quickBatch([]byte(strings.Replace(string(batch), `"id":""`, `"id":"a"`, 1))); len(got) != 2 {
		t.Errorf("%s is read as %+v", batch, got)
	}
}
