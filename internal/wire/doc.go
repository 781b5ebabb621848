// Package wire carries the values of package streams over NATS: ledger entries as
// messages, and the three streams as JetStream keeps them.
//
// It imports streams and nats.go alone, so that streams and the packages under pkg know
// nothing of NATS. Begin reading with [Msg] and [Definitions].
package wire
