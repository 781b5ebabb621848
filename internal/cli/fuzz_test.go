package cli_test

import (
	"testing"

	"lazaret/internal/cli"
	"lazaret/internal/fuzztest"
	"lazaret/streams"
)

// FuzzWhere checks that an expression that compiles gives true, false or an error, for an empty and a
// filled item. Expressions are untrusted: people copy them.
func FuzzWhere(f *testing.F) {
	for _, s := range []string{
		`severity == "high" && project == "acme"`, `len(observed_event_ids) > 3`, `message matches "(a+)+$"`,
		`repeat("x", 999999)`, `1..999999`,
		`map(1..9999, map(1..9999, #))`, `time > "2026"`, `all(observed_event_ids, # != "")`, `fromBase64(message)`,
		`let x = 1; x == 1`,
	} {
		f.Add(s)
	}
	items := []streams.Alert{{}, {Message: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", Severity: "high",
		Events: []string{"a", "b"}}}
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 400 {
			return // a long expression may take long, at the cost of its author only
		}
		fuzztest.Bounded(t, 64<<10, func() {
			filter, err := cli.NewFilter(src, streams.Alert{})
			if err != nil {
				return
			}
			for _, it := range items {
				if ok, err := filter.Match(it); ok && err != nil {
					t.Fatalf("the filter matches and returns an error: %v", err)
				}
			}
		})
	})
}
