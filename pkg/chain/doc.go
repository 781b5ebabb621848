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
// Log is the log itself: Append, Checkpoint, Verify. Source, View and Proof are
// what others see of it: tiles (C2SP tlog-tiles), leaves and proofs of them
// (tlog-proof), of this log, of one served over HTTP, or of one that Import
// copies. Handover changes the signing key. Package witness has others vouch
// for it.
//
// Appends take turns, and any number of goroutines read meanwhile; nobody may
// use a log that was closed. The format is in FORMAT.md. The tree follows
// RFC 6962; proofs are made and checked by golang.org/x/mod/sumdb/tlog, and
// Tessera's client and fsck read what is served (TestTesseraReadsTheLog).
//
// Leaves, checkpoints, tiles and proofs of a version stay readable and mean the
// same in all later ones; the store may change its version, and then says so
// (ErrFormat). Exported names keep their meaning; options and reports may gain
// fields, whose zero value is what was before.
package chain
