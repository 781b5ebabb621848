// Package memgate asks for verdicts on memory that is stored outside of Lazaret. Held.Write asks whether
// memories may be written; Read asks which of the found texts may enter a context. Texts are judged by
// their words, never by the ids of the store. Every failure is a refusal.
//
// Begin reading with memgate.go; held.go writes.
package memgate
