// Package ingest decides what an event is. It keeps read content apart from beliefs, turns
// observations into claims with evidence and beliefs, admits proposals with all that the
// sentinels need to judge them, and refuses malformed messages without losing a byte of
// them.
//
// Every intake message leaves exactly one entry. Its sender is taken from the subject,
// which the server lets only the sender's credential publish to. Nothing in a payload can
// change the sender. Decisions are a function of the message and of the state, which is
// itself a function of the ledger (see internal/stage).
//
// It may import internal/stage, internal/activation, internal/query and packages below pkg, and no
// other fold. Begin reading with fold.go (Admit, Apply) and kind.go; each kind of event is decided
// in a file of its own, as observe.go, remember.go and propose.go.
package ingest
