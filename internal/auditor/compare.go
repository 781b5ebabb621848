package auditor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/stage"
	"lazaret/pkg/chain"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// Comparison is the result of CompareLedger.
type Comparison struct {
	Compared  int64 `json:"compared"`  // leaves that agree with the ledger's entry
	Trimmed   int64 `json:"trimmed"`   // leaves whose entries were trimmed from the ledger
	Forgotten int64 `json:"forgotten"` // leaves whose entries were forgotten
	// Bad are leaves whose entry is missing from the ledger or differs from it, and ledger entries
	// that the log lacks or records as missing.
	Bad []chain.Finding `json:"bad,omitempty"`
}

// comparer goes through the log's leaves and the ledger's entries side by side. A reset is a leaf that says that the
// ledger was created again. The leaves before the last reset are about an earlier ledger, and comparer skips them.
type comparer struct {
	Comparison
	log     *chain.Log
	at, end int64  // leaf indexes
	trimmed uint64 // the ledger was trimmed up to this sequence
}

func (c *comparer) bad(leaf int64, format string, args ...any) {
	c.Bad = append(c.Bad, chain.Finding{Index: leaf, Text: fmt.Sprintf(format, args...)})
}

// CompareLedger compares the log's leaves since the last reset with the ledger's entries. An entry may be missing if it
// was trimmed, or if its payload is forgotten in the log too; the verification of the log checks whether forgetting was
// lawful. Entries after the log's last leaf are ignored.
func CompareLedger(ctx context.Context, js jetstream.JetStream, l *chain.Log) (*Comparison, error) {
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return nil, fmt.Errorf("looking up stream %s: %w", streams.LedgerStream, err)
	}
	h := l.Head()
	c := &comparer{log: l, end: h.Size}
	if created := st.CachedInfo().Created; !h.Epoch.IsZero() && !created.Equal(h.Epoch) {
		c.bad(max(h.Size-1, 0), "the log is of a ledger that was created at %s, but this ledger was created at %s", h.Epoch,
			created)
		return &c.Comparison, nil
	}
	if c.at, err = l.Present(h.Size); err != nil {
		return nil, err
	}
	if c.trimmed, err = stage.Trimmed(ctx, js); err != nil {
		return nil, err
	}
	if h.LastSeq > 0 {
		span := stage.Span{Stream: streams.LedgerStream, Filters: []string{"lz.ledger.>"}, To: h.LastSeq}
		err = stage.Each(ctx, js, span, func(m jetstream.Msg, seq uint64, at time.Time) error {
			// Ignore an error: an auditor also chains an entry that it cannot parse, with the fields that it could
			// read.
			entries, _ := streams.ParseEntries(m.Subject(), m.Headers(), m.Data(), seq, at)
			if err := c.missing(seq); err != nil {
				return err
			}
			for i := range entries {
				if err := c.entry(&entries[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err == nil {
		err = c.missing(h.LastSeq + 1)
	}
	return &c.Comparison, err
}

// entry compares one entry of the ledger with its leaf.
func (c *comparer) entry(e *streams.Entry) error {
	if c.at == c.end {
		return nil
	}
	leaf, err := c.log.Leaf(c.at)
	if err != nil {
		return err
	}
	switch {
	case leaf.Kind == chain.KindEntry && leaf.Seq != e.Position():
		c.bad(c.at, "leaf %d is at ledger position %s, but the ledger has an entry at %s that the log lacks", c.at,
			position.Text(leaf.Seq), position.Text(e.Position()))
		return nil
	case leaf.Kind == chain.KindGap:
		c.bad(c.at, "leaf %d says that ledger entry %s is missing, but the ledger has this entry", c.at,
			position.Text(e.Position()))
		return nil
	default:
		if why := differs(&leaf, e); why != "" {
			c.bad(c.at, "leaf %d is not ledger entry %s: %s", c.at, position.Text(e.Position()), why)
		} else {
			c.Compared++
		}
	}
	c.at++
	return nil
}

// missing checks the leaves before ledger sequence seq whose entries the ledger does not have.
func (c *comparer) missing(seq uint64) error {
	for ; c.at < c.end; c.at++ {
		leaf, err := c.log.Leaf(c.at)
		if err != nil {
			return err
		}
		last := position.Sequence(leaf.Seq)
		if leaf.Kind == chain.KindGap {
			last += leaf.Length - 1
		}
		if last >= seq {
			return nil
		}
		if leaf.Kind != chain.KindEntry {
			continue
		}
		_, err = c.log.Payload(c.at)
		switch {
		case last <= c.trimmed:
			c.Trimmed++
		case errors.Is(err, chain.ErrForgotten):
			c.Forgotten++
		default:
			c.bad(c.at, "the ledger has no entry %s, but the log has its leaf %d (%s, project %s): the entry was neither "+
				"trimmed nor forgotten", position.Text(leaf.Seq), c.at, leaf.Type, leaf.Project)
		}
	}
	return nil
}
