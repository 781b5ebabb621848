// Package memproxy is a reverse proxy in front of a memory store. It proposes each memory write to the pipeline. It
// asks for a verdict on each memory that a search has found, and removes refused memories from the response. If a
// memory may be used as context only, it puts a note before the memory's text.
//
// The table kinds lists, for each store, the paths that write and read, and where the texts are in their bodies. A path
// that is not in the table is refused, because its effects are unknown.
//
// Begin reading with kinds.go, then proxy.go.
package memproxy
