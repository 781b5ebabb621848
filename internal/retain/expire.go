package retain

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/inquiry"
	"lazaret/streams"
)

// Expiry is an order to expire, and what it covers.
type Expiry struct {
	// Before is the horizon: only payloads that are older are erased.
	Before time.Time `json:"before"`
	// UpTo is the ledger sequence up to which entries expire; 0 for none.
	UpTo uint64 `json:"up_to"`
	// Statement is the id of the order, and Entry its last entry in the ledger.
	Statement string `json:"statement,omitzero"`
	Entry     uint64 `json:"entry,omitzero"`
}

// PlanExpiry says what Expire would cover, and changes nothing. Entries that the ledger still
// holds do not expire: trim it first.
func (c *Config) PlanExpiry(ctx context.Context, before time.Time) (*Expiry, error) {
	x := &Expiry{Before: before.UTC().Truncate(time.Second)}
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return nil, err
	}
	trim, err := c.PlanTrim(ctx, before)
	if err != nil {
		return nil, err
	}
	err = c.Log(ctx, func(l *inquiry.Log) (err error) {
		if l == nil {
			return errors.New("there is no log here")
		}
		x.UpTo, err = l.LastBefore(x.Before)
		return err
	})
	if x.UpTo = min(x.UpTo, trim.Already); err != nil || x.UpTo == 0 {
		return x, err
	}
	return x, c.awaitAuditors(ctx, js, x.UpTo)
}

// Expire has an operator's order entered into every partition of the ledger. At it auditors
// erase the payloads of entries that are older than before and were trimmed from the ledger,
// and stages drop what they read then. Projects under legal hold are spared. Expire returns
// once every registered auditor has chained the order.
func (c *Config) Expire(ctx context.Context, signer note.Signer, before time.Time, reason string) (*Expiry, error) {
	x, err := c.PlanExpiry(ctx, before)
	if err != nil || x.UpTo == 0 {
		return x, err
	}
	all := make([]int, streams.Partitions)
	for p := range all {
		all[p] = p
	}
	x.Statement, x.Entry, err = c.stateIn(ctx, signer, streams.Custody{Do: streams.DoExpire,
		Project: streams.SystemProject, Reason: reason, Before: x.Before, UpTo: x.UpTo}, all...)
	if err != nil {
		return x, err
	}
	js, err := jetstream.New(c.Conn)
	if err != nil {
		return x, err
	}
	return x, c.awaitAuditors(ctx, js, x.Entry)
}
