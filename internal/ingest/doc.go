// Package ingest admits or rejects every event. It keeps read content apart from beliefs, turns
// observations into claims with evidence and beliefs, admits proposals with all data that the
// sentinels need, and rejects malformed messages without losing any of their bytes.
//
// Every intake message gets exactly one entry. Its sender is taken from the subject, to which the
// server lets only the sender's credential publish. Nothing in a payload can change the sender.
// Decisions depend only on the message and the state, which is a function of the ledger (see
// internal/stage).
//
// It may import internal/stage, internal/activation, internal/query and packages below pkg, and no
// other fold. Begin reading with fold.go (Admit, Apply) and kind.go; each kind of event is decided
// in a file of its own, as observe.go, remember.go and propose.go.
package ingest
