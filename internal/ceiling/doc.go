// Package ceiling labels ledger entries with their sensitivity, so that an export can redact those
// above its ceiling.
//
// A label starts with the sensitivity that a writer states for a memory (internal by default). Within
// the project, it extends to entries that name the memory or its event, were made from a labeled entry,
// or contain its words: a verdict that quotes it, an alert about it, a note that derives from it, an
// action whose arguments contain it, also in encoded form. An entry that only names a labeled item is
// labeled too, which redacts too much rather than too little.
//
// The package does not detect a secret whose writer stated no sensitivity, or that is expressed in other words.
// In a log that is read twice (Scan, then Of), entries before the memory with the stated sensitivity are labeled
// as well. A follower of the ledger has exported those entries before it reads that memory.
//
// It may import streams, pkg/beliefs and pkg/text. Begin reading with Labels.Scan.
package ceiling
