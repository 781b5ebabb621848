// Package statement judges the statements in the log that allow payloads to be forgotten:
// whether an operator signed each, with a key that was in force in the log at that place.
//
// The keys in force follow from two things: the operators' keys that the reader has
// pinned, and the activations of trust files in the log. An activation counts if a pinned
// key or one in force signed it. From then on only the operators in the activated file
// count; before the first activation the pinned keys count. Write access to the log and
// its checkpoints gives none of these keys.
//
// It may import pkg/chain and pkg/keys. Begin reading with keys.go.
package statement
