package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// readAhead is how many messages a reader holds for its stage.
const readAhead = 2048

// reader delivers a stream's messages in order, from a sequence on, over an
// ordered consumer: nothing is acknowledged and nothing is redelivered, so
// what comes out is the stream. It reconnects and resumes by itself.
type reader struct {
	msgs chan jetstream.Msg
	done chan struct{}
	cc   jetstream.ConsumeContext
}

// openReader starts to read stream from sequence from (at least 1), only
// subjects that match filters if there are any.
func openReader(ctx context.Context, js jetstream.JetStream, stream string, filters []string, from uint64, log *slog.Logger) (*reader, error) {
	r := &reader{msgs: make(chan jetstream.Msg, readAhead), done: make(chan struct{})}
	var err error
	r.cc, err = consume(ctx, js, stream, filters, from, log, func(m jetstream.Msg) {
		select {
		case r.msgs <- m:
		case <-r.done:
		}
	})
	return r, err
}

// consume calls take for each message of a stream from a sequence on, from one
// goroutine.
func consume(ctx context.Context, js jetstream.JetStream, stream string, filters []string, from uint64, log *slog.Logger, take func(jetstream.Msg)) (jetstream.ConsumeContext, error) {
	st, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("looking up stream %s: %w", stream, err)
	}
	// A start below the first sequence would silently skip what was trimmed;
	// whether that is lawful is the caller's to say, who checks it first.
	cons, err := st.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects:    filters,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       max(from, 1),
		InactiveThreshold: time.Minute,
		MaxResetAttempts:  -1,
	})
	if err != nil {
		return nil, fmt.Errorf("creating a consumer on %s: %w", stream, err)
	}
	cc, err := cons.Consume(take, jetstream.PullMaxMessages(readAhead), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		if !errors.Is(err, jetstream.ErrNoHeartbeat) {
			log.Debug("consumer", "stream", stream, "err", err)
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", stream, err)
	}
	return cc, nil
}

// close stops the reader. Messages that it still holds are dropped.
func (r *reader) close() {
	close(r.done)
	r.cc.Stop()
	<-r.cc.Closed()
}
