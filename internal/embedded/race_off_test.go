//go:build !race

package embedded_test

const raced = false
