package retain

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/inquiry"
	"lazaret/internal/natstest"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// A failed wait for auditors names the missing ones, even if the timeout occurs while their progress is
// read.
func TestWhoeverWaitsForAuditorsHearsWhoIsMissing(t *testing.T) {
	_, public, err := keys.Generate("audit-1")
	if err != nil {
		t.Fatal(err)
	}
	trust := new(keys.Trust)
	if err := trust.Add(keys.Pin{Key: public, Roles: []keys.Role{keys.RoleAuditor}}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(natstest.Start(t).Connect())
	if err != nil {
		t.Fatal(err)
	}
	for _, while := range []string{"asking", "waiting"} {
		ctx, cancel := context.WithCancel(t.Context())
		told := false
		c := &Config{Trust: trust, Tell: func(string, ...any) {
			if told = true; while == "waiting" {
				cancel()
			}
		}, Log: func(ctx context.Context, ask func(*inquiry.Log) error) error {
			if told {
				cancel()
				return ctx.Err()
			}
			return ask(nil)
		}}
		err := c.awaitAuditors(ctx, js, 7)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "ledger entry 7: audit-1+") ||
			!strings.Contains(err.Error(), "(has signed up to 0)") {
			t.Errorf("while %s: %v", while, err)
		}
		cancel()
	}
}

// If the wait for ingest's decision on a statement fails, the error must say that ingest has not decided, at whatever
// request the timeout occurs.
func TestWhoeverWaitsForADecisionHearsThatThereIsNone(t *testing.T) {
	private, _, err := keys.Generate("olga")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	srv := natstest.Start(t)
	c := &Config{Conn: srv.Connect()}
	for i := range 24 {
		ctx, cancel := context.WithCancel(t.Context())
		// Time out during the i-th round, as far as that can be controlled from outside.
		round := 0
		sub, err := srv.Connect().Subscribe("$JS.API.STREAM.MSG.GET."+streams.LedgerStream, func(*nats.Msg) {
			if round++; round > i/4 {
				cancel()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = c.State(ctx, signer, streams.DoHold, Subject{Project: "acme"}, "case 12")
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "ingest has not decided") {
			t.Errorf("%v", err)
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
}
