//go:build race

package e2e

// raced reports that the tests run with the race detector. The programs that they start are then built
// with it too.
const raced = true
