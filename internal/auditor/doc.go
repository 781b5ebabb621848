// Package auditor follows the ledger and stores it in a tamper-evident log (pkg/chain). The log has
// one leaf per entry with a commitment to the entry's body, a hash chain and a Merkle tree over all
// leaves, and signed checkpoints that witnesses may cosign.
//
// The auditor adds nothing to the ledger and makes no decisions, so two auditors of one ledger
// write byte-identical trees. If the ledger skipped a sequence or was created again, the auditor
// adds a leaf and reports an incident on the live feed.
//
// It may import internal/stage, internal/query, internal/statement and pkg/chain, and no other
// fold. Begin reading with auditor.go (Open, Follow); prove.go answers questions for proofs,
// forget.go drops payloads.
package auditor
