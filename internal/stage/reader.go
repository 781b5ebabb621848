package stage

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"
)

// reader delivers the messages of a stream in order, from a sequence on.
type reader struct {
	msgs chan jetstream.Msg
	done chan struct{}
	c    *consumption
}

// openReader starts to read a stream. from is the first sequence to read, at least 1. If there are filters, it reads
// only the subjects that match one of them.
func openReader(ctx context.Context, js jetstream.JetStream, stream string, filters []string, from uint64,
	log *slog.Logger) (*reader, error) {
	r := &reader{msgs: make(chan jetstream.Msg, readAhead), done: make(chan struct{})}
	var err error
	r.c, err = consume(ctx, js, stream, filters, from, log, func(m jetstream.Msg) {
		select {
		case r.msgs <- m:
		case <-r.done:
		}
	})
	return r, err
}

// close stops the reader. Messages that nobody received are dropped.
func (r *reader) close() {
	close(r.done)
	r.c.stop()
}
