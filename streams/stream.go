package streams

import "time"

// The names of the streams.
const (
	IntakeStream = "LZ_INTAKE"
	LedgerStream = "LZ_LEDGER"
	LiveStream   = "LZ_LIVE"
)

// Limits of the streams.
const (
	// IntakePerSubject is the maximum number of waiting messages on one stored subject, that is, of one kind and origin
	// of one agent. If an agent floods the intake, the server refuses this agent's messages first. A full subject delays
	// the other agents of its project. The delay in seconds is at most this number, divided by the number of messages
	// that ingest decides in a second.
	IntakePerSubject = 20_000
	// IntakeBytes is the maximum size of the intake, in bytes.
	IntakeBytes = 8 << 30
	// IntakeMsgSize is the maximum size of an intake message, in bytes. It is twice the default
	// event limit, so that a moderately oversized event still gets a rejected entry with its bytes.
	IntakeMsgSize = 2*DefaultMaxEvent + 64<<10
	// LeastPerAgent is the minimum value in bytes of wire.Storage.IntakePerAgent. Two of the largest messages fit into
	// it.
	LeastPerAgent = 2 * IntakeMsgSize
	// LedgerMsgSize is the maximum size of a ledger message, in bytes. It is larger than IntakeMsgSize, because an
	// entry has a rejected event's bytes in base64, or content with its features.
	LedgerMsgSize = 7 << 20
	// MaxEntry is the maximum size of the body of a ledger entry, in bytes.
	MaxEntry = LedgerMsgSize - 4<<10
	// LiveAge is the time for which live copies are kept.
	LiveAge = 30 * 24 * time.Hour
	// LiveBytes is the maximum size of the live feed, in bytes. The oldest copies are removed
	// first.
	LiveBytes = 1 << 30
)
