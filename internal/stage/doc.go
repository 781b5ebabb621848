// Package stage is the runtime that the four daemons share. A stage is a fold of the ledger: it
// reads its input in order, decides, publishes its decisions to its own ledger subject, and stores
// the resulting state in a Pebble cache.
//
// It guarantees, even if processes die:
//
//   - One input makes at most one entry, exactly once. Every publish is fenced with the sequence
//     of the stage's last entry in that partition, so that only one of two processes can add the
//     next entry. The ledger is the outbox. After a restart, work continues after the input that
//     the stage's last entry names.
//   - State is a function of the ledger. Pebble stores state and cursor in one batch, unsynced.
//     Losing the last batches, or all of them, costs a refold and nothing else.
//   - A stand-by is the same program. It folds the same ledger without publishing, and publishes
//     only after an input has waited for the takeover time.
//
// RunLedger runs stages whose input is the ledger (sentinels, arbiter). RunIntake runs ingest,
// which reads the intake and also folds the ledger. Follow runs readers that add nothing (the
// auditor). No other code uses consumers.
//
// The design is the decider pattern of event sourcing, Decide(state, input) → entries and
// Evolve(state, entry), with fenced producers as in Kafka. See section 3 of the design.
package stage
