package auditor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/auditor"
	"lazaret/internal/fuzztest"
	"lazaret/internal/natstest"
	"lazaret/internal/wire"
	"lazaret/pkg/chain"
	"lazaret/streams"
)

func TestPromiseB18EntriesDeletedAfterTheyWereChainedAreFound(t *testing.T) {
	srv := natstest.Start(t)
	w := newLedger(t, srv)
	a := start(t, srv, config(t, fuzztest.NewPair(t, "a"), 1))
	w.write(40)
	a.await("it has chained 40", reached(40))
	l := a.end()
	w.write(5) // the log is behind
	ctx := context.Background()
	compare := func(what string, compared, trimmed int64, bad ...string) {
		t.Helper()
		c, err := auditor.CompareLedger(ctx, w.js, l)
		if err != nil {
			t.Fatal(what, err)
		}
		var texts []string
		for _, b := range c.Bad {
			texts = append(texts, b.Text)
		}
		all := strings.Join(texts, "\n")
		if c.Compared != compared || c.Trimmed != trimmed || len(texts) != len(bad) {
			t.Errorf("%s: %+v", what, c)
		}
		for _, b := range bad {
			if !strings.Contains(all, b) {
				t.Errorf("%s: %q is not in\n%s", what, b, all)
			}
		}
	}
	compare("untouched", 40, 0)
	if err := w.stream().DeleteMsg(ctx, 17); err != nil {
		t.Fatal(err)
	}
	compare("an entry is deleted", 39, 0, "no entry 17, but the log has its leaf 16")
	if err := w.stream().Purge(ctx, jetstream.WithPurgeSequence(4)); err != nil {
		t.Fatal(err)
	}
	compare("the beginning is deleted", 36, 0, "no entry 1,", "no entry 2,", "no entry 3,", "no entry 17,")
	body, err := streams.Marshal(&streams.Retention{ID: "t", UpTo: 10, Trimmed: 10})
	if err != nil {
		t.Fatal(err)
	}
	e := streams.Entry{Stage: streams.StageRetention, Type: streams.TypeTrimmed, Project: streams.SystemProject,
		Salt: streams.NewSalt(), Body: body}
	if _, err := w.js.PublishMsg(ctx, wire.Msg(&e)); err != nil {
		t.Fatal(err)
	}
	compare("the beginning was trimmed", 36, 3, "no entry 17,")

	// Another log differs from the ledger: it has an altered body, and a gap where the ledger has an entry. The
	// comparison must report both.
	other, err := chain.Open(t.TempDir(), chain.Options{MasterKey: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for i := range l.Head().Size {
		leaf, err := l.Leaf(i)
		if err != nil {
			t.Fatal(err)
		}
		salt, p, err := l.Salted(i)
		if err != nil {
			t.Fatal(err)
		}
		switch leaf.Seq {
		case 20:
			p = append(p, ' ')
		case 30:
			continue
		}
		if err := other.Append([]chain.Entry{{Seq: leaf.Seq, Time: leaf.Time, Type: leaf.Type, Project: leaf.Project,
			Salt: salt, Payload: p}}); err != nil {
			t.Fatal(err)
		}
	}
	l = other
	compare("another log", 34, 3, "no entry 17,", "leaf 19 is not ledger entry 20",
		"leaf 29 says that ledger entry 30 is missing")
}
