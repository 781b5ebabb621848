// Package index stores the state of signals in a [Store]: small tables, and an [Index] that maps hashes to the first
// entry that brought them.
//
// Tables and Index are bounded for each project. Each table has two generations of keys. A key that is used moves to
// the younger generation. When the younger generation is full, the elder one is dropped. The Index is in memory, and
// can be rebuilt at any time from its records in the store.
//
// The package may import pkg/intent for its hash. It does not depend on signals. Start reading with table.go, then
// index.go.
package index
