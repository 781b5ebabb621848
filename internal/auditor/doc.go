// Package auditor follows the ledger and keeps it in a tamper-evident log
// (pkg/chain): one leaf an entry, with a commitment to its body, a hash chain
// and a Merkle tree over all leaves, and signed checkpoints, which witnesses
// may cosign.
//
// It adds nothing to the ledger and decides nothing, so that two auditors of
// one ledger keep byte-identical trees. A sequence that the ledger skipped and
// a ledger that was created anew become a leaf and an incident on the live
// feed.
//
// It may import internal/stage, internal/query, internal/statement and pkg/chain, and no other
// fold. Begin reading with auditor.go (Open, Follow); prove.go answers questions for proofs,
// forget.go drops payloads.
package auditor
