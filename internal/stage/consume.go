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

	"lazaret/streams"
)

// How fast a reader finds out that nothing reaches it any more, and how it begins
// anew. The ordered consumer of nats.go takes 30 s to miss a server that died with
// its consumer and then waits 10 s for each answer of a cluster that has no leader
// yet; meanwhile no verdict is given.
const (
	readAhead      = 2048                   // messages that a reader asks for at once
	readAheadBytes = 32 << 20               // and their bytes, unless one alone has more
	pullLives      = 30 * time.Second       // a request for them
	heartbeat      = time.Second            // of an idle consumer; when none comes for twice as long it is lost
	quietFor       = 3 * time.Second        // after which an idle consumer is asked what it has sent, each time
	startMost      = 10 * time.Second       // for a server whose API nobody serves yet
	reopenFirst    = time.Second            // for the answer to the first try
	reopenMost     = 10 * time.Second       // for the answer to any
	reopenEvery    = 200 * time.Millisecond // between two tries
	consumerLives  = time.Minute            // without anybody who asks for messages
)

var (
	errDeaf      = errors.New("no heartbeat of the consumer came")
	errGap       = errors.New("a message is missing")
	errReconnect = errors.New("the connection was made anew")
)

// consumption calls take for each message of a stream from a sequence on, from one
// goroutine at a time, in order and without a gap, until it is stopped. Nothing is
// acknowledged and nothing is redelivered. If its consumer is gone, or a message was
// lost, it begins another consumer at the same place.
type consumption struct {
	js      jetstream.JetStream
	stream  string
	filters []string
	headers bool      // without the messages' data
	since   time.Time // if set, where to begin as long as next is 0
	take    func(jetstream.Msg)
	log     *slog.Logger

	next   uint64 // sequence to go on with; owned by the consumer's goroutine while there is one
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
}

// consume begins to read stream from sequence from (at least 1), only subjects that
// match filters if there are any.
func consume(ctx context.Context, js jetstream.JetStream, stream string, filters []string, from uint64,
	log *slog.Logger, take func(jetstream.Msg)) (*consumption, error) {
	c := &consumption{js: js, stream: stream, filters: filters, take: take, log: log, next: max(from, 1)}
	return c, c.start(ctx)
}

func (c *consumption) start(ctx context.Context) error {
	c.ended = make(chan struct{})
	var s *sitting
	err := served(ctx, func() (err error) { s, err = c.open(ctx); return err })
	if err != nil {
		return err
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	go c.keep(s)
	return nil
}

// Stream looks a stream up, as soon as the server's API is served.
func Stream(ctx context.Context, js jetstream.JetStream, name string) (st jetstream.Stream, err error) {
	err = served(ctx, func() (err error) { st, err = js.Stream(ctx, name); return err })
	if err != nil {
		return nil, fmt.Errorf("looking up stream %s: %w", name, err)
	}
	return st, nil
}

// served repeats ask while no server answers: a server that starts, or takes up changed
// accounts, has no subscriber on the subjects of its API for a moment. It then serves the
// API before it has recovered its streams, so that a stream which is not found after such
// a moment is asked for again, too.
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

// Patiently calls ask until it returns, or ctx ends. It calls again where the server did not answer
// in time, as under load, and where the connection broke meanwhile. Each repetition is logged with
// doing, the name of the task that waits for the answer.
func Patiently(ctx context.Context, log *slog.Logger, doing string, ask func() error) error {
	for {
		err := ask()
		late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
			errors.Is(err, nats.ErrDisconnected)
		if !late || ctx.Err() != nil {
			return err
		}
		log.Warn("the server did not answer, it is asked again", "for", doing, "err", err)
		if err := sleep(ctx, reopenEvery); err != nil {
			return err
		}
	}
}

// stop ends it. take is not called any more when it returns.
func (c *consumption) stop() {
	c.cancel()
	<-c.ended
}

// keep replaces the consumer when it is lost.
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

// remove deletes an unused consumer; the server removes it later if this fails.
func (c *consumption) remove(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), reopenMost)
	defer cancel()
	_ = c.js.DeleteConsumer(ctx, c.stream, name)
}

// stored is a message as its stream stored it. Nothing is acknowledged, so only
// what is overridden here may be called.
type stored struct {
	jetstream.Msg
	m  *nats.Msg
	md *jetstream.MsgMetadata
}

func (s *stored) Metadata() (*jetstream.MsgMetadata, error) { return s.md, nil }
func (s *stored) Subject() string                           { return s.m.Subject }
func (s *stored) Headers() nats.Header                      { return s.m.Header }
func (s *stored) Data() []byte                              { return s.m.Data }

// sitting is one consumer of a consumption.
//
// It sends its own pull requests and does not use the pull consumers of nats.go. Those
// mistake a stored message with a Status header and no data for a status of the server, so a
// publisher could end them again and again. Here a message is from the server if its subject
// is that of the inbox, which no stored message has.
type sitting struct {
	cons  jetstream.Consumer
	inbox string
	sub   *nats.Subscription
	lost  chan error    // why it is lost
	came  atomic.Uint64 // messages that arrived, which the server numbers
	heard atomic.Int64  // when anything arrived, in Unix nanoseconds

	mu   sync.Mutex // held while take is called
	over bool       // guarded by mu
	want int        // guarded by mu; messages of the request that is open
}

func (c *consumption) open(ctx context.Context) (*sitting, error) {
	nc := c.js.Conn()
	s := &sitting{lost: make(chan error, 1), inbox: nc.NewInbox()}
	// A start below the first sequence would silently skip what was trimmed;
	// whether that is lawful is the caller's to say, who checks it first.
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
		// One request at a time bounds what may wait here.
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

// pull asks for the next n messages, of at most so many bytes in all; 0 is no bound.
// Guarded by mu.
func (c *consumption) pull(s *sitting, n, bytes int) error {
	s.want = n
	req := struct {
		Expires   int64 `json:"expires"` // nanoseconds, as is Heartbeat
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

// arrived takes a message, or a word of the server's.
func (c *consumption) arrived(s *sitting, m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.heard.Store(time.Now().UnixNano()) }()
	if s.over {
		return
	}
	n, bytes := readAhead, readAheadBytes
	if m.Subject == s.inbox {
		switch status, said := m.Header.Get("Status"), strings.ToLower(m.Header.Get("Description")); {
		case status == "100", status == "409" && strings.Contains(said, "batch completed"):
			return
		case status == "408":
		case status == "409" && strings.Contains(said, "maxbytes"):
			if s.want == readAhead {
				n, bytes = 1, 0 // the next message alone is larger
			}
		default:
			s.lose(fmt.Errorf("the server ended it: %s %s", status, said))
			return
		}
	} else {
		if err := c.taken(s, m); err != nil {
			s.over = true
			s.lose(err)
			return
		}
		if s.want--; s.want > 0 {
			return
		}
	}
	if err := c.pull(s, n, bytes); err != nil {
		s.lose(err)
	}
}

// taken hands a message over. Guarded by s.mu.
func (c *consumption) taken(s *sitting, m *nats.Msg) error {
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

func (s *sitting) lose(err error) {
	select {
	case s.lost <- err:
	default:
	}
}

// until waits until the consumer is lost and returns why, or nil when ctx ends. A gap
// shows in the number of the next message, or, if none comes, in the number of sent
// messages.
func (s *sitting) until(ctx context.Context, status <-chan nats.Status) error {
	quiet := time.NewTicker(quietFor)
	defer quiet.Stop()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
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
			continue // the stage has no room
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
		case short: // twice: it is not in transit
			return errGap
		default:
			short = true
		}
	}
}

// deaf reports whether nothing came although something should have.
func (s *sitting) deaf() bool {
	if !s.mu.TryLock() {
		return false // the stage has no room
	}
	defer s.mu.Unlock()
	if n, _, err := s.sub.Pending(); err != nil || n > 0 {
		return err != nil
	}
	return time.Since(time.Unix(0, s.heard.Load())) > 2*heartbeat+heartbeat/2
}

// end returns when take is not called any more.
func (s *sitting) end() {
	_ = s.sub.Unsubscribe() // the connection may have gone first
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
}
