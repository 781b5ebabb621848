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
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/rules"
	"lazaret/streams"
)

// Span selects a part of a ledger.
type Span struct {
	Since time.Time // zero: from the beginning; with Follow, from now on
	// Follow continues with new entries until the context ends, which is not an error. Without Follow, reading ends at
	// the entry that was the last one when reading started.
	Follow bool
	// Project, if set, selects the events of one project. It cannot be combined with Follow.
	Project string
	// Started, if set, is called when reading has started. Every entry that is written afterwards is read.
	Started func()
}

// Ledger calls f for each entry of a running pipeline's ledger, in order.
func Ledger(ctx context.Context, nc *nats.Conn, span Span, f func(*streams.Entry) error) error {
	if span.Project != "" && span.Follow {
		return errors.New("new entries can be followed only for all projects, not for one")
	}
	take := func(m jetstream.Msg) error {
		entries, err := wire.Entries(m)
		if err != nil {
			return err
		}
		for i := range entries {
			if span.Project != "" && entries[i].Project != span.Project {
				continue
			}
			if err := f(&entries[i]); err != nil {
				return err
			}
		}
		return nil
	}
	js, filters := wire.JetStream(nc), []string{streams.LedgerPrefix + ">"}
	if span.Follow {
		return follow(ctx, js, span, take)
	}
	if span.Project != "" {
		filters = streams.StageSubjects(streams.PartitionOf(span.Project), streams.StageIngest)
	}
	return stage.Each(ctx, js, stage.Span{Stream: streams.LedgerStream, Filters: filters, Since: span.Since},
		func(m jetstream.Msg, _ uint64, _ time.Time) error { return take(m) })
}

// follow calls take for each message of the ledger until ctx ends.
func follow(ctx context.Context, js jetstream.JetStream, span Span, take func(jetstream.Msg) error) error {
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return fmt.Errorf("looking up stream %s: %w", streams.LedgerStream, err)
	}
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: st.CachedInfo().State.LastSeq + 1}
	if !span.Since.IsZero() {
		cfg = jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &span.Since}
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
		if err != nil && ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = take(m)
		}
		if err != nil {
			return err
		}
	}
}

// Active returns the active rule set of a running pipeline.
func Active(ctx context.Context, nc *nats.Conn) (*rules.Set, error) {
	bundle, err := InForce(ctx, nc, streams.DoActivateRules)
	if err != nil {
		return nil, err
	}
	if bundle == nil {
		return nil, errors.New("no rule set is in force: activate one, or name another with --against")
	}
	return rules.CompileBundle(bundle)
}

// InForce returns the active bundle of a command, such as streams.DoActivateRules, in the first
// partition of a running pipeline; nil if there is none.
func InForce(ctx context.Context, nc *nats.Conn, do string) ([]byte, error) {
	var bundle []byte
	for digest := ""; ; {
		var part ingest.BundleAnswer
		req := ingest.BundleRequest{Do: do, Offset: len(bundle)}
		if err := query.Ask(ctx, nc, ingest.AskBundle, 0, req, &part); err != nil {
			return nil, err
		}
		if part.Digest != digest {
			// The digest differs from the last part's: this is the first part, or another bundle was activated since
			// the last part. If another bundle was activated, start again at offset 0.
			if bundle, digest = nil, part.Digest; req.Offset > 0 {
				continue
			}
		}
		bundle = append(bundle, part.Part...)
		if len(bundle) < part.Size && len(part.Part) > 0 {
			continue
		}
		if digest != "" && streams.Digest(bundle) != digest {
			return nil, fmt.Errorf("ingest sent a bundle of %d bytes that does not have the digest %s: try again", len(bundle),
				digest)
		}
		return bundle, nil
	}
}
