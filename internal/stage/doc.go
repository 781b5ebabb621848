// Package stage is the runtime that the four daemons share. A stage is a fold of the ledger: it reads its input in
// order, decides, publishes its decisions to its own ledger subject, and stores the resulting state in a Pebble
// database, which is only a cache.
//
// It guarantees, even if processes die:
//
//   - One input makes at most one entry. Each publish is fenced: it names the sequence of the stage's last
//     entry in the partition, and the server refuses it if another entry was added since. So of two
//     processes only one can add the next entry. The ledger is also the outbox: after a restart, a stage
//     continues after the input that its last entry names.
//   - State is a function of the ledger. Pebble stores state and cursor in one batch, unsynced. If the last
//     batches are lost, or all of them, the stage folds the ledger again. Nothing else is lost.
//   - A stand-by is the same program. It folds the same ledger without publishing. It publishes only after
//     an input has waited for the takeover time.
//
// RunLedger runs stages whose input is the ledger (sentinels, arbiter). RunIntake runs ingest, which reads the intake
// and also folds the ledger. Follow runs readers that add no entries (the auditor). The stages read intake and ledger
// only through this package.
//
// The design is the decider pattern of event sourcing: Decide(state, input) returns entries, and Evolve(state, entry)
// returns the next state. Producers are fenced as in Kafka. docs/architecture.md explains it.
//
// Begin reading with stage.go, then with RunLedger in ledger.go, RunIntake in intake.go or Follow in follow.go.
package stage
