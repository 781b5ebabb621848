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

// Expiry is an order to expire payloads, with its range.
type Expiry struct {
	// Before is the horizon: only older payloads are erased.
	Before time.Time `json:"before"`
	// UpTo is the ledger sequence of the last entry that expires; 0 if there is none.
	UpTo uint64 `json:"up_to"`
	// Statement is the id of the order, and Entry its last ledger entry.
	Statement string `json:"statement,omitzero"`
	Entry     uint64 `json:"entry,omitzero"`
	// Refused has the auditors that refused the order, and each one's reason. Their logs still have the payloads.
	Refused map[string]string `json:"refused,omitzero"`
}

// PlanExpiry returns the range that Expire would cover, and changes nothing. Entries that are still in
// the ledger do not expire: trim it first.
func (c *Config) PlanExpiry(ctx context.Context, before time.Time) (*Expiry, error) {
	x := &Expiry{Before: before.UTC().Truncate(time.Second)}
	c.awaited = "the search of the ledger and of the log"
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
			return errors.New("the data folder has no log of an auditor: run the command where an auditor runs")
		}
		x.UpTo, err = l.LastBefore(x.Before)
		return err
	})
	if x.UpTo = min(x.UpTo, trim.Already); err != nil || x.UpTo == 0 {
		return x, err
	}
	return x, c.awaitAuditors(ctx, js, x.UpTo)
}

// Expire enters an operator's order into every partition of the ledger. Auditors then erase the
// payloads of entries that are older than before and were trimmed from the ledger, and stages drop data
// derived from them. Projects under legal hold are excluded. Expire returns once every registered
// auditor has chained the order; Expiry.Refused has those that did not carry it out.
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
	if err := c.awaitAuditors(ctx, js, x.Entry); err != nil {
		return x, err
	}
	x.Refused, err = c.refusals(ctx, js, []string{x.Statement}, x.Entry)
	return x, err
}
