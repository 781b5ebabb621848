//go:build race

package e2e

// raced says that the tests run under the race detector: the programs that they
// start are then built with it, too.
const raced = true
