// Package memproxy is a reverse proxy in front of a memory store. It proposes each write
// of a memory, and has each found memory judged. It removes refused memories from an
// answer. Memories that are context only get a note in their text.
//
// The table of kinds lists the paths of a store that write and read, and the places of
// texts in their bodies. A path that is not in the table is refused, because its effects
// are unknown.
package memproxy
