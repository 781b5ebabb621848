// Package statement judges the statements in the log that allow payloads to be erased: whether an
// operator signed each one with a key that was active at that position of the log.
//
// The active keys follow from the operators' keys that the reader has pinned and from the activations
// of trust files in the log. An activation counts if a pinned or active key signed it. From then on
// only the operators in the activated file count; before the first activation the pinned keys count.
// Write access to the log and its checkpoints gives none of these keys.
//
// It may import pkg/chain and pkg/keys. Begin reading with keys.go.
package statement
