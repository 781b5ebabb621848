package backtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/pkg/rules"
	"lazaret/streams"

	shipped "lazaret/rules"
)

// Span is which part of a ledger is read.
type Span struct {
	Since time.Time // zero: from its beginning; with Follow, from now on
	// Follow goes on with new entries until the context ends, which is no
	// error; without it the end is where the ledger ended at the start.
	Follow bool
	// Started, if set, is called once an entry written after it would be read.
	Started func()
}

// Ledger calls f for each entry of a running pipeline's ledger, in order.
func Ledger(ctx context.Context, nc *nats.Conn, span Span, f func(*streams.Entry) error) error {
	since, follow := span.Since, span.Follow
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return fmt.Errorf("looking up stream %s: %w", streams.LedgerStream, err)
	}
	end := st.CachedInfo().State
	if !follow && (end.Msgs == 0 || !since.IsZero() && end.LastTime.Before(since)) {
		return nil
	}
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	switch {
	case follow && since.IsZero():
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, end.LastSeq+1
	case !since.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	cons, err := st.OrderedConsumer(ctx, cfg)
	if err != nil {
		return err
	}
	it, err := cons.Messages(jetstream.PullMaxMessages(2000))
	if err != nil {
		return err
	}
	defer it.Stop()
	if span.Started != nil {
		span.Started()
	}
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			if follow && ctx.Err() != nil {
				return nil
			}
			return err
		}
		md, err := m.Metadata()
		if err != nil {
			return err
		}
		e, err := streams.ParseEntry(m.Subject(), m.Headers(), m.Data(), md.Sequence.Stream, md.Timestamp)
		if err != nil {
			return err
		}
		if err := f(&e); err != nil {
			return err
		}
		if !follow && e.Seq >= end.LastSeq {
			return nil
		}
	}
}

// errFound ends a search.
var errFound = errors.New("found")

// Active is the rule set that is in force in a running pipeline.
func Active(ctx context.Context, nc *nats.Conn) (*rules.Set, error) {
	var ans ingest.ActiveAnswer
	if err := query.Ask(ctx, nc, ingest.AskActive, 0, struct{}{}, &ans); err != nil {
		return nil, err
	}
	if ans.Rules == "" {
		return nil, fmt.Errorf("no rule set is in force: activate one, or name another with --against")
	}
	bundle, err := rules.Pack(shipped.FS())
	if err != nil {
		return nil, err
	}
	if streams.Digest(bundle) != ans.Rules {
		if bundle, err = chunks(ctx, nc, ans.Rules); err != nil {
			return nil, err
		}
	}
	return Compile(bundle)
}

// chunks joins the bundle of a digest from the ledger's first partition.
func chunks(ctx context.Context, nc *nats.Conn, digest string) ([]byte, error) {
	var bundle []byte
	next := 0
	err := Ledger(ctx, nc, Span{}, func(e *streams.Entry) error {
		if e.Partition != 0 || e.Type != streams.TypeChunk {
			return nil
		}
		var c streams.ChunkEntry
		if err := streams.Unmarshal(e.Body, &c); err != nil || c.Digest != digest {
			return err
		}
		if c.Index == 0 {
			bundle, next = nil, 0
		}
		if c.Index == next {
			bundle, next = append(bundle, c.Chunk...), next+1
		}
		if streams.Digest(bundle) == digest {
			return errFound
		}
		return nil
	})
	switch {
	case errors.Is(err, errFound):
		return bundle, nil
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("the ledger no longer holds the rule set in force, %s: name its folder with --against", digest)
}

// Compile compiles a bundle.
func Compile(bundle []byte) (*rules.Set, error) {
	src, err := rules.Open(bundle)
	if err != nil {
		return nil, err
	}
	return rules.Compile(src)
}
