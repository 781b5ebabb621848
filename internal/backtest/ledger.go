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
	"lazaret/internal/wire"
	"lazaret/pkg/rules"
	"lazaret/streams"
)

// Span is which part of a ledger is read.
type Span struct {
	Since time.Time // zero: from its beginning; with Follow, from now on
	// Follow goes on with new entries until the context ends, which is no
	// error; without it the end is where the ledger ended at the start.
	Follow bool
	// Project, if set, is the only one whose events are read. The end is then where they
	// ended at the start; it cannot be followed.
	Project string
	// Started, if set, is called once an entry written after it would be read.
	Started func()
}

// Ledger calls f for each entry of a running pipeline's ledger, in order.
func Ledger(ctx context.Context, nc *nats.Conn, span Span, f func(*streams.Entry) error) error {
	since, follow := span.Since, span.Follow
	if span.Project != "" && follow {
		return errors.New("the events of one project cannot be followed")
	}
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
	if span.Project != "" {
		subject := streams.LedgerSubject(streams.PartitionOf(span.Project), streams.StageIngest)
		m, err := st.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && !since.IsZero() && m.Time.Before(since) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the last entry of %s: %w", subject, err)
		}
		cfg.FilterSubjects, end.LastSeq = []string{subject}, m.Sequence
	}
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
		if !follow && entries[0].Seq >= end.LastSeq {
			return nil
		}
	}
}

// Active is the rule set that is in force in a running pipeline.
func Active(ctx context.Context, nc *nats.Conn) (*rules.Set, error) {
	bundle, err := InForce(ctx, nc, streams.DoActivateRules)
	if err != nil {
		return nil, err
	}
	if bundle == nil {
		return nil, errors.New("no rule set is in force: activate one, or name another with --against")
	}
	return Compile(bundle)
}

// InForce is the bundle that is in force in the first partition of a running
// pipeline for a command, such as streams.DoActivateRules; nil if none is.
func InForce(ctx context.Context, nc *nats.Conn, do string) ([]byte, error) {
	var bundle []byte
	for digest := ""; ; {
		var part ingest.BundleAnswer
		req := ingest.BundleRequest{Do: do, Offset: len(bundle)}
		if err := query.Ask(ctx, nc, ingest.AskBundle, 0, req, &part); err != nil {
			return nil, err
		}
		if part.Digest != digest {
			// The first answer, or another bundle came in force meanwhile.
			if bundle, digest = nil, part.Digest; req.Offset > 0 {
				continue
			}
		}
		bundle = append(bundle, part.Part...)
		if len(bundle) < part.Size && len(part.Part) > 0 {
			continue
		}
		if digest != "" && streams.Digest(bundle) != digest {
			return nil, fmt.Errorf("ingest sent a bundle of %d bytes that is not %s: ask again", len(bundle), digest)
		}
		return bundle, nil
	}
}

// Compile compiles a bundle.
func Compile(bundle []byte) (*rules.Set, error) {
	src, err := rules.Open(bundle)
	if err != nil {
		return nil, err
	}
	return rules.Compile(src)
}
