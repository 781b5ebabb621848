//go:build race

package console

// slower is the factor by which the race detector slows pages down.
const slower = 10
