package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Span is a part of a stream, up to its present end.
type Span struct {
	Stream  string
	Filters []string  // subjects, at least one
	From    uint64    // first sequence; 0 is the stream's first
	To      uint64    // last sequence, if that comes before the end; 0 is the end
	Since   time.Time // in place of From
	Headers bool      // without the messages' data
}

// readTries is how often nothing may come although something is there.
const readTries = 50

// Each calls fn for the messages of a span, in order. Whoever reads on and on is a
// stage.
func Each(ctx context.Context, js jetstream.JetStream, s Span, fn func(m jetstream.Msg, seq uint64, at time.Time) error) error {
	// The leader says how far there is to go: the consumer may be with a replica
	// that lags, and what it does not have yet would be passed over.
	last := uint64(0)
	for _, f := range s.Filters {
		m, err := LastOn(ctx, js, s.Stream, f)
		if err != nil {
			return err
		}
		if m != nil && !m.Time.Before(s.Since) {
			last = max(last, m.Sequence)
		}
	}
	if s.To > 0 {
		last = min(last, s.To)
	}
	if last == 0 || last < s.From {
		return nil
	}
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: s.Filters, HeadersOnly: s.Headers, InactiveThreshold: consumerLives}
	if s.Since.IsZero() {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, max(s.From, 1)
	} else {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &s.Since
	}
	c, err := js.OrderedConsumer(ctx, s.Stream, cfg)
	if err != nil {
		return fmt.Errorf("reading %s: %w", s.Stream, err)
	}
	read := uint64(0)
	for quiet := 0; quiet < readTries; quiet++ {
		batch, err := c.FetchNoWait(500)
		if err != nil {
			return fmt.Errorf("reading %s: %w", s.Stream, err)
		}
		for m := range batch.Messages() {
			md, err := m.Metadata()
			if err != nil {
				return err
			}
			if quiet, read = 0, md.Sequence.Stream; read > last {
				return nil
			}
			if err := fn(m, read, md.Timestamp); err != nil {
				return err
			}
			if read == last {
				return nil
			}
		}
		// A consumer that was made just now may not be heard of by the server that
		// is asked.
		if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrNoResponders) {
			return fmt.Errorf("reading %s: %w", s.Stream, err)
		}
		if quiet > 0 {
			if err := sleep(ctx, reopenEvery); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("reading %s: nothing comes after message %d, up to %d is there", s.Stream, read, last)
}
