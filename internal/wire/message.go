package wire

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Msg returns entries of one stage and partition as one ledger message: a frame, or the entry's own
// message if there is only one.
func Msg(entries ...*streams.Entry) *nats.Msg {
	m := streams.Frame(entries)
	return &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Body}
}

// headerAnswer is set by nats-server in its answers to direct reads.
const headerAnswer = "Nats-Stream"

// Stored returns the headers of a stored message, as a consumer delivers it. A client that reads a stream may
// name any reply subject, even a subject of the ledger. The server's answer, a copy of an entry, is then stored in
// the ledger. For such an answer, Stored returns no headers, so that it does not count as an entry.
func Stored(h nats.Header) nats.Header {
	if len(h[headerAnswer]) > 0 {
		return nil
	}
	return h
}

// answerHeaders are the headers that nats-server adds to a message when it answers a direct get.
var answerHeaders = []string{headerAnswer, jetstream.SubjectHeader, jetstream.SequenceHeader, "Nats-Time-Stamp"}

// Direct returns the stored message with sequence seq from the server's answer to a direct get. It returns nil if the
// answer is not this message, or if the message itself was stored with one of the headers that the server adds.
func Direct(answer *nats.Msg, seq uint64) *jetstream.RawStreamMsg {
	h := answer.Header
	for _, k := range answerHeaders {
		if len(h[k]) != 1 {
			return nil
		}
	}
	at, err := time.Parse(time.RFC3339Nano, h.Get("Nats-Time-Stamp"))
	if err != nil || h.Get(jetstream.SequenceHeader) != strconv.FormatUint(seq, 10) {
		return nil
	}
	m := &jetstream.RawStreamMsg{Subject: h.Get(jetstream.SubjectHeader), Sequence: seq, Header: h, Data: answer.Data,
		Time: at}
	for _, k := range answerHeaders {
		h.Del(k)
	}
	return m
}

// Entries parses a ledger message from a consumer. It fails as [streams.ParseEntries] does, and if
// the message has no consumer metadata.
func Entries(m jetstream.Msg) ([]streams.Entry, error) {
	md, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("a message on %s was not delivered by a consumer: %w", m.Subject(), err)
	}
	return streams.ParseEntries(m.Subject(), Stored(m.Headers()), m.Data(), md.Sequence.Stream, md.Timestamp)
}

// RawEntries parses a ledger message that was fetched by its sequence.
func RawEntries(m *jetstream.RawStreamMsg) ([]streams.Entry, error) {
	return streams.ParseEntries(m.Subject, m.Header, m.Data, m.Sequence, m.Time)
}

// RawEntry parses a ledger message that was fetched by its sequence, as [streams.ParseEntry] does:
// for a frame it returns the fields of the headers.
func RawEntry(m *jetstream.RawStreamMsg) (streams.Entry, error) {
	return streams.ParseEntry(m.Subject, m.Header, m.Data, m.Sequence, m.Time)
}
