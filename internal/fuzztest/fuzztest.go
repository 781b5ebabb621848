package fuzztest

import (
	"runtime/metrics"
	"testing"
	"time"
)

// Limits of one input. They are far above what parsers here need, and far below
// what would harm a machine; an input of the fuzzer is at most 1 MiB.
const (
	// Allocs is what may be allocated for any input, and AllocsPerByte what more
	// for each of its bytes. The largest share of the latter is CEL, whose
	// syntax trees and messages take some kilobytes for a few characters.
	Allocs        = 64 << 20
	AllocsPerByte = 32 << 10
	// Patience is how long an input may take, by the wall clock: instrumented
	// and on a busy machine, too.
	Patience = 10 * time.Second
)

// Bounded runs f, which reads an input of n bytes, and fails t if it took too
// long or allocated too much. Little else may run in the process meanwhile.
func Bounded(t testing.TB, n int, f func()) {
	t.Helper()
	began, before := time.Now(), allocated()
	f()
	took, bytes := time.Since(began), allocated()-before
	if took > Patience {
		t.Fatalf("%d bytes kept it busy for %v, more than %v", n, took, Patience)
	}
	if most := uint64(Allocs + n*AllocsPerByte); bytes > most {
		t.Fatalf("%d bytes made it allocate %d bytes, more than %d", n, bytes, most)
	}
}

// allocated is what the process has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
