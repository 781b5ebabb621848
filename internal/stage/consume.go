package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// How fast a reader finds out that nothing reaches it any more, and how it begins
// anew. The ordered consumer of nats.go takes 30 s to miss a server that died with
// its consumer and then waits 10 s for each answer of a cluster that has no leader
// yet; meanwhile no verdict is given.
const (
	readAhead     = 2048                   // messages that a reader holds for its stage
	heartbeat     = time.Second            // of an idle consumer; two that are missing end it
	quietFor      = 3 * time.Second        // after which an idle consumer is asked what it has sent, each time
	reopenFirst   = time.Second            // for the answer to the first try
	reopenMost    = 10 * time.Second       // for the answer to any
	reopenEvery   = 200 * time.Millisecond // between two tries
	consumerLives = time.Minute            // without anybody who asks for messages
)

var (
	errGap       = errors.New("a message is missing")
	errReconnect = errors.New("the connection was made anew")
)

// consumption calls take for each message of a stream from a sequence on, from one
// goroutine at a time, in order and without a gap, until it is stopped. Nothing is
// acknowledged and nothing is redelivered, so what comes out is the stream. When
// its consumer is gone, or sent what did not arrive, it begins another one where it
// was.
type consumption struct {
	js      jetstream.JetStream
	stream  string
	filters []string
	take    func(jetstream.Msg)
	log     *slog.Logger

	next   uint64 // sequence to go on with; owned by the consumer's goroutine while there is one
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
}

// consume begins to read stream from sequence from (at least 1), only subjects that
// match filters if there are any.
func consume(ctx context.Context, js jetstream.JetStream, stream string, filters []string, from uint64, log *slog.Logger, take func(jetstream.Msg)) (*consumption, error) {
	c := &consumption{js: js, stream: stream, filters: filters, take: take, log: log, next: max(from, 1),
		ended: make(chan struct{})}
	s, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	go c.keep(s)
	return c, nil
}

// stop ends it. take is not called any more when it returns.
func (c *consumption) stop() {
	c.cancel()
	<-c.ended
}

// keep sees to it that there is a consumer.
func (c *consumption) keep(s *sitting) {
	defer close(c.ended)
	status := c.js.Conn().StatusChanged(nats.CONNECTED)
	defer c.js.Conn().RemoveStatusListener(status)
	for {
		err := s.until(c.ctx, status)
		s.end()
		go c.remove(s.cons.CachedInfo().Name)
		if err == nil {
			return
		}
		c.log.Info("reading anew", "stream", c.stream, "from", c.next, "why", err)
		for within := reopenFirst; ; within = min(2*within, reopenMost) {
			for len(status) > 0 {
				<-status
			}
			ctx, cancel := context.WithTimeout(c.ctx, within)
			s, err = c.open(ctx)
			cancel()
			if err == nil {
				break
			}
			if c.ctx.Err() == nil && !errors.Is(err, nats.ErrConnectionClosed) {
				c.log.Warn("cannot read", "stream", c.stream, "from", c.next, "err", err)
			}
			select {
			case <-c.ctx.Done():
				return
			case <-time.After(reopenEvery):
			}
		}
	}
}

// remove spares the server a consumer that nobody asks any more; it goes by itself
// if this fails.
func (c *consumption) remove(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), reopenMost)
	defer cancel()
	_ = c.js.DeleteConsumer(ctx, c.stream, name)
}

// sitting is one consumer of a consumption.
type sitting struct {
	cons jetstream.Consumer
	cc   jetstream.ConsumeContext
	lost chan error    // why it is of no use any more
	came atomic.Uint64 // messages that arrived, which the server numbers

	mu   sync.Mutex // held while take is called
	over bool       // guarded by mu
}

func (c *consumption) open(ctx context.Context) (*sitting, error) {
	s := &sitting{lost: make(chan error, 1)}
	// A start below the first sequence would silently skip what was trimmed;
	// whether that is lawful is the caller's to say, who checks it first.
	cfg := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: c.next,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: consumerLives, Replicas: 1, MemoryStorage: true,
	}
	if len(c.filters) == 1 {
		cfg.FilterSubject = c.filters[0]
	} else {
		cfg.FilterSubjects = c.filters
	}
	var err error
	if s.cons, err = c.js.CreateConsumer(ctx, c.stream, cfg); err != nil {
		return nil, fmt.Errorf("creating a consumer on %s: %w", c.stream, err)
	}
	s.cc, err = s.cons.Consume(func(m jetstream.Msg) { c.taken(s, m) },
		jetstream.PullMaxMessages(readAhead), jetstream.PullHeartbeat(heartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			for _, gone := range []error{jetstream.ErrNoHeartbeat, jetstream.ErrConsumerDeleted, jetstream.ErrBadRequest, nats.ErrNoResponders} {
				if errors.Is(err, gone) {
					s.lose(err)
					return
				}
			}
			c.log.Debug("consumer", "stream", c.stream, "err", err)
		}))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", c.stream, err)
	}
	return s, nil
}

func (c *consumption) taken(s *sitting, m jetstream.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	md, err := m.Metadata()
	if err == nil && md.Sequence.Consumer != s.came.Load()+1 {
		err = errGap
	}
	if err != nil {
		s.over = true
		s.lose(err)
		return
	}
	c.take(m)
	c.next = md.Sequence.Stream + 1
	s.came.Add(1)
}

func (s *sitting) lose(err error) {
	select {
	case s.lost <- err:
	default:
	}
}

// until waits until the consumer is of no use any more and says why, or nil when
// ctx ends. What is lost on its way is missed by the number of the next
// message; if none comes, by asking how many were sent.
func (s *sitting) until(ctx context.Context, status <-chan nats.Status) error {
	quiet := time.NewTicker(quietFor)
	defer quiet.Stop()
	var before uint64 // messages at the last tick
	short := false    // more had been sent at the last tick
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.lost:
			return err
		case <-status:
			return errReconnect
		case <-quiet.C:
		}
		if came := s.came.Load(); came != before {
			before, short = came, false
			continue
		}
		if !s.mu.TryLock() {
			continue // the stage has no room for what came
		}
		s.mu.Unlock()
		soon, cancel := context.WithTimeout(ctx, quietFor)
		info, err := s.cons.Info(soon)
		cancel()
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound):
			return err
		case err != nil || info.Delivered.Consumer <= before:
			short = false
		case short: // twice, so that it is not on its way
			return errGap
		default:
			short = true
		}
	}
}

// end returns when take is not called any more.
func (s *sitting) end() {
	s.cc.Stop()
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
}
