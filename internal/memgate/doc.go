// Package memgate guards memory that is kept outside of Lazaret. Write asks whether a memory may be
// written; Read asks which of the texts that a store found may enter a context. Texts are judged
// by their words, never by the ids of the store. Every failure is a refusal.
package memgate
