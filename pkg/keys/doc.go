// Package keys keeps the two sides of a signature: the private keys of people,
// one file each, and the trust file in which an operator pins the public keys
// that Lazaret obeys, each with the roles it is obeyed in.
//
// Keys are Ed25519 in the text formats of golang.org/x/mod/sumdb/note, which
// are those of C2SP signed notes: a private key is
// PRIVATE+KEY+<name>+<hash>+<base64>, a public one <name>+<hash>+<base64>, and
// a signed command is a note that any C2SP tool verifies.
//
// The package guarantees that a private key is never written over another
// file, is readable by its owner only, and appears in no error; that a
// signature counts only in the roles its key is pinned for; and that a trust
// file is replaced as a whole or not at all. It does not encrypt private keys,
// does not know when a signature was made, and does not revoke: a key that is
// removed from the trust file ceases to count from the next load on.
package keys
