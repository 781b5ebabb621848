// Package memgate asks for verdicts on memory that is stored outside of Lazaret. Write asks whether a
// memory may be written; Read asks which of the found texts may enter a context. Texts are judged by
// their words, never by the ids of the store. Every failure is a refusal.
package memgate
