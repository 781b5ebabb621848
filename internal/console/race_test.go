//go:build race

package console

// slower is a factor. With the race detector, pages take this many times longer.
const slower = 10
