package verb

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Lag returns the number of messages in the intake and the ledger's last sequence.
func Lag(ctx context.Context, js jetstream.JetStream) (waiting, last uint64, err error) {
	in, err := js.Stream(ctx, streams.IntakeStream)
	if err != nil {
		return 0, 0, err
	}
	led, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return 0, 0, err
	}
	return in.CachedInfo().State.Msgs, led.CachedInfo().State.LastSeq, nil
}
