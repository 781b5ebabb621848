package client

import (
	"testing"

	"lazaret/internal/fuzztest"
	"lazaret/streams"
)

// FuzzReply checks that every answer is a verdict or counts as hold. Only an answer with the
// verdict allow allows.
func FuzzReply(f *testing.F) {
	for _, s := range []string{`{"verdict":"allow","seq":3,"entry":{"verdict":"allow","reasons":[]}}`,
		`{"verdict":"hold","entry":{"hold":{"id":"h","state":"open"}}}`, `{"error":{"code":"LZ601","message":"m"}}`, `{}`,
		`null`, `{"verdict":null,"entry":{}}`, `{"entry":{"verdict":"deny"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bounded(t, len(b), func() {
			rep, err := readReply(b)
			if VerdictOf(rep, err) != streams.Allow {
				return
			}
			Open(rep)
			var said struct {
				Verdict string `json:"verdict"`
			}
			if streams.Unmarshal(b, &said) != nil || said.Verdict != "allow" {
				t.Fatalf("%q allows", b)
			}
		})
	})
}
