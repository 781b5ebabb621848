//go:build !race

package console

const slower = 1
