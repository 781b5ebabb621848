// Package fuzztest holds fuzz targets to what a parser of outside bytes owes:
// it neither hangs nor allocates without bound. That it does not panic, Go's
// fuzzer sees by itself.
//
// It imports nothing of ours, so that every package's tests may import it. Begin reading with
// Bounded.
package fuzztest
