// Command all runs every fuzz target of the module, one after the other, and
// prints a table: how long each ran, how many inputs it tried and what it found.
// It exits with 2 if one found something; the input is in the package's
// testdata/fuzz then, and go test runs it from there on.
//
//	go run ./internal/fuzztest/all -time 10m
//
// It imports nothing of ours. Begin reading with main.go.
package main
