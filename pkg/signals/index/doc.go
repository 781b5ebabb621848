// Package index stores the state of signals in a [Store]: small tables, and an [Index] that maps
// hashes to the first entry that brought them.
//
// Both are bounded for each project by two generations. A key that is used moves to the younger
// generation. When that is full, the elder generation is dropped. The Index is in memory. It can be
// rebuilt from its records in the store at any time.
//
// The package may import pkg/intent for its hash. It does not depend on signals. Start reading with
// table.go, then index.go.
package index
