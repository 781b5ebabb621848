package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/wire"
	"lazaret/streams"
)

// Limits for detecting that a consumer no longer delivers, and for replacing it. The ordered consumer of nats.go needs
// 30 s to notice that a server died with its consumer, and then waits 10 s for each answer of a cluster without a
// leader. During that time, no verdict would be given.
const (
	readAhead = 512 // messages in one pull request
	// Maximum size in bytes of the messages of one pull request, unless a single message is larger or
	// consumption.large is set.
	readAheadBytes = 1 << 20
	// largeAhead is the number of large messages that a pull request may bring if consumption.large is set.
	largeAhead = 16
	pullLives  = 30 * time.Second // lifetime of a pull request
	// Interval of heartbeats of an idle consumer; after 2.5 s without one, the consumer counts as lost.
	heartbeat = time.Second
	// After this time without a message, the server is asked how many messages it has sent.
	quietFor      = 3 * time.Second
	startMost     = 10 * time.Second       // how long to repeat a request while a starting server does not serve its API
	reopenFirst   = time.Second            // timeout of the first attempt to create another consumer
	reopenMost    = 10 * time.Second       // maximum timeout of later attempts; each doubles the one before
	reopenEvery   = 200 * time.Millisecond // pause between two attempts
	consumerLives = time.Minute            // how long the server keeps a consumer that receives no pull requests
)

var (
	errDeaf      = errors.New("the consumer sent no heartbeat")
	errGap       = errors.New("a message is missing")
	errReconnect = errors.New("the connection was re-established")
)

// consumption reads a stream from a sequence on. It calls take for each message, in order and without gaps, never two
// calls at a time, until it is stopped. Messages are neither acknowledged nor redelivered. When its consumer is lost,
// or a message did not arrive, the consumption creates another consumer that starts at the missing sequence.
type consumption struct {
	js      jetstream.JetStream
	stream  string
	filters []string
	headers bool // omit the messages' data
	// Set for the intake: a pull request may bring largeAhead messages of the size of the largest recent one, even if
	// these exceed readAheadBytes. Otherwise each large message would take a round trip, and one agent could fill the
	// intake faster than ingest reads and rejects its messages.
	large bool
	since time.Time // if set and next is 0, reading starts at the first message of this time or later
	take  func(jetstream.Msg)
	log   *slog.Logger

	next   uint64 // sequence of the next message to pass to take; after start, only the consumer's goroutine uses it
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
}

// consume starts to read a stream. from is the first sequence to read, at least 1. If there are filters, it reads only
// the subjects that match one of them.
func consume(ctx context.Context, js jetstream.JetStream, stream string, filters []string, from uint64,
	log *slog.Logger, take func(jetstream.Msg)) (*consumption, error) {
	c := &consumption{js: js, stream: stream, filters: filters, take: take, log: log, next: max(from, 1)}
	c.large = stream == streams.IntakeStream
	return c, c.start(ctx)
}

func (c *consumption) start(ctx context.Context) error {
	c.ended = make(chan struct{})
	var s *puller
	err := served(ctx, func() (err error) { s, err = c.open(ctx); return err })
	if err != nil {
		return err
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	go c.keep(s)
	return nil
}

// Stream returns the stream with the given name. It waits until the server serves the JetStream API.
func Stream(ctx context.Context, js jetstream.JetStream, name string) (st jetstream.Stream, err error) {
	err = served(ctx, func() (err error) { st, err = js.Stream(ctx, name); return err })
	if err != nil {
		return nil, fmt.Errorf("looking up stream %s: %w", name, err)
	}
	return st, nil
}

// served calls ask, and repeats it while no server serves the JetStream API. A server that starts or applies changed
// accounts has no subscriber on its API subjects for a moment. After that it serves the API before it has recovered its
// streams. So, once the API was missing, served also repeats ask when a stream is not found.
func served(ctx context.Context, ask func() error) error {
	err := ask()
	starts := errors.Is(err, nats.ErrNoResponders)
	for began := time.Now(); starts && time.Since(began) < startMost; err = ask() {
		if !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(reopenEvery):
		}
	}
	return err
}

// Patiently calls ask until ask succeeds, fails permanently, or ctx ends. It repeats ask after a timeout and after a
// broken connection; timeouts happen under load. It logs each repetition. doing names the purpose of the request in the
// log.
func Patiently(ctx context.Context, log *slog.Logger, doing string, ask func() error) error {
	for {
		err := ask()
		late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
			errors.Is(err, nats.ErrDisconnected)
		if !late || ctx.Err() != nil {
			return err
		}
		log.Warn("the server did not answer; the request is sent again", "for", doing, "err", err)
		if err := sleep(ctx, reopenEvery); err != nil {
			return err
		}
	}
}

// stop ends the consumption. After it returns, take is not called any more.
func (c *consumption) stop() {
	c.cancel()
	<-c.ended
}

// keep replaces the consumer whenever it is lost, until the consumption is stopped.
func (c *consumption) keep(s *puller) {
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
		c.log.Info("reading with a new consumer", "stream", c.stream, "from", c.next, "why", err)
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

// remove deletes a consumer that is no longer read. If that fails, the server deletes the consumer after consumerLives.
func (c *consumption) remove(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), reopenMost)
	defer cancel()
	_ = c.js.DeleteConsumer(ctx, c.stream, name)
}

// stored is a message of a consumer that needs no acknowledgements. It implements only the methods that are defined
// here. Any other method of jetstream.Msg, such as Ack, panics.
type stored struct {
	jetstream.Msg
	m  *nats.Msg
	md *jetstream.MsgMetadata
}

func (s *stored) Metadata() (*jetstream.MsgMetadata, error) { return s.md, nil }
func (s *stored) Subject() string                           { return s.m.Subject }
func (s *stored) Headers() nats.Header                      { return wire.Stored(s.m.Header) }
func (s *stored) Data() []byte                              { return s.m.Data }

// puller is one consumer of a consumption.
//
// It sends its own pull requests and does not use the pull consumers of nats.go. Those mistake a stored message that
// has a Status header and no data for a status message of the server. So anybody who may publish to the stream could
// stop pull consumers again and again. Here, a message counts as one of the server if its subject is the inbox. No
// stored message has that subject.
type puller struct {
	cons  jetstream.Consumer
	inbox string
	sub   *nats.Subscription
	lost  chan error    // receives the reason once the consumer is lost
	came  atomic.Uint64 // number of messages received, to compare with the consumer sequence that the server counts
	heard atomic.Int64  // time of the last arrival, in Unix nanoseconds

	mu   sync.Mutex // held while take runs
	over bool       // set once no more messages may be passed to take; guarded by mu
	want int        // messages that the current pull request may still bring; guarded by mu
	room int        // bytes that these may still take; 0 or less if there is no limit; guarded by mu
	// Size in bytes of the largest recent message: with each smaller message it decreases by a sixteenth; guarded by mu.
	largest int
}

func (c *consumption) open(ctx context.Context) (*puller, error) {
	nc := c.js.Conn()
	s := &puller{lost: make(chan error, 1), inbox: nc.NewInbox()}
	// If the stream now begins after c.next, the server skips the trimmed messages without an error. The caller must
	// check first whether messages may be missing.
	cfg := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: c.next, HeadersOnly: c.headers,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: consumerLives, Replicas: 1, MemoryStorage: true,
	}
	if c.next == 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, 0, &c.since
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
	s.heard.Store(time.Now().UnixNano())
	if s.sub, err = nc.Subscribe(s.inbox, func(m *nats.Msg) { c.arrived(s, m) }); err == nil {
		// Only one pull request is open at a time. It already limits the number of pending messages.
		err = s.sub.SetPendingLimits(-1, -1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = c.pull(s, readAhead, readAheadBytes)
	}
	if err != nil {
		s.over = true
		if s.sub != nil {
			_ = s.sub.Unsubscribe()
		}
		return nil, fmt.Errorf("reading %s: %w", c.stream, err)
	}
	return s, nil
}

// pull requests the next n messages, of at most the given size in bytes together; 0 means no limit. The caller must
// hold mu.
func (c *consumption) pull(s *puller, n, bytes int) error {
	s.want, s.room = n, bytes
	req := struct {
		Expires   int64 `json:"expires"` // nanoseconds, like Heartbeat
		Batch     int   `json:"batch"`
		MaxBytes  int   `json:"max_bytes,omitzero"`
		Heartbeat int64 `json:"idle_heartbeat"`
	}{pullLives.Nanoseconds(), n, bytes, heartbeat.Nanoseconds()}
	body, err := streams.Marshal(req)
	if err != nil {
		return err
	}
	subject := "$JS.API.CONSUMER.MSG.NEXT." + c.stream + "." + s.cons.CachedInfo().Name
	return c.js.Conn().PublishRequest(subject, s.inbox, body)
}

// arrived handles a message of the stream or a status message of the server.
func (c *consumption) arrived(s *puller, m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.heard.Store(time.Now().UnixNano()) }()
	if s.over {
		return
	}
	n, bytes := readAhead, readAheadBytes
	if c.large {
		bytes = max(bytes, largeAhead*s.largest)
	}
	if m.Subject == s.inbox {
		switch status, said := m.Header.Get("Status"), strings.ToLower(m.Header.Get("Description")); {
		case status == "100", status == "409" && strings.Contains(said, "batch completed"):
			return
		case status == "408":
		case status == "409" && strings.Contains(said, "maxbytes"):
			if s.want == readAhead {
				n, bytes = 1, 0 // the next message is larger than the limit, so request it alone
			}
		default:
			s.lose(fmt.Errorf("the server ended the pull request: %s %s", status, said))
			return
		}
	} else {
		if err := c.taken(s, m); err != nil {
			s.over = true
			s.lose(err)
			return
		}
		s.largest = max(m.Size(), s.largest-s.largest/16)
		limited := s.room > 0
		s.room -= m.Size()
		// If the messages fill a pull request to its last byte, the server ends it without a status message.
		if s.want--; s.want > 0 && !(limited && s.room == 0) {
			return
		}
	}
	if err := c.pull(s, n, bytes); err != nil {
		s.lose(err)
	}
}

// taken passes a stream message to take. The caller must hold s.mu.
func (c *consumption) taken(s *puller, m *nats.Msg) error {
	md, err := m.Metadata()
	if err != nil {
		return err
	}
	if md.Sequence.Consumer != s.came.Load()+1 {
		return errGap
	}
	c.take(&stored{m: m, md: &jetstream.MsgMetadata{
		Sequence:     jetstream.SequencePair{Consumer: md.Sequence.Consumer, Stream: md.Sequence.Stream},
		NumDelivered: md.NumDelivered, NumPending: md.NumPending, Timestamp: md.Timestamp,
		Stream: md.Stream, Consumer: md.Consumer, Domain: md.Domain,
	}})
	c.next = md.Sequence.Stream + 1
	s.came.Add(1)
	return nil
}

func (s *puller) lose(err error) {
	select {
	case s.lost <- err:
	default:
	}
}

// until waits until the consumer is lost and returns the reason, or nil when ctx ends. A message that did not arrive is
// noticed in one of two ways. If another message follows, its number is not the expected one. If none follows, the
// server says that it has sent more messages than were received.
func (s *puller) until(ctx context.Context, status <-chan nats.Status) error {
	quiet := time.NewTicker(quietFor)
	defer quiet.Stop()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	var before uint64 // number of messages at the last tick
	short := false    // set if the server had sent more messages than arrived, at the last tick
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.lost:
			return err
		case <-status:
			return errReconnect
		case <-beat.C:
			if s.deaf() {
				return errDeaf
			}
			continue
		case <-quiet.C:
		}
		if came := s.came.Load(); came != before {
			before, short = came, false
			continue
		}
		if !s.mu.TryLock() {
			continue // take has not returned: the stage is busy
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
		case short: // short at two ticks in a row, so the missing messages are not just on their way
			return errGap
		default:
			short = true
		}
	}
}

// deaf reports whether neither a message nor a heartbeat arrived for too long.
func (s *puller) deaf() bool {
	if !s.mu.TryLock() {
		return false // take has not returned: the stage is busy
	}
	defer s.mu.Unlock()
	if n, _, err := s.sub.Pending(); err != nil || n > 0 {
		return err != nil
	}
	return time.Since(time.Unix(0, s.heard.Load())) > 2*heartbeat+heartbeat/2
}

// end stops the consumer. After it returns, take is not called any more.
func (s *puller) end() {
	_ = s.sub.Unsubscribe() // the connection may be closed already
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
}
