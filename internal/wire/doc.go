// Package wire transports the values of package streams over NATS: ledger entries as messages, and
// the definitions of the three JetStream streams.
//
// It is separate from package streams so that streams and the packages under pkg do not depend on
// nats.go. Start reading with [Msg] and [Definitions].
package wire
