// Package shell reads shell command lines. It tells whether the programs of a line only look at
// files, or also build in the folder. A program with an option that is not listed for it has
// neither kind.
package shell
