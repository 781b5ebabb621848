// Package position numbers the entries of a ledger. A message of the ledger may hold several
// entries.
//
// The position of an entry is one number. Its low [Bits] bits are the sequence of the entry's
// message, and the bits above are the entry's index in the message. So the first entry of a message
// has the message's sequence as its position. Positions are exact in JSON as long as the index is
// below 512. They do not sort as numbers: see [Compare].
//
// It imports no other package of Lazaret. Begin reading with position.go, its only file.
package position
