package policy

import (
	"errors"
	"testing"

	"lazaret/internal/fuzztest"
	"lazaret/pkg/beliefs"
)

// FuzzContext: a policy's conditions on recalled beliefs are true, false, or an error with a place.
// A condition whose evaluation fails never admits.
func FuzzContext(f *testing.F) {
	f.Add("belief.age < duration('720h')", "refuse", "max_age: 1h")
	f.Add("belief.key.startsWith('x') && recall.purpose == 'planning'", "context_only", "top_external: 2")
	f.Add("int(belief.source) > 3 || belief.id.matches('(a+)+$')", "refuse", "")
	f.Add("['a','b','c'].exists(x, ['a','b','c'].exists(y, x + y == belief.id))", "", "sensitivity: secret")
	f.Fuzz(func(t *testing.T, require, otherwise, more string) {
		fuzztest.Bounded(t, len(require)+len(more), func() {
			p, err := Compile("f", []byte(preamble+
				"otherwise: {level: L4}\ncontext:\n  default:\n    conditions:\n      - {name: c, require: \""+require+
				"\", otherwise: "+otherwise+"}\n    "+more+"\n"))
			if err != nil {
				var at *Error
				if !errors.As(err, &at) {
					t.Fatalf("%T: %v", err, err)
				}
				return
			}
			c := p.Context("")
			for _, cond := range c.Conditions {
				ok, err := cond.Holds(beliefs.Subject{Candidate: beliefs.Candidate{ID: "b", Key: "key of it",
					Source: "https://a.example"}})
				if ok && err != nil {
					t.Fatalf("%q holds, and is wrong: %v", require, err)
				}
			}
		})
	})
}

// FuzzReadHints: the annotations in a catalogue are arbitrary data of the server.
func FuzzReadHints(f *testing.F) {
	for _, s := range []string{`{"readOnlyHint":false}`, `{"destructiveHint":null}`, `[]`, `{"openWorldHint":"yes"}`,
		`{`, ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bounded(t, len(b), func() {
			h := ReadHints(b)
			if ReadHints(h.Annotations()) != h {
				t.Fatalf("%q says %b, which says %b", b, h, ReadHints(h.Annotations()))
			}
		})
	})
}

// FuzzToolNames: the names of called tools are arbitrary.
func FuzzToolNames(f *testing.F) {
	for _, s := range []string{"mcp__github__create_issue", "a.b:c/d", "éÀ", "", "___"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, tool string) {
		fuzztest.Bounded(t, len(tool), func() { ToolNames(tool) })
	})
}
