package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// LoadOptions configure a load.
type LoadOptions struct {
	Events, Projects int
	Size             int      // bytes of content; 0: 1 KiB
	Batch            int      // observations per message; 0 and 1: one
	Subjects         []string // intake subjects, one for each project
	PerSecond        float64  // observations, at most; 0: as fast as they are acknowledged
	Distinct         bool     // no two observations have the same text
}

// LoadReport is the result of a load.
type LoadReport struct {
	Seconds float64 `json:"seconds"` // from the first publish to the last acknowledgement
	Refused int     `json:"refused"` // publishes that the server refused; the client repeated them
}

// PublishMany publishes observations over one connection for each subject. It repeats publishes that the
// server refuses.
func PublishMany(ctx context.Context, conns []*nats.Conn, o LoadOptions) (*LoadReport, error) {
	bodies := make([][]byte, 512)
	corpus := newCorpus(78)
	for i := range bodies {
		text := prose(corpus, cmp.Or(o.Size, eventSize))
		b, err := streams.Marshal(&streams.Observation{Head: streams.Head{Session: fmt.Sprintf("b%d", i%64)},
			Tool: "web.search", Source: "https://" + corpus.pick(corpus.hosts) + "/", Content: text})
		if err != nil {
			return nil, err
		}
		bodies[i] = b
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rep := new(LoadReport)
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now()
	for p, nc := range conns {
		n := o.Events / len(conns)
		if p < o.Events%len(conns) {
			n++
		}
		wg.Go(func() {
			s := sender{nc: nc, subject: o.Subjects[p], prefix: fmt.Sprintf("p%d", p), batch: max(o.Batch, 1),
				body: func(i int) []byte { return bodies[i%len(bodies)] }}
			if o.PerSecond > 0 {
				s.pause = time.Duration(float64(s.batch*len(conns)) / o.PerSecond * float64(time.Second))
			}
			if o.Distinct {
				s.body = distinct(uint64(p), cmp.Or(o.Size, eventSize))
			}
			refused, err := s.publish(ctx, n, max(8192/len(conns), 256))
			if err != nil {
				cancel(err)
			}
			mu.Lock()
			defer mu.Unlock()
			rep.Refused += refused
		})
	}
	wg.Wait()
	rep.Seconds = time.Since(began).Seconds()
	return rep, context.Cause(ctx)
}

// sender publishes observations on one subject.
type sender struct {
	nc              *nats.Conn
	subject, prefix string
	batch           int                // observations per message
	body            func(i int) []byte // returns the body of observation i
	pause           time.Duration      // minimum time between two messages
}

// distinct returns a function that returns the body of observation i. Each body has a different text.
func distinct(project uint64, size int) func(i int) []byte {
	corpus := newCorpus(project)
	return func(i int) []byte {
		corpus.r = rand.New(rand.NewPCG(project+1, uint64(i)))
		b, err := streams.Marshal(&streams.Observation{Head: streams.Head{Session: fmt.Sprintf("s%d", i/64)},
			Tool: "web.search", Source: "https://" + corpus.pick(corpus.hosts) + "/", Content: corpus.prose(size)})
		if err != nil {
			panic(err) // the observation is valid
		}
		return b
	}
}

// message returns a message with n observations, numbered from first.
func (s *sender) message(first, n int) *nats.Msg {
	m := nats.NewMsg(s.subject)
	if s.batch == 1 {
		m.Header.Set(streams.HeaderCloudEventID, fmt.Sprintf("%s-%d", s.prefix, first))
		m.Data = s.body(first)
		return m
	}
	m.Header.Set(streams.HeaderContentType, streams.BatchContentType)
	for i := first; i < first+n; i++ {
		sep := byte(',')
		if i == first {
			sep = '['
		}
		m.Data = append(m.Data, sep)
		m.Data = fmt.Appendf(m.Data, `{"specversion":"1.0","id":"%s-%d","source":"bench","type":"lazaret.event","data":`,
			s.prefix, i)
		m.Data = append(append(m.Data, s.body(i)...), '}')
	}
	m.Data = append(m.Data, ']')
	return m
}

// refusedPause is how long a sender waits after the server refused a message because the intake is full. The
// intake then has some seconds of work, and each refusal costs the server about as much as a message.
const refusedPause = 100 * time.Millisecond

// windowGrows is the number of acknowledgments after which the window grows by one message.
const windowGrows = 16

// publish publishes observations. The window limits how many messages are unacknowledged; together they have
// at most inFlight observations. A refusal halves the window, which then grows again. When no message is
// unacknowledged, publish repeats the refused messages with the same ids.
func (s *sender) publish(ctx context.Context, events, inFlight int) (refused int, err error) {
	n := (events + s.batch - 1) / s.batch // number of messages
	most, least := max(inFlight/s.batch, 4), max(64/s.batch, 1)
	js, err := jetstream.New(s.nc, jetstream.WithPublishAsyncMaxPending(2*most))
	if err != nil {
		return 0, err
	}
	type sent struct {
		i   int
		ack jetstream.PubAckFuture
	}
	var open []sent
	var again []int // refused messages
	next, acked, window, full := 0, 0, most, false
	began := time.Now()
	publish := func(i int) error {
		m := s.message(i*s.batch, min(s.batch, events-i*s.batch))
		ack, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute), jetstream.WithRetryAttempts(0))
		if err == nil {
			open = append(open, sent{i, ack})
		}
		return err
	}
	for next < n || len(open)+len(again) > 0 {
		for !full && len(open) < window && (len(again) > 0 || next < n) {
			i := next
			if len(again) > 0 {
				i, again = again[0], again[1:]
			} else {
				time.Sleep(time.Until(began.Add(time.Duration(next) * s.pause)))
				next++
			}
			if err := publish(i); err != nil {
				return refused, err
			}
		}
		first := open[0]
		open = open[1:]
		select {
		case <-first.ack.Ok():
			if acked++; acked%windowGrows == 0 {
				window = min(window+1, most)
			}
		case err := <-first.ack.Err():
			var api *jetstream.APIError
			if !errors.As(err, &api) {
				return refused, fmt.Errorf("publishing to %s: %w", s.subject, err)
			}
			refused++
			full, again = true, append(again, first.i)
		case <-ctx.Done():
			return refused, ctx.Err()
		}
		if full && len(open) == 0 {
			full, window = false, max(window/2, least)
			select {
			case <-ctx.Done():
				return refused, ctx.Err()
			case <-time.After(refusedPause):
			}
		}
	}
	return refused, nil
}
