package stage

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Span is a part of a stream, at most up to the stream's current end.
type Span struct {
	Stream  string
	Filters []string  // subjects, at least one; they may have wildcards
	From    uint64    // first sequence; 0 means the stream's first
	To      uint64    // last sequence; 0 means the stream's last
	Since   time.Time // if set, the part begins at this time, and From is ignored
	Headers bool      // omit the messages' data
}

// eachPatience is how long Each waits for the next message of the span.
const eachPatience = 10 * time.Second

// Each calls fn for the messages of a span in order. It returns nil after the last message. If fn returns an error, or
// if ctx ends, it stops and returns an error.
func Each(ctx context.Context, js jetstream.JetStream, s Span, fn func(m jetstream.Msg, seq uint64,
	at time.Time) error) error {
	// Ask the stream's leader for the last message. The consumer may be on a replica that lags. If the replica said
	// where the stream ends, Each would stop too early.
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
	msgs, done := make(chan jetstream.Msg), make(chan struct{})
	c := &consumption{js: js, stream: s.Stream, filters: s.Filters, headers: s.Headers, since: s.Since,
		log: slog.New(slog.DiscardHandler), take: func(m jetstream.Msg) {
			select {
			case msgs <- m:
			case <-done:
			}
		}}
	if s.Since.IsZero() {
		c.next = max(s.From, 1)
	}
	if err := c.start(ctx); err != nil {
		return err
	}
	defer c.stop()
	defer close(done)
	read := uint64(0)
	patience := time.NewTimer(eachPatience)
	defer patience.Stop()
	for {
		patience.Reset(eachPatience)
		select {
		case <-ctx.Done():
			return fmt.Errorf("reading %s after message %d: %w", s.Stream, read, ctx.Err())
		case <-patience.C:
			return fmt.Errorf("reading %s: no message came after %d, but the stream goes up to %d", s.Stream, read, last)
		case m := <-msgs:
			md, err := m.Metadata()
			if err != nil {
				return err
			}
			if read = md.Sequence.Stream; read > last {
				return nil
			}
			if err := fn(m, read, md.Timestamp); err != nil || read == last {
				return err
			}
		}
	}
}
