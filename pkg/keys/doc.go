// Package keys handles both sides of a signature: private keys of people, one file each, and the trust file, in which
// an operator pins the public keys that Lazaret accepts, each with its roles.
//
// Keys are Ed25519 keys in the text formats of golang.org/x/mod/sumdb/note, which are those of C2SP signed notes. A
// private key is PRIVATE+KEY+<name>+<hash>+<base64>, a public one <name>+<hash>+<base64>. A signed command is a note
// that any C2SP tool can verify.
//
// When the package writes a private key, it never overwrites a file, and only the owner can read the new file. No error
// contains a private key. A signature counts only in the roles for which its key is pinned. A trust file is replaced
// atomically. The package does not encrypt private keys and does not know when a signature was made. It has no list of
// revoked keys: a key that is removed from the trust file no longer counts after the next load.
package keys
