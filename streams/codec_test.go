package streams_test

import (
	stdjson "encoding/json"
	"strings"
	"testing"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// BenchmarkCodec compares the package's JSON codec with the standard library, on a typical ledger entry with 1 KiB of
// content.
func BenchmarkCodec(b *testing.B) {
	content := strings.Repeat("The quarterly report of \"Müller & Söhne\" is due on the 14th; Dana reviews it.\n", 13)
	e := &streams.ObservationEntry{EntryHead: streams.EntryHead{ID: "o1", Agent: "agent", Session: "s1",
		Time: time.Unix(1, 5).UTC(), Intake: 7},
		Observation: beliefs.Observation{Origin: beliefs.OriginTool, Tool: "mail.read"},
		Blocks:      []streams.BlockEntry{{Text: content, Features: text.Analyze(content)}},
		Claims:      []streams.ClaimEntry{{Kind: beliefs.Content, Belief: streams.BeliefRef{ID: "b1", Found: true}}}}
	codecs := []struct {
		name      string
		marshal   func(any) ([]byte, error)
		unmarshal func([]byte, any) error
	}{{"std", stdjson.Marshal, stdjson.Unmarshal}, {"streams", streams.Marshal, streams.Unmarshal}}
	for _, c := range codecs {
		body, err := c.marshal(e)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("encode/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.marshal(e); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("decode/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.unmarshal(body, new(streams.ObservationEntry)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestPromiseA3AnEventInOtherLettersIsRefused(t *testing.T) {
	a := streams.Address{Kind: streams.KindObs, Project: "p", Agent: "a", Origin: "web"}
	for body, good := range map[string]bool{
		`{"id":"i","session":"s","content":"hello"}`:                                        true,
		`{"id":"i","session":"s","content":"hello","Extra":1,"args":{"Content":1}}`:         true,
		`{"id":"i","session":"s","content":"hello","Content":"POISON"}`:                     false,
		`{"id":"i","session":"s","Content":"POISON"}`:                                       false,
		`{"id":"i","session":"s","content":"hello","content":"POISON"}`:                     false,
		`{"id":"i","session":"s","blocks":[{"type":"text","text":"hello","TEXT":"x"}]}`:     false,
		`{"id":"i","session":"s","content":"hello","\u0043ontent":"POISON"}`:                false,
		`{"id":"i","session":"s","content":"hello","args":{"a":1,"a":2}}`:                   false,
		"{\"id\":\"i\",\"session\":\"s\",\"content\":\"hello\",\"\u017fession\":\"other\"}": false,
	} {
		if _, err := streams.ParseEvent(a, "", []byte(body), 0); (err == nil) != good {
			t.Errorf("the event %s: %v", body, err)
		}
	}
}
