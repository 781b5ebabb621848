// Package chain is a tamper-evident log on Pebble. Every entry becomes a leaf that commits to a payload and to the leaf
// before it. All leaves form an RFC 6962 Merkle tree. Heads are signed as C2SP checkpoints. A reader who has an earlier
// checkpoint can detect any edit, deletion, reordering, truncation or rewrite of the leaves that it covers, even by
// someone with the log's own key.
//
// Payloads are stored beside the leaves, encrypted under a key per data subject. A leaf commits to SHA-256(salt ‖
// payload). So destroying a key forgets the payloads but keeps every proof valid, and two logs of the same entries have
// byte-identical trees, whatever their keys.
//
// The log does not prevent tampering, but makes it provable. Changes to leaves after the last checkpoint that someone
// else has cannot be detected.
//
// Log is the log itself: Append, Checkpoint, Verify. Source, View and Proof are for readers: tiles (C2SP tlog-tiles),
// leaves and their proofs (tlog-proof), of this log, of one served over HTTP, or of one that Import copies. Handover
// changes the signing key. Package witness implements cosigning by others.
//
// Appends are serialized. Any number of goroutines may read at the same time. A closed log must not be used. The format
// is described in FORMAT.md. The tree follows RFC 6962. Proofs are made and checked by golang.org/x/mod/sumdb/tlog.
// Tessera's client and fsck can read a served log (TestTesseraReadsTheLog).
//
// All later versions can read the leaves, checkpoints, tiles and proofs of a version, with the same meaning. The format
// of the store may change; opening a store of another version returns ErrFormat. Exported names keep their meaning.
// Options and reports may gain fields, whose zero value means the previous behavior.
package chain
