//go:build race

package console

// slower is by how much the race detector slows pages down.
const slower = 10
