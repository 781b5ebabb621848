// Package memproxy is a reverse proxy in front of a memory store. It proposes each memory write to the
// pipeline, and asks for a verdict on each found memory. It removes refused memories from a response.
// Memories that are context only get a note in their text.
//
// The table of kinds lists the paths of a store that write and read, and the positions of texts in
// their bodies. A path that is not in the table is refused, because its effects are unknown.
package memproxy
