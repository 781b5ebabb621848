package mcpwire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of one stream to a host.
const (
	maxUnread = 2 * MaxMessage // bytes in all streams of a session that the host has not read
	keepRead  = 256 << 10      // bytes of read events that are kept in case the host asks for them again
	heartbeat = 15 * time.Second
	writeTime = 30 * time.Second // within which a host must read one event
)

var errUnread = errors.New("the host does not read its messages")

// stream is the content of one HTTP response to a host: the messages of one POST, or the
// messages that belong to no request. If a response breaks off, a later response can
// continue the stream.
type stream struct {
	id   int
	once bool          // the stream cannot be continued by another response, so its events have no ids
	held *atomic.Int64 // unread bytes of all streams of the session

	mu      sync.Mutex
	events  [][]byte      // guarded by mu, as are the fields below
	first   int           // the index of events[0]
	sent    int           // the index after the last event that was written to a host
	unread  int           // bytes of the events that were not sent
	kept    int           // bytes of all events
	ended   bool          // no more events follow
	bad     bool          // the last message is an error
	refused *Refused      // set if the stream's only message is a refusal with an HTTP status
	reader  int           // number of the latest response that reads the stream; earlier ones stop
	users   int           // number of responses that use the stream
	dropped bool          // no other response can find the stream
	wake    chan struct{} // closed when one of the fields above changes
}

func newStream(id int, held *atomic.Int64) *stream {
	return &stream{id: id, held: held, wake: make(chan struct{})}
}

// use keeps the stream's content in memory for a response, until the response calls release.
func (s *stream) use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
}

func (s *stream) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.discard()
}

// drop marks the stream as unreachable for further responses.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = true
	s.discard()
}

// discard frees the content of a stream that no response can read any longer. The caller
// holds mu.
func (s *stream) discard() {
	if s.dropped && s.users == 0 {
		s.held.Add(-int64(s.unread))
		s.events, s.unread, s.kept = nil, 0, 0
	}
}

// wakeUp wakes the reader. The caller holds mu.
func (s *stream) wakeUp() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// add appends a message. If last is set, the stream ends.
func (s *stream) add(b []byte, last, bad bool, refused *Refused) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := int64(len(b)); s.held.Add(n) > maxUnread {
		s.held.Add(-n)
		return errUnread
	}
	if s.first+len(s.events) > 0 {
		refused = nil // the stream has another message, so its status is 200
	}
	s.events = append(s.events, b)
	s.unread += len(b)
	s.kept += len(b)
	s.bad, s.refused = bad, refused
	s.ended = s.ended || last
	s.wakeUp()
	return nil
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.wakeUp()
}

// attach makes the caller the stream's reader from event from on. If from is -1, reading starts at the
// first event that was not sent.
func (s *stream) attach(from int) (reader, next int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reader++
	s.wakeUp()
	if from < 0 {
		from = s.sent
	}
	return s.reader, min(max(from, s.first), s.first+len(s.events))
}

// next waits for event i. It returns a nil event when the stream has ended or has another
// reader.
func (s *stream) next(ctx context.Context, reader, i int, wait time.Duration) (b []byte, refused *Refused, err error) {
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		s.mu.Lock()
		wake := s.wake
		switch {
		case s.reader != reader:
		case i < s.first+len(s.events):
			b, refused = s.events[max(i-s.first, 0)], s.refused
		case !s.ended:
			s.mu.Unlock()
			select {
			case <-wake:
				continue
			case <-t.C:
				return nil, nil, context.DeadlineExceeded
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		}
		s.mu.Unlock()
		return b, refused, nil
	}
}

// delivered records that event i was written, and drops the oldest written events beyond
// keepRead.
func (s *stream) delivered(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.sent <= i; s.sent++ {
		n := len(s.events[s.sent-s.first])
		s.unread -= n
		s.held.Add(-int64(n))
	}
	for s.kept > keepRead && s.first < s.sent && !s.ended {
		s.kept -= len(s.events[0])
		s.events, s.first = s.events[1:], s.first+1
	}
}

// size returns the bytes that the stream holds.
func (s *stream) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// eventID names an event of a session; parseEventID reads it.
func eventID(stream, i int) string { return strconv.Itoa(stream) + "-" + strconv.Itoa(i) }

func parseEventID(s string) (stream, i int, err error) {
	a, b, ok := strings.Cut(s, "-")
	stream, err1 := strconv.Atoi(a)
	i, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || stream < 0 || i < -1 || len(s) > 30 {
		return 0, 0, fmt.Errorf("it is not an id of an event of this server")
	}
	return stream, i, nil
}

// serve writes the stream to a host until the stream ends, the host disconnects, or
// another response continues it. It begins after event from. commit is how long it waits for a first
// event before it sends the HTTP status.
func (s *stream) serve(w http.ResponseWriter, r *http.Request, from int, commit time.Duration, prime bool) {
	s.use()
	defer s.release()
	reader, i := s.attach(from)
	rc := http.NewResponseController(w)
	defer func() { _ = rc.SetWriteDeadline(time.Now().Add(writeTime)) }() // the time to write the end of the response
	write := func(text string) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(writeTime))
		_, err := w.Write([]byte(text))
		return err == nil && rc.Flush() == nil
	}
	begun := false
	begin := func() bool {
		if begun {
			return true
		}
		begun = true
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
		if prime {
			return write("id: " + eventID(s.id, i-1) + "\ndata: \n\n")
		}
		return write(": open\n\n")
	}
	for wait := commit; ; wait = heartbeat {
		b, refused, err := s.next(r.Context(), reader, i, wait)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil:
			if begun && !write(": alive\n\n") || !begin() {
				return
			}
			continue
		case err != nil:
			return
		case b == nil:
			begin()
			return
		case refused != nil && !begun:
			refused.write(w, b)
			s.delivered(i)
			return
		}
		id := "id: " + eventID(s.id, i) + "\n"
		if s.once {
			id = ""
		}
		if !begin() || !write(id+"event: message\ndata: "+string(b)+"\n\n") {
			return
		}
		s.delivered(i)
		i++
	}
}

// failed reports whether the stream's last message is an error.
func (s *stream) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad
}
