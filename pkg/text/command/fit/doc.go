// Package fit fits the weights of package command to labeled texts. It can use all texts, or leave out one group of
// data sets.
//
// It reads labeled files and generates lines from grammars of ordinary English. The same files in the same order give
// the same weights. It is not part of a running pipeline. The program in train and lazaret probe detection use it.
//
// It may import pkg/text/command. Begin reading with fit.go; corpora.go reads the files, seed.go draws lines from
// grammars.
package fit
