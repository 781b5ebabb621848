// Package ingest admits or rejects every event. It keeps read content apart from beliefs, turns observations into
// claims with evidence and beliefs, and admits proposals together with all data that the sentinels need. It rejects
// malformed messages, and keeps their bytes in the rejection's entry.
//
// Every intake message gets exactly one entry. The sender is taken from the message's subject, because the server lets
// only the sender's credential publish on that subject. Nothing in a payload can change the sender. Decisions depend
// only on the message and the state, which is a function of the ledger (see internal/stage).
//
// The package may import internal/stage, internal/activation, internal/query and packages below pkg, but no other fold.
// Begin reading with fold.go (Admit, Apply) and kind.go. Each kind of event is decided in a file of its own, such as
// observe.go, remember.go and propose.go.
package ingest
