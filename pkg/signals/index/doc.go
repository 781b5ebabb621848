// Package index keeps the state of signals in a [Store]: small tables of keys, and
// an [Index] from hashes to the entry that brought them first.
//
// Both are bounded for each project by two generations. A key that is used moves to
// the younger generation; when that is full, the elder one is dropped. The Index is
// in memory and is rebuilt from its records in the store at any time.
//
// The package may import pkg/intent for its hash. It knows nothing of signals.
// Begin reading with table.go, then index.go.
package index
