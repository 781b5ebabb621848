package streams

import "time"

// The names of the streams.
const (
	IntakeStream = "LZ_INTAKE"
	LedgerStream = "LZ_LEDGER"
	LiveStream   = "LZ_LIVE"
)

// Limits of the streams, with the reason for each.
const (
	// IntakePerSubject bounds what may wait on one stored subject, that is one
	// kind and origin of one agent. The flooder is refused before anyone else.
	// All that waits is decided in order, so that this, divided by what ingest
	// decides in a second, is also what one flooded subject costs everybody
	// else in time.
	IntakePerSubject = 20_000
	// IntakeBytes bounds what may wait altogether, in bytes.
	IntakeBytes = 8 << 30
	// IntakeMsgSize is the largest message the stream takes: twice the default
	// event limit, so that a somewhat oversized event leaves a rejected entry
	// with its bytes instead of vanishing at the door.
	IntakeMsgSize = 2*DefaultMaxEvent + 64<<10
	// LedgerMsgSize leaves room for a rejected event's bytes in base64, and for
	// content with its features.
	LedgerMsgSize = 7 << 20
	// MaxEntry is the size of the largest body of a ledger entry, in bytes: a
	// message of the ledger less the room for its headers.
	MaxEntry = LedgerMsgSize - 4<<10
	// LiveAge is how long live copies are kept.
	LiveAge = 30 * 24 * time.Hour
	// LiveBytes bounds the live feed, in bytes; old copies go first.
	LiveBytes = 1 << 30
)
