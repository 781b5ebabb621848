package fuzztest

import (
	"runtime/metrics"
	"testing"
	"time"
)

// Limits of one input. They are far above what the parsers need, and far below what would harm a
// machine. An input of the fuzzer is at most 1 MiB.
const (
	// Allocs is how many bytes a parser may allocate for any input, and AllocsPerByte how many more for each
	// byte of the input. CEL needs most of it: its syntax trees and messages take some kilobytes for a few
	// characters.
	Allocs        = 64 << 20
	AllocsPerByte = 32 << 10
	// Patience is how long a parser may take for any input, in wall-clock time. It is long, because the
	// fuzzer's instrumentation slows the parser down and the machine may be busy.
	Patience = 10 * time.Second
)

// Bounded calls f, which parses an input of n bytes, and fails t if f takes too long or allocates too much. It counts
// all allocations of the process, so little else may run in the process at the same time.
func Bounded(t testing.TB, n int, f func()) {
	t.Helper()
	began, before := time.Now(), allocated()
	f()
	took, bytes := time.Since(began), allocated()-before
	if took > Patience {
		t.Fatalf("%d bytes kept it busy for %v, more than %v", n, took, Patience)
	}
	if most := uint64(Allocs + n*AllocsPerByte); bytes > most {
		t.Fatalf("an input of %d bytes made the parser allocate %d bytes, more than %d", n, bytes, most)
	}
}

// allocated returns the total allocations of the process.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// AddLabeled adds lines in the formats of labeled corpora to the seeds of a fuzz test: a session, a text, and a line
// with fields of both.
func AddLabeled(f *testing.F) {
	f.Add([]byte(`{"dataset":"d","session_id":"s","attacked":true,"attack_type":"t","steps":[` +
		`{"kind":"user","content":"u"},{"kind":"tool_result","content":"c","injected":true},` +
		`{"kind":"action","tool":"t","args":{"a":1},"attacker_goal_match":"exact"}]}`))
	f.Add([]byte(`{"dataset":"d","id":"x","label":"attack","content":"c","user_task":"u",` +
		`"followup_action":{"tool":"t"},"meta":{"injected_text":"c","signal_by":"lexical"}}`))
	f.Add([]byte(`{"dataset":"d","id":"x","content":"c","steps":[],"followup_action":{"tool":"t"}}`))
}
