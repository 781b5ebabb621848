package fuzztest_test

import (
	"strings"
	"testing"

	"lazaret/internal/fuzztest"
)

// recorder is a testing.TB that records a failure.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Fatalf(f string, _ ...any) { r.said = f }

var sink [][]byte

func TestWhatAllocatesWithoutBoundFails(t *testing.T) {
	r := &recorder{TB: t}
	fuzztest.Bounded(r, 10, func() { sink = append(sink, make([]byte, 1000)) })
	if r.said != "" {
		t.Errorf("a kilobyte: %s", r.said)
	}
	fuzztest.Bounded(r, 10, func() {
		for range 80 {
			sink = [][]byte{make([]byte, 1<<20)}
		}
	})
	if !strings.Contains(r.said, "allocate") {
		t.Errorf("80 MiB for 10 bytes: %q", r.said)
	}
}
