// Command all runs every fuzz target of the module sequentially, and prints a table: how long each ran,
// how many inputs it tried and what it found. It exits with 2 if a target found a failure. The input is
// then in the package's testdata/fuzz, and go test runs it from there.
//
//	go run ./internal/fuzztest/all -time 10m
//
// It imports no other package of this module. Begin reading with main.go.
package main
