package wire

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/streams"
)

// Msg returns entries of one stage and partition as one message of the ledger: a single
// entry's own message, or a frame.
func Msg(entries ...*streams.Entry) *nats.Msg {
	m := streams.Frame(entries)
	return &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Body}
}

// Entries reads the entries off a delivered message of the ledger. Errors are those of
// [streams.ParseEntries]; a message that was not delivered by a consumer is one, too.
func Entries(m jetstream.Msg) ([]streams.Entry, error) {
	md, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("a message on %s was not delivered by a consumer: %w", m.Subject(), err)
	}
	return streams.ParseEntries(m.Subject(), m.Headers(), m.Data(), md.Sequence.Stream, md.Timestamp)
}

// RawEntries reads the entries off a message of the ledger that was got by its sequence.
func RawEntries(m *jetstream.RawStreamMsg) ([]streams.Entry, error) {
	return streams.ParseEntries(m.Subject, m.Header, m.Data, m.Sequence, m.Time)
}

// RawEntry reads the one entry off a message of the ledger that was got by its sequence,
// or the headers of a frame: see [streams.ParseEntry].
func RawEntry(m *jetstream.RawStreamMsg) (streams.Entry, error) {
	return streams.ParseEntry(m.Subject, m.Header, m.Data, m.Sequence, m.Time)
}
