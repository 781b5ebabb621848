package probe

import (
	"testing"
	"testing/fstest"

	"lazaret/internal/fuzztest"
)

// FuzzScenario parses scenarios, which may be untrusted.
func FuzzScenario(f *testing.F) {
	f.Add([]byte("name: x\nscenario: s\nasserts: a\ndoes_not_claim: d\nsteps:\n- {id: o, observe: {origin: web, " +
		"content: c}}\n- {decide: {tool: t}, expect: {verdict: hold}, after: 72h}\n"))
	f.Add([]byte("name: x\nsteps: [&a {observe: *a}]\n"))
	f.Add([]byte("name: x\nscenario: s\nasserts: a\ndoes_not_claim: d\nagents: {a: [web]}\nsteps:\n- {resolve: {hold: " +
		"o}}\ncontrast: {off: o, fails: f}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bounded(t, len(b), func() {
			_, _ = Load(fstest.MapFS{"x.yaml": {Data: b}}, ".")
			_, _ = ReadElsewhere(b)
		})
	})
}
