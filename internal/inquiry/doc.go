// Package inquiry answers an auditor's questions from the log's files: which entries exist, whether
// untrusted content became trusted, whether anything irreversible ran without approval, and what
// happened in a session.
//
// It queries no daemon. Each returned payload was decrypted and checked against the commitment in its
// leaf, and the leaf was proven to be in the tree of a signed checkpoint. Integrity counts these
// checks. It also counts lawfully erased payloads. The package cannot know of entries that were never
// logged.
//
// It may import internal/ceiling, internal/ingest, internal/statement and pkg/chain. Begin reading
// with log.go, which opens a log, then the report that you need: session.go, laundering.go,
// irreversible.go.
package inquiry
