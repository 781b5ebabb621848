// Package stage is the runtime that the four daemons share. A stage is a fold of the
// ledger: it reads its input in order, decides, publishes its decisions to its own ledger
// subject, and keeps the resulting state in a Pebble cache.
//
// It guarantees, even if processes die:
//
//   - One input makes at most one entry, exactly once. Every publish is fenced
//     with the sequence of the stage's last entry in that partition, so of two
//     processes only one can add the next entry; the ledger is the outbox, and
//     the input that its last entry names is where work goes on.
//   - State is a function of the ledger. Pebble holds state and cursor in one
//     batch, unsynced: losing its tail, or all of it, costs a re-fold and
//     nothing else.
//   - A stand-by is the same program. It folds the same ledger, keeps quiet,
//     and publishes only once work has lain undone for the takeover time.
//
// RunLedger drives stages whose input is the ledger itself (sentinels, arbiter),
// RunIntake drives ingest, which reads the intake with the ledger folded beside it, and
// Follow drives readers that add nothing (the auditor). Nothing else in the program talks
// to consumers.
//
// The shape is the decider of event sourcing, Decide(state, input) → entries and
// Evolve(state, entry), over Kafka-style fenced producers; see section 3 of the design.
package stage
