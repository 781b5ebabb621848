package streams

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of one event. If content is larger, the sender must split it into several events with the same `call`.
const (
	// DefaultMaxEvent is the maximum size of an event body, in bytes, unless configured otherwise.
	DefaultMaxEvent = 1 << 20
	// MaxBlocks is the maximum number of content blocks in an observation.
	MaxBlocks = 256
	// MaxRefs is the maximum number of belief ids or parent ids that an event may cite.
	MaxRefs = 256
	// MaxNameLen is the maximum length of tool names, keys, sources and other short strings, in
	// bytes.
	MaxNameLen = 1024
)

// Head has the fields that all events have in common. Unknown JSON fields are ignored everywhere in
// events, so that a client may be newer than its server.
type Head struct {
	// ID is the client's identifier of the event, unique within (project, agent). If the same event is published again,
	// it is recorded as a repeat and has no other effect. The id may be in the CloudEvents header ce-id instead.
	ID string `json:"id"`
	// Session groups the events of one run of the agent.
	Session string `json:"session,omitzero"`
	// User is the person whom the agent serves, if the host serves several persons. Memories of one
	// user are not served to another. The host states the user, like the session, and nobody
	// verifies it.
	User string `json:"user,omitzero"`
	// DataSubject is a pseudonym of the person whom the event concerns. Under this pseudonym, the event can be forgotten
	// within the project (docs/forgetting.md). If it is empty, User is the data subject. The pseudonym must not be a name,
	// an address or anything else that identifies the person, because it stays in statements and in the log after the
	// event is forgotten.
	DataSubject string `json:"data_subject,omitzero"`
	// Time is the event's own time. It is used only in projects whose name starts with
	// SyntheticPrefix, where it must not run backwards. In all other projects the server's time
	// stamp is used.
	Time time.Time `json:"time,omitzero"`

	// Stream and Seq are fields of a JetStream acknowledgement. A client may name any subject as its reply subject,
	// even another agent's intake subject. Then the server's acknowledgement arrives there. So a body that has these
	// fields and no id is taken for an acknowledgement and rejected.
	Stream string `json:"stream,omitzero"`
	Seq    uint64 `json:"seq,omitzero"`
}

func (h *Head) isReply() bool { return h.Stream != "" && h.Seq != 0 }

// RejectError says why ingest rejected an event. Its code is stable and documented in docs/errors.md.
type RejectError struct {
	Code   Code
	Reason string
	// Session is the session that the event names, if it could be read.
	Session string
	ID      string
	// Size and Digest are the size and digest of the event's data. They are set if the rejection's entry does not have
	// the whole data.
	Size   int
	Digest string
}

func (e *RejectError) Error() string { return string(e.Code) + ": " + e.Reason }

func rejectf(code Code, format string, args ...any) *RejectError {
	return &RejectError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// Event is a parsed intake event. Its dynamic type is the type of its kind, such as *Observation.
type Event interface {
	head() *Head
	isReply() bool
	// check returns an error if a field that only this kind of event has is not valid.
	check(a Address) error
}

func (h *Head) head() *Head { return h }

// HeadOf returns the fields that all events have in common.
func HeadOf(e Event) *Head { return e.head() }

// ParseEvent parses the body of an event whose kind is a.Kind. ceID is the value of the header ce-id, or empty. If the
// body has a different id, the event is refused. maxSize is in bytes; zero means DefaultMaxEvent. Every error is a
// *RejectError.
func ParseEvent(a Address, ceID string, body []byte, maxSize int) (Event, error) {
	if maxSize <= 0 {
		maxSize = DefaultMaxEvent
	}
	if isAnswer(body) {
		return nil, rejectf(CodeNotEvent,
			"the body is an answer of the server or an entry of the ledger: a client used this subject as its reply subject")
	}
	if len(body) > maxSize {
		r := rejectf(CodeTooLarge,
			"the event is %d bytes, at most %d are admitted: split the content over several events with the same call",
			len(body), maxSize)
		r.ID, r.Session = peek(body)
		return nil, r
	}
	e := newEvent(a.Kind)
	if e == nil {
		return nil, rejectf(CodeUnknownKind, "unknown event kind %q", a.Kind)
	}
	if o, ok := e.(*Observation); ok && o.quick(body) {
		return checked(a, ceID, e)
	}
	if err := UnmarshalExact(body, e); err != nil {
		r := rejectf(CodeMalformed, "the body is not a JSON %s event: %v", a.Kind, DescribeJSON(err))
		r.ID, r.Session = peek(body)
		if ceID != "" {
			r.ID = clip(ceID)
		}
		return nil, r
	}
	return checked(a, ceID, e)
}

// checked returns an event if it passes checkEvent, and otherwise a *RejectError.
func checked(a Address, ceID string, e Event) (Event, error) {
	h := e.head()
	if err := checkEvent(a, ceID, h, e); err != nil {
		var r *RejectError
		if !errors.As(err, &r) {
			r = rejectf(CodeInvalid, "%v", err)
		}
		if ValidID(h.Session) {
			r.Session = h.Session
		}
		r.ID = clip(h.ID)
		return nil, r
	}
	switch e := e.(type) {
	case *Observation:
		e.Args = asEncoded(e.Args)
	case *Action:
		e.Args = asEncoded(e.Args)
	case *Tools:
		for i := range e.Tools {
			t := &e.Tools[i]
			t.InputSchema, t.Annotations = asEncoded(t.InputSchema), asEncoded(t.Annotations)
		}
	}
	return e, nil
}

// asEncoded returns a JSON value of an event as Marshal writes it: without spaces between its tokens, and without
// unnecessary escapes. The stages in ingest's process read the value from the event, and other processes read it from
// the ledger. They must see the same bytes, because entries repeat them.
func asEncoded(v jsontext.Value) jsontext.Value {
	if v == nil {
		return nil
	}
	b, err := Marshal(v)
	if err != nil { // cannot happen: values in parsed bodies are valid JSON
		return v
	}
	return b
}

// isAnswer reports whether a body is an answer of JetStream's API, or the body of a ledger entry. A client that reads a
// message from a stream may name any subject as the reply subject. The server then publishes the answer there with its
// own rights.
func isAnswer(body []byte) bool {
	const api = "io.nats.jetstream.api."
	// This check is fast and suffices nearly always: observations are frequent, and few texts contain these words.
	if !bytes.Contains(body, []byte("jetstream.api.")) &&
		!(bytes.Contains(body, []byte(`"intake"`)) && bytes.Contains(body, []byte(`"print"`))) {
		return false
	}
	var b struct {
		Type   string `json:"type"`
		Intake uint64 `json:"intake"`
		Print  uint64 `json:"print"`
	}
	return Unmarshal(body, &b) == nil && (strings.HasPrefix(b.Type, api) || b.Intake > 0 && b.Print > 0)
}

func checkEvent(a Address, ceID string, h *Head, e Event) error {
	switch {
	case ceID != "" && h.ID != "" && ceID != h.ID:
		return rejectf(CodeInvalid, "header ce-id is %q but the body's id is %q: send one id", clip(ceID), clip(h.ID))
	case ceID != "":
		h.ID = ceID
	}
	if h.ID == "" && e.isReply() {
		return rejectf(CodeNotEvent,
			"the body is an acknowledgement of JetStream: a client used this subject as its reply subject")
	}
	if h.ID == "" {
		return rejectf(CodeInvalid, "the event has no id: set \"id\" in the body or the header ce-id")
	}
	if err := CheckID("id", h.ID); err != nil {
		return err
	}
	if h.Session != "" {
		if err := CheckID("session", h.Session); err != nil {
			return err
		}
	}
	if h.User != "" {
		if err := CheckID("user", h.User); err != nil {
			return err
		}
	}
	if h.DataSubject != "" {
		if err := CheckID("data_subject", h.DataSubject); err != nil {
			return err
		}
	}
	return e.check(a)
}

// names returns an error if a value is too long or has a zero byte. Zero bytes separate the parts of keys in the state
// of stages. The arguments are pairs of value and field name.
func names(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if len(pairs[i]) > MaxNameLen {
			return rejectf(CodeInvalid, "%s is %d bytes long, at most %d are admitted", pairs[i+1], len(pairs[i]), MaxNameLen)
		}
		if at := strings.IndexByte(pairs[i], 0); at >= 0 {
			return rejectf(CodeInvalid, "%s has a zero byte at %d, which a name must not have", pairs[i+1], at)
		}
	}
	return nil
}

func refs(field string, ids []string) error {
	if len(ids) > MaxRefs {
		return rejectf(CodeInvalid, "%s names %d ids, at most %d are admitted", field, len(ids), MaxRefs)
	}
	for _, id := range ids {
		if !ValidID(id) {
			return rejectf(CodeInvalid, "%s: %v", field, CheckID("id", clip(id)))
		}
	}
	return nil
}

// Peek reads id and session from an event without decoding the rest. It stops as soon as it has both. If id or session
// is missing or not valid, it is returned as empty.
func Peek(body []byte) (id, session string) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return "", ""
	}
	for id == "" || session == "" {
		key, err := d.ReadToken()
		if err != nil || key.Kind() != '"' {
			break
		}
		into := map[string]*string{"id": &id, "session": &session}[key.String()]
		if into == nil || d.PeekKind() != '"' {
			if d.SkipValue() != nil {
				break
			}
			continue
		}
		v, err := d.ReadToken()
		if err != nil {
			break
		}
		if s := v.String(); ValidID(s) {
			*into = s
		}
	}
	return id, session
}

// peek reads id and session from a body that is not a valid event. With the session, later proposals of the session can
// be held.
func peek(body []byte) (id, session string) {
	var h struct {
		ID      string `json:"id"`
		Session string `json:"session"`
	}
	if Unmarshal(body, &h) != nil {
		h.Session = scanString(body, `"session"`)
		h.ID = scanString(body, `"id"`)
	}
	if !ValidID(h.Session) {
		h.Session = ""
	}
	if !ValidID(h.ID) {
		h.ID = ""
	}
	return h.ID, h.Session
}

// scanString searches text that is not valid JSON for `"field" : "value"`, and returns the value.
func scanString(body []byte, field string) string {
	s := string(body[:min(len(body), 64<<10)])
	_, rest, ok := strings.Cut(s, field)
	if !ok {
		return ""
	}
	rest = strings.TrimLeft(rest, " \t\r\n:")
	if !strings.HasPrefix(rest, `"`) {
		return ""
	}
	v, _, ok := strings.Cut(rest[1:], `"`)
	if !ok {
		return ""
	}
	return v
}

// Clip returns s if it has at most n bytes. Otherwise it cuts s after at most n bytes, not inside a rune, and appends
// an ellipsis.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func clip(s string) string { return Clip(s, 80) }
