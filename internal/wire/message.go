package wire

import (
	"fmt"

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
