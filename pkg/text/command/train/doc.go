// Command train fits the weights of package command to labeled texts and validates them with whole
// data sets left out.
//
//	go run ./pkg/text/command/train -corpora DIR [-o pkg/text/command/weights.bin]
//
// It prints the share of distinct attack texts that are found for each share of false positives.
// Each text is scored by weights that were fitted without its group of data sets.
//
// It imports pkg/text/command/fit. Begin reading with main.go.
package main
