package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Limits of one feed.
const (
	feedMessages = 1024    // messages queued for a slow client
	feedBytes    = 8 << 20 // bytes queued for a slow client
	heartbeat    = 15 * time.Second
	checkToken   = time.Second
	storeTime    = 5 * time.Millisecond // delay between the live copy of a message and reading it from the stream
)

var projects = []param{{"project", "only of this project"}}

// feedOf returns a function that selects the live subject of a feed for a session. The session of an agent gets
// holds of this agent only; a session without an agent gets messages of all projects.
func feedOf(what string) func(s *session) string {
	return func(s *session) string {
		switch {
		case what == "hold" && s.agent != "":
			return "lz.live." + s.project + ".hold." + s.agent + ".>"
		case s.agent != "":
			return "lz.live." + s.project + "." + what + ".>" // the server denies this
		}
		return "lz.live.*." + what + ".>"
	}
}

// feed streams the messages of a live subject as server-sent events. It ends when the client
// disconnects, the token expires or is revoked, or the gateway closes.
func (c *call) feed(w http.ResponseWriter, e *endpoint) error {
	leave, ok := enter(c.users.waiting)
	if !ok {
		return tooMany(MaxWaiting, "wait")
	}
	defer leave()
	c.leave()
	subject := e.feed(c.s)
	if p := c.r.URL.Query().Get("project"); p != "" {
		if err := streams.CheckID("project", p); err != nil {
			return problem(streams.CodeRequest, "%v", err)
		}
		subject = "lz.live." + p + strings.TrimPrefix(subject, "lz.live."+strings.Split(subject, ".")[2])
	}
	last, err := lastEvent(c.r.Header)
	if err != nil {
		return err
	}
	var from source
	if c.s.agent != "" {
		from, err = listen(c.ctx, c.s.nc, subject)
	} else {
		from, err = follow(c.ctx, c.s.nc, subject, last)
	}
	if err != nil {
		return err
	}
	defer from.stop()
	rc := http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	send := func(b []byte) bool {
		rc.SetWriteDeadline(time.Now().Add(writeTime))
		_, err := w.Write(b)
		return err == nil && rc.Flush() == nil
	}
	if !send([]byte(": listening to " + subject + "\n\n")) {
		return nil
	}
	// Tell the client that it may have missed events: the stream has dropped them, or the credential is an
	// agent's, which may not read the stream.
	if last > 0 && !from.resumed && !send([]byte(lost)) {
		return nil
	}
	for quiet := time.Now(); ; {
		ctx, cancel := context.WithTimeout(c.ctx, checkToken)
		b, err := from.next(ctx)
		cancel()
		switch {
		case err == nil:
			quiet = time.Now()
			if !send(b) {
				return nil
			}
			continue
		case c.ctx.Err() != nil || !c.find():
			return nil
		case errors.Is(err, nats.ErrSlowConsumer):
			send([]byte(lost))
			return nil
		case !errors.Is(err, context.DeadlineExceeded):
			return nil // the connection closed
		}
		if time.Since(quiet) >= heartbeat {
			if quiet = time.Now(); !send([]byte(":\n\n")) {
				return nil
			}
		}
	}
}

// lost is the event that tells the client that it missed events.
const lost = "event: lost\ndata: {}\n\n"

// source supplies the events of a feed.
type source struct {
	next    func(ctx context.Context) ([]byte, error)
	stop    func()
	resumed bool // no event is missing after the last event that the client received
}

// lastEvent returns the stream position in the client's Last-Event-ID, or 0 if there is none.
func lastEvent(h http.Header) (uint64, error) {
	v := h.Get("Last-Event-ID")
	if v == "" {
		return 0, nil
	}
	_, position, _ := strings.Cut(v, "-")
	n, err := strconv.ParseUint(position, 10, 64)
	if err != nil || n == 0 {
		return 0, problem(streams.CodeRequest, "Last-Event-ID is %q: send the unchanged id of an "+
			"event", streams.Clip(v, 80))
	}
	return n, nil
}

// listen subscribes to new messages of a subject. It returns once the server has allowed or denied the
// subscription.
func listen(ctx context.Context, nc *nats.Conn, subject string) (source, error) {
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		return source{}, problem(streams.CodeUnavailable, "subscribing to %s: %v", subject, err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var first *nats.Msg // first message received before the server confirmed
	if err = sub.SetPendingLimits(feedMessages, feedBytes); err == nil {
		err = nc.FlushWithContext(ctx)
	}
	if err == nil {
		first, err = sub.NextMsg(time.Millisecond)
	}
	if err != nil && !errors.Is(err, nats.ErrTimeout) {
		sub.Unsubscribe()
		if errors.Is(err, nats.ErrPermissionViolation) {
			return source{}, problem(streams.CodeForbidden, "%v: %s", errDenied, subject)
		}
		return source{}, problem(streams.CodeUnavailable, "subscribing to %s: %v", subject, err)
	}
	next := func(ctx context.Context) ([]byte, error) {
		for {
			m, err := first, error(nil)
			if first = nil; m == nil {
				m, err = sub.NextMsgWithContext(ctx)
			}
			if err != nil {
				return nil, err
			}
			if byStage(m.Header, m.Data) {
				return event(m.Subject, m.Header, m.Data, 0), nil
			}
		}
	}
	return source{next: next, stop: func() { sub.Unsubscribe() }}, nil
}

// follow reads the live stream after position last, or only new messages if last is 0. It requests messages
// from the stream one at a time, because a viewer may not create consumers. A plain subscription to the subject
// tells it when to request the next one.
func follow(ctx context.Context, nc *nats.Conn, subject string, last uint64) (source, error) {
	live, err := listen(ctx, nc, subject)
	if err != nil {
		return source{}, err
	}
	start, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	js, err := jetstream.New(nc)
	var st jetstream.Stream
	if err == nil {
		st, err = js.Stream(start, streams.LiveStream)
	}
	if err != nil {
		live.stop()
		return source{}, problem(streams.CodeUnavailable, "reading %s: %v", streams.LiveStream, err)
	}
	state := st.CachedInfo().State
	at := state.LastSeq
	if last > 0 && last <= state.LastSeq {
		at, live.resumed = last, last+1 >= state.FirstSeq
	}
	hear := live.next
	live.next = func(ctx context.Context) ([]byte, error) {
		for {
			m, err := st.GetMsg(ctx, at+1, jetstream.WithGetMsgSubject(subject))
			if err == nil {
				if at = m.Sequence; !byStage(m.Header, m.Data) {
					continue
				}
				return event(m.Subject, m.Header, m.Data, at), nil
			}
			if !errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil, err
			}
			if _, err := hear(ctx); err != nil && !errors.Is(err, nats.ErrSlowConsumer) {
				return nil, err
			}
			// The subscription delivers a message before the stream has stored it. So wait a little before the next
			// request.
			select {
			case <-time.After(storeTime):
			case <-ctx.Done():
			}
		}
	}
	return live, nil
}

// byStage reports whether a stage wrote a message of the live stream. An agent can make the server publish an
// acknowledgement there (docs/decisions/0006), which has no header of a ledger entry.
func byStage(header nats.Header, body []byte) bool {
	return header.Get(streams.HeaderSeq) != "" && jsontext.Value(body).IsValid()
}

// event formats a message as a server-sent event. Its name is the third part of the subject: alert,
// verdict or hold. Its id is the ledger sequence, followed by the position in the live stream if it is
// known.
func event(subject string, header nats.Header, body []byte, position uint64) []byte {
	parts := strings.Split(subject, ".")
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\n", parts[min(3, len(parts)-1)])
	seq := strings.Map(digit, header.Get(streams.HeaderSeq))
	switch {
	case position > 0:
		fmt.Fprintf(&b, "id: %s-%d\n", seq, position)
	case seq != "":
		fmt.Fprintf(&b, "id: %s\n", seq)
	}
	data := bytes.ReplaceAll(body, []byte("\r"), nil) // SSE readers take \r for a line end
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}

func digit(r rune) rune {
	if r < '0' || r > '9' {
		return -1
	}
	return r
}
