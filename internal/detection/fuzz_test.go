package detection

import (
	"testing"

	"lazaret/internal/fuzztest"
)

// FuzzParse parses lines of a labeled corpus, which are untrusted.
func FuzzParse(f *testing.F) {
	fuzztest.AddLabeled(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		fuzztest.Bounded(t, len(line), func() {
			if c, err := parse("f.jsonl", line); (c == nil) == (err == nil) {
				t.Fatalf("%v, %v", c, err)
			}
		})
	})
}
