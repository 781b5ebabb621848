// Package shell reads shell command lines. It tells whether the programs of a line only look at
// files, or also build in the folder in which the line starts. If a program has an option that is
// not listed for it, the line is neither of the two. The package also tells which files of an
// agent's memory a line may write, and from which texts.
//
// The parser of mvdan.cc/sh reads the lines with the grammar of bash. Where it differs from bash, and for syntax that
// is not handled here, nothing is known of a line. Verdicts depend on this reading, so the fuzz test that compares it
// with bash is run for minutes when the module is updated.
package shell
