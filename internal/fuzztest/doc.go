// Package fuzztest checks in fuzz targets that a parser of untrusted bytes neither hangs nor allocates
// without limit. Go's fuzzer itself detects panics.
//
// It imports nothing of ours, so that every package's tests may import it. Begin reading with
// Bounded.
package fuzztest
