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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Bounds of one feed.
const (
	feedMessages = 1024    // that wait for a slow client
	feedBytes    = 8 << 20 //
	heartbeat    = 15 * time.Second
	checkToken   = time.Second
	storeTime    = 5 * time.Millisecond // between hearing a message and reading it
)

var projects = []param{{"project", "only of this project"}}

// feedOf says which live subject a feed is: an agent's own, or that of a project or of all.
func feedOf(what string) func(s *session) string {
	return func(s *session) string {
		switch {
		case what == "hold" && s.agent != "":
			return "lz.live." + s.project + ".hold." + s.agent + ".>"
		case s.agent != "":
			return "lz.live." + s.project + "." + what + ".>" // refused, by the server
		}
		return "lz.live.*." + what + ".>"
	}
}

// feed sends what is heard on a live subject until the client, the token or the
// gateway ends.
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
	// An agent's credential may not read the stream, and messages leave the stream after some time.
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
			return nil // the connection ended
		}
		if time.Since(quiet) >= heartbeat {
			if quiet = time.Now(); !send([]byte(":\n\n")) {
				return nil
			}
		}
	}
}

// lost is the event that says that events are missing here.
const lost = "event: lost\ndata: {}\n\n"

// source is where a feed takes its events from.
type source struct {
	next    func(ctx context.Context) ([]byte, error)
	stop    func()
	resumed bool // nothing is missing behind the event that the client had last
}

// lastEvent is the position of the last event that a client had, or 0.
func lastEvent(h http.Header) (uint64, error) {
	v := h.Get("Last-Event-ID")
	if v == "" {
		return 0, nil
	}
	_, position, _ := strings.Cut(v, "-")
	n, err := strconv.ParseUint(position, 10, 64)
	if err != nil || n == 0 {
		return 0, problem(streams.CodeRequest, "Last-Event-ID is %q: send the id of an event as it came", streams.Clip(v, 80))
	}
	return n, nil
}

// listen hears what is published from now on. It returns once the server has said
// whether it may.
func listen(ctx context.Context, nc *nats.Conn, subject string) (source, error) {
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		return source{}, problem(streams.CodeUnavailable, "subscribing to %s: %v", subject, err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var first *nats.Msg // heard meanwhile
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
		m, err := first, error(nil)
		if first = nil; m == nil {
			m, err = sub.NextMsgWithContext(ctx)
		}
		if err != nil {
			return nil, err
		}
		return event(m.Subject, m.Header, m.Data, 0), nil
	}
	return source{next: next, stop: func() { sub.Unsubscribe() }}, nil
}

// follow reads the live stream behind a position, or from now on if it is 0. It asks for
// one message after the other: a viewer may have no consumers. A live copy wakes it.
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
				at = m.Sequence
				return event(m.Subject, m.Header, m.Data, at), nil
			}
			if !errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil, err
			}
			if _, err := hear(ctx); err != nil && !errors.Is(err, nats.ErrSlowConsumer) {
				return nil, err
			}
			// It is heard before it is stored.
			select {
			case <-time.After(storeTime):
			case <-ctx.Done():
			}
		}
	}
	return live, nil
}

// event is a message as a server-sent event. Its name is the third part of the
// subject: alert, verdict or hold. Its id is the ledger sequence, and behind it the
// position in the live stream if that is known.
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
	data := bytes.ReplaceAll(body, []byte("\r"), nil) // a line's end to the reader
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
