// Package chain is a tamper-evident log on Pebble. Every entry becomes a leaf
// that commits to a payload and to the leaf before it; all leaves form an
// RFC 6962 Merkle tree; heads are signed as C2SP checkpoints. Whoever holds an
// earlier checkpoint can tell any edit, deletion, reordering, truncation or
// rewrite of what it covers, by anybody, with the log's own key too.
//
// Payloads are kept beside the leaves, encrypted under a key for each data
// subject. A leaf commits to SHA-256(salt ‖ payload), so that destroying a key
// forgets the payload and leaves every proof standing, and two logs of the same
// entries have byte-identical trees whatever their keys.
//
// It does not prevent tampering; it convicts. It cannot tell what was added
// after the last checkpoint that anybody else holds.
//
// One goroutine appends; any number read. The format is in FORMAT.md. The tree
// follows RFC 6962 and golang.org/x/mod/sumdb/tlog, which the tests compare it
// with and which makes the proofs.
package chain
