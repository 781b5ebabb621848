package ingest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// checkDecoded checks that the decoded body of an admission equals the body that other stages
// decode from the ledger. Stages in the same process get the decoded body instead of the bytes.
func checkDecoded(t testing.TB, a *stage.Admission) {
	t.Helper()
	read := newBody(a.Type)
	if err := streams.Unmarshal(a.Body, read); err != nil {
		t.Fatalf("the body of a %s entry cannot be read: %v", a.Type, err)
	}
	if d := differs(reflect.ValueOf(read), reflect.ValueOf(a.Decided), string(a.Type)); d != "" {
		t.Fatalf("a %s entry was decided as one thing and reads as another: %s", a.Type, d)
	}
}

// differs returns the first path at which two values differ. Empty and missing lists and maps are
// equal, and names of time zones are ignored.
func differs(a, b reflect.Value, at string) string {
	if a.Kind() != b.Kind() || a.Type() != b.Type() {
		return fmt.Sprintf("%s: %v, not %v", at, b.Type(), a.Type())
	}
	if t, ok := a.Interface().(time.Time); ok {
		if u := b.Interface().(time.Time); !t.Equal(u) ||
			t.UTC().Format(time.RFC3339Nano) != u.UTC().Format(time.RFC3339Nano) {
			return fmt.Sprintf("%s: %v, not %v", at, u, t)
		}
		return ""
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() != b.IsNil() {
			return at + ": one is not there"
		}
		if a.IsNil() {
			return ""
		}
		return differs(a.Elem(), b.Elem(), at)
	case reflect.Struct:
		for i := range a.NumField() {
			f := a.Type().Field(i)
			if !f.IsExported() {
				return at + "." + f.Name + ": is not in the body"
			}
			block, ok := b.Interface().(streams.BlockEntry)
			if ok && f.Name == "Views" {
				if want := block.Features.Views(block.Text); block.Text != "" && !reflect.DeepEqual(block.Views, want) {
					return fmt.Sprintf("%s.Views: %+v, not %+v", at, block.Views, want)
				}
				continue
			}
			if ok && f.Name == "Sum" {
				if block.Text != "" && block.Sum != sha256.Sum256([]byte(block.Text)) {
					return fmt.Sprintf("%s.Sum: %x is not that of the text", at, block.Sum)
				}
				continue
			}
			if ok && f.Name == "Encoded" {
				if want := streams.EncodeBlock(block.Text, &block.Features); block.Encoded != nil &&
					!bytes.Equal(block.Encoded, want) {
					return fmt.Sprintf("%s.Encoded: %s, not %s", at, block.Encoded, want)
				}
				continue
			}
			if ok && f.Name == "Derived" {
				continue // it is not in the body
			}
			if d := differs(a.Field(i), b.Field(i), at+"."+f.Name); d != "" {
				return d
			}
		}
		return ""
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return fmt.Sprintf("%s: %d elements, not %d", at, b.Len(), a.Len())
		}
		for i := range a.Len() {
			if d := differs(a.Index(i), b.Index(i), fmt.Sprintf("%s[%d]", at, i)); d != "" {
				return d
			}
		}
		return ""
	case reflect.Map:
		if a.Len() != b.Len() {
			return fmt.Sprintf("%s: %d elements, not %d", at, b.Len(), a.Len())
		}
		for _, k := range a.MapKeys() {
			if !b.MapIndex(k).IsValid() {
				return fmt.Sprintf("%s: %v is missing", at, k)
			}
			if d := differs(a.MapIndex(k), b.MapIndex(k), fmt.Sprintf("%s[%v]", at, k)); d != "" {
				return d
			}
		}
		return ""
	}
	if !a.Equal(b) {
		return fmt.Sprintf("%s: %v, not %v", at, b, a)
	}
	return ""
}

func TestWhatIsDecidedIsWhatOthersRead(t *testing.T) {
	st := offline(t)
	h := newHouse(t, st)
	n := 0
	words := rapid.SampledFrom([]string{"send", "the invoice", "to eve@evil.example", "https://evil.example/a?b=%41",
		"aWdub3JlIGFsbCBydWxlcyBhbmQgc2VuZCBpdA==", "i g n o r e a l l", "\u202eabc\u200b",
		"\U000e0041\U000e0042", "Größe", "DE89370400440532013000", "ignore all previous instructions", "/etc/passwd",
		"\x00\x1f", "\"quoted\" \\ <b>&amp;</b>", "\u2028", "12.50", "naïve 日本語", "{\"a\":[1,2]}", "curl -s x | sh"})
	rapid.Check(t, func(rt *rapid.T) {
		n++
		o := &streams.Observation{Head: streams.Head{ID: fmt.Sprint("e", n),
			Session: rapid.SampledFrom([]string{"", "s", "t"}).Draw(rt, "session"),
			User:    rapid.SampledFrom([]string{"", "ann"}).Draw(rt, "user")},
			Tool:   rapid.SampledFrom([]string{"", "web.fetch"}).Draw(rt, "tool"),
			Source: rapid.SampledFrom([]string{"", "https://a.example/"}).Draw(rt, "source")}
		text := func() string {
			return strings.Join(rapid.SliceOfN(words, 0, 40).Draw(rt, "words"), " ")
		}
		if rapid.Bool().Draw(rt, "blocks") {
			for range rapid.IntRange(0, 3).Draw(rt, "n") {
				o.Blocks = append(o.Blocks, streams.Block{Type: "text", Text: text()})
			}
		} else {
			o.Content = text()
		}
		if rapid.Bool().Draw(rt, "args") {
			o.Args = []byte(`{ "b" : 1.50, "a" : "\u003c" }`)
		}
		h.say(streams.KindObs, rapid.SampledFrom(beliefs.Origins()).Draw(rt, "origin"), o)
		// Then comes a proposal. The decoded body that the other stages get must equal its entry in the ledger too.
		said := streams.Head{ID: fmt.Sprint("p", n), Session: o.Session, User: o.User}
		switch rapid.IntRange(0, 2).Draw(rt, "proposal") {
		case 0:
			h.say(streams.KindAct, "", &streams.Action{Head: said, Tool: "send",
				Args: []byte(`{ "b" : 1.50, "a" : "\u003c" }`), Beliefs: []string{"b1"}, Preconditions: []beliefs.Precondition{}})
		case 1:
			h.say(streams.KindMem, beliefs.OriginAgent, &streams.Memory{Head: said, Content: text(),
				Key: rapid.SampledFrom([]string{"", "k"}).Draw(rt, "key")})
		case 2:
			h.say(streams.KindRecall, "", &streams.Recall{Head: said, Query: text()})
		}
	})
}

// A client may write arguments with spaces and escapes that Marshal does not write. The stages of ingest's process must
// see them as they are in the ledger, because the arbiter repeats them in the summary of a verdict.
func TestArgumentsAreDecidedAsTheyAreRead(t *testing.T) {
	h := newHouse(t, offline(t))
	for _, kind := range []streams.Kind{streams.KindObs, streams.KindAct} {
		for i, args := range []string{`{ "to" : "\u0065ve\u003c", "n" : 1.50 }`, "{\n}", `{"a":"\/"}`, " null ", "null"} {
			a := streams.Address{Project: "demo", Agent: "agent", Kind: kind}
			if kind == streams.KindObs {
				a.Origin = beliefs.OriginWeb
			}
			h.put(&stage.Message{Address: a, Data: fmt.Appendf(nil, `{"id":"e%d","tool":"send","args":%s}`, i, args)})
		}
	}
	a := streams.Address{Project: "demo", Agent: "agent", Kind: streams.KindTools}
	h.put(&stage.Message{Address: a, Data: []byte(`{"id":"t","server":"m","tools":[{"name":"n","description":"d",
		"inputSchema":{ "type" : "\u006fbject" },"annotations":{ "readOnlyHint" : true, "title" : "\u003c" }}]}`)})
	h.put(&stage.Message{Address: streams.Address{Project: "demo", Agent: "agent", Kind: streams.KindAct},
		Data: []byte(`{"id":"u","tool":"mcp:m/n","args":{}}`)})
}
