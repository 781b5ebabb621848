package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// ReadLive calls fn for each message of the live stream whose subject matches filter, oldest first. It
// starts with the messages of the last duration since, or with the oldest message if since is 0. It returns at
// the end of the stream. If follow is set, it waits for new messages and returns when ctx ends. It skips messages
// that no stage wrote, such as an acknowledgement that an agent made the server publish there, and messages that are
// no T. For these it writes a note.
func ReadLive[T any](ctx context.Context, nc *nats.Conn, filter string, since time.Duration, follow bool,
	notes io.Writer, fn func(subject string, x T, body []byte) error) (err error) {
	skipped := 0
	defer func() {
		if skipped > 0 {
			fmt.Fprintf(notes, "NOTE: %d messages on %s were skipped: no stage wrote them, or they cannot be read\n",
				skipped, filter)
		}
	}()
	js := wire.JetStream(nc)
	st, err := js.Stream(ctx, streams.LiveStream)
	if err != nil {
		return fmt.Errorf("looking up stream %s: %w", streams.LiveStream, err)
	}
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}}
	switch {
	case since > 0:
		start := time.Now().Add(-since)
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &start
	case follow:
		cfg.DeliverPolicy = jetstream.DeliverNewPolicy
	}
	c, err := st.OrderedConsumer(ctx, cfg)
	if err != nil {
		return fmt.Errorf("reading %s: %w", streams.LiveStream, err)
	}
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	if !follow && info.NumPending == 0 {
		return nil
	}
	it, err := c.Messages()
	if err != nil {
		return err
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if errors.Is(err, context.Canceled) && follow {
			return nil
		}
		if err != nil {
			return err
		}
		var x T
		if m.Headers().Get(streams.HeaderSeq) == "" || streams.Unmarshal(m.Data(), &x) != nil {
			skipped++
		} else if err := fn(m.Subject(), x, m.Data()); err != nil {
			return err
		}
		md, err := m.Metadata()
		if err != nil {
			return err
		}
		if !follow && md.NumPending == 0 {
			return nil
		}
	}
}
