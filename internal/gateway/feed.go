package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/streams"
)

// Bounds of one feed.
const (
	feedMessages = 1024    // that wait for a slow client
	feedBytes    = 8 << 20 //
	heartbeat    = 15 * time.Second
	checkToken   = time.Second
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
	sub, first, err := listen(c.ctx, c.s.nc, subject)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
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
	if first != nil && !send(event(first)) {
		return nil
	}
	for quiet := time.Now(); ; {
		ctx, cancel := context.WithTimeout(c.ctx, checkToken)
		m, err := sub.NextMsgWithContext(ctx)
		cancel()
		switch {
		case err == nil:
			quiet = time.Now()
			if !send(event(m)) {
				return nil
			}
			continue
		case c.ctx.Err() != nil || !c.find():
			return nil
		case errors.Is(err, nats.ErrSlowConsumer):
			send([]byte("event: lost\ndata: {}\n\n"))
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

// listen subscribes, and returns once the server has said whether it may. What was
// heard meanwhile is first.
func listen(ctx context.Context, nc *nats.Conn, subject string) (sub *nats.Subscription, first *nats.Msg, err error) {
	if sub, err = nc.SubscribeSync(subject); err != nil {
		return nil, nil, problem(streams.CodeUnavailable, "subscribing to %s: %v", subject, err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if err = sub.SetPendingLimits(feedMessages, feedBytes); err == nil {
		err = nc.FlushWithContext(ctx)
	}
	if err == nil {
		first, err = sub.NextMsg(time.Millisecond)
	}
	if err == nil || errors.Is(err, nats.ErrTimeout) {
		return sub, first, nil
	}
	sub.Unsubscribe()
	if errors.Is(err, nats.ErrPermissionViolation) {
		return nil, nil, problem(streams.CodeForbidden, "%v: %s", errDenied, subject)
	}
	return nil, nil, problem(streams.CodeUnavailable, "subscribing to %s: %v", subject, err)
}

// event is a message as a server-sent event. Its name is the third part of the
// subject: alert, verdict or hold.
func event(m *nats.Msg) []byte {
	parts := strings.Split(m.Subject, ".")
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\n", parts[min(3, len(parts)-1)])
	if seq := m.Header.Get(streams.HeaderSeq); seq != "" {
		fmt.Fprintf(&b, "id: %s\n", strings.Map(digit, seq))
	}
	data := bytes.ReplaceAll(m.Data, []byte("\r"), nil) // a line's end to the reader
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
