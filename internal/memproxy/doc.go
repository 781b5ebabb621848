// Package memproxy is a reverse proxy in front of a memory store. It asks before a memory is written and
// after memories were found: refused memories are taken out of an answer, and memories that are
// context only say so in their text.
//
// The table of kinds says which paths of a store write and read, and where texts stand in their bodies.
// A path that is not in the table is refused, since nothing is known of what it writes or shows.
package memproxy
