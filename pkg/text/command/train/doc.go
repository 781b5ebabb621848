// Command train fits the weights of package command to labeled texts. To validate them, it leaves out one group of data
// sets at a time and scores the texts of that group.
//
//	go run ./pkg/text/command/train -corpora DIR [-o pkg/text/command/weights.bin]
//
// For each share of false positives, it prints the share of distinct attack texts that are found.
//
// It imports pkg/text/command/fit. Begin reading with main.go.
package main
