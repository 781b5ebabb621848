// Package fit fits the weights of package command to labelled texts, whole or
// with a group of data sets left out.
//
// It reads labelled files and draws lines from grammars of ordinary English.
// The same files in the same order give the same weights. It is not part of a
// running pipeline: the program in train and lazaret probe detection use it.
//
// It may import pkg/text/command. Begin reading with fit.go; corpora.go reads the files, seed.go
// draws lines from grammars.
package fit
