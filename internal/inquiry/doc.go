// Package inquiry answers an auditor's questions from the log's own files:
// which entries there are, whether anything untrusted became trusted, whether
// anything irreversible ran without approval, and what happened in a session.
//
// It asks no daemon. Each payload that it shows was read from the store, decrypted and
// checked against the commitment in its leaf, and the leaf proven to be in the tree of a
// signed checkpoint. Integrity says how many were. Unlogged entries are unknown to it.
// Lawfully forgotten payloads are counted.
//
// It may import internal/ceiling, internal/ingest, internal/statement and pkg/chain. Begin reading
// with log.go, which opens a log, then the report that you need: session.go, laundering.go,
// irreversible.go.
package inquiry
