// Package shell reads shell command lines. It tells whether the programs of a line only look at files, or also build in
// the folder in which the line starts. A line is neither of the two if a program in it has an option that is not in
// this package's list of the program's options. The package also tells which files of an agent's memory a line may
// write, and where the written text comes from.
//
// The parser of mvdan.cc/sh reads the lines with the grammar of bash. If a line contains syntax that the parser and
// bash read differently, or syntax that this package does not handle, the package says nothing about the line. Verdicts
// depend on the parser. When the module mvdan.cc/sh is updated, run the fuzz test that compares the parser with bash
// for some minutes.
package shell
