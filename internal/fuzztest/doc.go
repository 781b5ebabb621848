// Package fuzztest checks in fuzz targets that a parser of untrusted bytes neither hangs nor allocates
// without limit. Go's fuzzer itself detects panics.
//
// It imports no other package of this module, so that the tests of every package may import it. Begin
// reading with Bounded.
package fuzztest
