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
	maxUnread = 2 * MaxMessage // maximum number of bytes in all streams of a session that the host has not read
	// number of bytes of events that are stored after the host has read them, because it may ask for them again
	keepRead  = 256 << 10
	heartbeat = 15 * time.Second
	writeTime = 30 * time.Second // time within which a host must read one event
)

var errUnread = errors.New("the host does not read its messages")

// stream is the content of one HTTP response to a host. It has the messages that belong to one POST, or the messages
// that belong to no request. If the response breaks off, another response can continue the stream.
type stream struct {
	id   int
	once bool          // no other response can continue the stream, so its events have no ids
	held *atomic.Int64 // unread bytes of all streams of the session

	mu      sync.Mutex
	events  [][]byte      // guarded by mu, like the fields below
	first   int           // the index of events[0]
	sent    int           // index after that of the last event that was written to a host
	unread  int           // number of bytes of the events that were not written yet
	kept    int           // bytes of all events
	ended   bool          // no more events follow
	bad     bool          // the last message is an error
	refused *Refused      // set if the only message of the stream is a refusal with an HTTP status
	reader  int           // number of the latest response that reads the stream; a response with a lower number stops
	users   int           // number of responses that use the stream
	dropped bool          // no other response can find the stream
	wake    chan struct{} // closed when a field above changes
}

func newStream(id int, held *atomic.Int64) *stream {
	return &stream{id: id, held: held, wake: make(chan struct{})}
}

// use makes sure that the content of the stream stays in memory until release is called. A response calls it before it
// reads the stream.
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

// drop records that no further response can begin to read the stream.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = true
	s.discard()
}

// discard frees the content of a stream if no response reads it and none can begin to read it. The caller holds mu.
func (s *stream) discard() {
	if s.dropped && s.users == 0 {
		s.held.Add(-int64(s.unread))
		s.events, s.unread, s.kept = nil, 0, 0
	}
}

// wakeUp wakes up the response that waits for the next event. The caller holds mu.
func (s *stream) wakeUp() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// add appends a message to the stream. last says that the stream ends with this message.
func (s *stream) add(b []byte, last, bad bool, refused *Refused) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := int64(len(b)); s.held.Add(n) > maxUnread {
		s.held.Add(-n)
		return errUnread
	}
	if s.first+len(s.events) > 0 {
		refused = nil // the stream has other messages too, so its status is 200
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

// attach makes the caller the reader of the stream. Reading begins with the event whose number is from. If from is -1,
// it begins with the first event that was not written to a host.
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

// next waits for event i. It returns nil as the event if the stream has ended, or if another response reads the stream
// now.
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

// delivered records that event i was written to the host. If the stream goes on, it drops the oldest of the events
// that were written, until at most keepRead bytes are left.
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

// size returns the number of bytes of the events in the stream.
func (s *stream) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// eventID returns the id of an event in a session. parseEventID decodes it.
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

// serve writes the stream to a host. It begins with the event whose number is from (see attach). It ends when the
// stream ends, the host disconnects, or another response continues the stream. Before it sends the HTTP status, it
// waits for a first event, but at most for the time commit. If prime is set, an empty event comes first, whose id the
// host can use to continue the stream.
func (s *stream) serve(w http.ResponseWriter, r *http.Request, from int, commit time.Duration, prime bool) {
	s.use()
	defer s.release()
	reader, i := s.attach(from)
	rc := http.NewResponseController(w)
	// time limit for writing the end of the response
	defer func() { _ = rc.SetWriteDeadline(time.Now().Add(writeTime)) }()
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

// failed reports whether the last message of the stream is an error.
func (s *stream) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad
}
