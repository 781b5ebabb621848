//go:build race

package embedded_test

// raced reports whether the tests run with the race detector.
const raced = true
