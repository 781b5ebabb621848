// Package position numbers the entries of a ledger whose messages may hold several.
//
// The position of an entry is one number: the sequence of its message and, above [Bits],
// its index in the message. The first entry of a message, and so one that has a message of
// its own, is at the message's sequence. Positions below 512 entries in a message are exact
// in JSON. They do not sort as numbers: see [Compare].
//
// It imports nothing of ours. Begin reading with position.go, its only file.
package position
