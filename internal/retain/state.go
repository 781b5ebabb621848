package retain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// State signs a statement about a project's data, sends it, and waits for ingest's decision. It returns
// the statement's id and ledger entry.
func (c *Config) State(ctx context.Context, signer note.Signer, do string, on Subject, reason string) (id string,
	entry uint64, err error) {
	return c.state(ctx, signer, streams.Custody{Do: do, Project: on.Project, DataSubject: on.Person, Reason: reason})
}

func (c *Config) state(ctx context.Context, signer note.Signer, s streams.Custody) (id string, entry uint64,
	err error) {
	return c.stateIn(ctx, signer, s, streams.PartitionOf(s.Project))
}

// stateIn enters a statement into the given partitions. It returns the ledger entry in the last of
// them.
func (c *Config) stateIn(ctx context.Context, signer note.Signer, s streams.Custody, partitions ...int) (id string,
	entry uint64, err error) {
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return "", 0, err
	}
	if strings.ContainsAny(s.Reason, "\n\r") || len(s.Reason) > 500 {
		return "", 0, errors.New("the reason must be one line of at most 500 bytes")
	}
	now := time.Now().UTC().Truncate(time.Second)
	s.ID, s.Issued = now.Format("20060102T150405Z")+"-"+nuid.Next()[14:], now
	signed, err := s.Sign(signer)
	if err != nil {
		return "", 0, err
	}
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return "", 0, err
	}
	from := st.CachedInfo().State.LastSeq + 1
	c.awaited = "ingest to decide on the statement"
	body, err := streams.Marshal(streams.Control{ID: s.ID, Custody: string(signed)})
	if err != nil {
		return "", 0, err
	}
	var filters []string
	for _, p := range partitions {
		if _, err := js.Publish(ctx, streams.ControlSubject(p), body); err != nil {
			return "", 0, fmt.Errorf("sending the statement: %w", err)
		}
		filters = append(filters, streams.LedgerSubject(p, streams.StageIngest))
	}
	for {
		var refused error
		entered := 0
		err := stage.Each(ctx, js, stage.Span{Stream: streams.LedgerStream, Filters: filters, From: from},
			func(m jetstream.Msg, seq uint64, at time.Time) error {
				e, err := streams.ParseEntry(m.Subject(), m.Headers(), m.Data(), seq, at)
				if err != nil {
					return nil
				}
				switch e.Type {
				case streams.TypeForgotten, streams.TypeErased, streams.TypeLegalHold, streams.TypeExpired:
					b := new(streams.CustodyEntry)
					if streams.Unmarshal(e.Body, b) == nil && b.ID == s.ID {
						entry = seq
						entered++
					}
				case streams.TypeRejected:
					b := new(streams.RejectedEntry)
					if streams.Unmarshal(e.Body, b) == nil && bytes.Equal(b.Raw, body) {
						refused = fmt.Errorf("%s: %s", b.Code, b.Reason)
						if b.Code == streams.CodeLegalHold {
							refused = fmt.Errorf("%w: %s", ErrLegalHold, b.Reason)
						}
					}
				}
				return nil
			})
		if ctx.Err() != nil {
			err = nil // report the wait also if time runs out during a read
		}
		if err = errors.Join(err, refused); err != nil || entered >= len(partitions) {
			return s.ID, entry, err
		}
		select {
		case <-ctx.Done():
			return s.ID, 0, fmt.Errorf("ingest has not decided on the statement: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
