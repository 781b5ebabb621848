package stage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// An end-to-end test upgrades a data folder of the previous state format. The archive of that folder must exist.
func TestThePreviousFormatHasADataFolder(t *testing.T) {
	fixture := fmt.Sprintf("../e2e/testdata/data-%d.tar.gz", stage.StateFormat-1)
	if _, err := os.Stat(fixture); err != nil {
		t.Errorf("%v: TestMakeADataFolder in internal/e2e makes it, with the previous version", err)
	}
}

// A stage with state of an earlier format must fold the ledger again if the ledger is complete, and migrate the state
// if the ledger was trimmed. It must refuse state of a later format.
func TestStateOfAnEarlierVersionIsFoldedAnewOrMigrated(t *testing.T) {
	srv := natstest.Start(t)
	r, nc, dir := newRetention(t, srv), srv.Connect(), t.TempDir()
	in := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, ingest)
	in.awaitReady()
	cfg := stage.Config{Name: "sentinel-test", Conn: srv.Connect(), Dir: dir, Migrations: map[int]stage.Migration{}}
	run := sentinel(new(watcher))
	round, told := 0, 0
	// next starts the stage, publishes three messages, waits for the stage's answer to them, and stops the stage. It
	// returns the number of entries that were folded at the start.
	next := func() uint64 {
		t.Helper()
		p := start(t, cfg, run)
		p.awaitReady()
		again := p.Stats.Entries.Load()
		publish(t, nc, "acme", 3*round, 3)
		round, told = round+1, told+4
		natstest.Eventually(t, time.Minute, "an answer", func() bool {
			n := 0
			for _, e := range srv.Ledger() {
				if e.Type == streams.TypeAlerts {
					n++
				}
			}
			return n == round
		})
		if p.Stats.Diverged.Load() > 0 {
			t.Fatal("the stage adds other entries than before")
		}
		p.stop()
		return again
	}
	format := func(n int) {
		t.Helper()
		if err := stage.SetFormat(dir, nil, byte(n)); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(want string) {
		t.Helper()
		err := run(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v, want %q", err, want)
		}
	}

	next()
	for _, f := range []int{3, stage.StateFormat - 1} {
		migrated := false
		if f > 3 {
			// This migration is not exact, so it must be used only if the ledger was trimmed.
			cfg.Migrations[f] = stage.Migration{Do: func(*stage.State) error { migrated = true; return nil }}
		}
		format(f)
		if n := next(); n < uint64(told-4) || migrated {
			t.Errorf("with state of format %d, %d entries were folded again, want all; migrated: %v", f, n, migrated)
		}
	}
	format(stage.StateFormat + 1)
	err := run(t.Context(), cfg)
	if later := new(streams.LaterError); !errors.As(err, &later) {
		t.Fatalf("state of a later version: %v", err)
	}
	fails("A later version wrote it")
	if err := stage.SetFormat(dir, nil, stage.StateFormat); err == nil {
		t.Fatal("this version opens state of a later version")
	}
	// Start over: the state is a cache.
	cfg.Dir = t.TempDir()
	dir = cfg.Dir
	p := start(t, cfg, run)
	p.awaitReady()
	l := srv.Ledger()
	last := l[len(l)-1].Seq
	r.announce("t", last, 0)
	secured(t, srv, "ingest", "t", last)
	secured(t, srv, "sentinel-test", "t", last)
	r.say(0, streams.TypeTrimmed, streams.Retention{ID: "t", UpTo: last, Trimmed: last})
	r.purge(last)
	p.stop()
	format(3)
	fails("use the version that wrote the state")
	format(stage.StateFormat - 1)
	migrated := 0
	cfg.Migrations[stage.StateFormat-1] = stage.Migration{Do: func(st *stage.State) error {
		migrated++
		return st.Set([]byte("migrated"), nil)
	}}
	broken := errors.New("broken")
	whole := cfg.Migrations[stage.StateFormat-1]
	cfg.Migrations[stage.StateFormat-1] = stage.Migration{Do: func(st *stage.State) error {
		if st.Partition() == 5 {
			return broken
		}
		return nil
	}}
	fails("broken")
	cfg.Migrations[stage.StateFormat-1] = whole
	p = start(t, cfg, run)
	p.awaitReady()
	publish(t, nc, "acme", 3*round, 3)
	round++
	natstest.Eventually(t, time.Minute, "an answer that counts what came before the trim", func() bool {
		l := srv.Ledger()
		return strings.Contains(string(l[len(l)-1].Body), fmt.Sprintf(`{"of":%d}`, 3*round))
	})
	p.stop()
	p = start(t, cfg, run)
	p.awaitReady()
	if migrated != streams.Partitions {
		t.Errorf("migrated %d partitions, want %d, once", migrated, streams.Partitions)
	}
}

// A stage must stop at an entry that a later version of ingest, of the arbiter or of the stage itself wrote, whether it
// reads the entry or starts after it. Such an entry of another sentinel group must not stop it.
func TestALedgerOfALaterVersionIsRefused(t *testing.T) {
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	say := func(s string) {
		t.Helper()
		e := streams.Entry{Partition: 3, Stage: s, Type: streams.TypeObservation, Project: "p", Salt: streams.NewSalt(),
			Body: []byte("{}")}
		m := wire.Msg(&e)
		if m.Header.Get(streams.HeaderFormat) != fmt.Sprint(streams.LedgerFormat) {
			t.Fatalf("an entry has format %q", m.Header.Get(streams.HeaderFormat))
		}
		m.Header.Set(streams.HeaderFormat, "99")
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	cfg := stage.Config{Name: "sentinel-test", Conn: srv.Connect(), Dir: t.TempDir()}
	run := sentinel(new(watcher))
	p := start(t, cfg, run)
	p.awaitReady()
	say("sentinel-strange")
	natstest.Eventually(t, time.Minute, "the entry of the third-party group is ignored", func() bool {
		return p.Stats.Ignored.Load() == 1
	})
	say(streams.StageIngest)
	const want = "has format 99, and this version of lazaret reads formats up to 6. A later version wrote it"
	select {
	case err := <-p.done:
		p.done = nil
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a stage that reads an entry of a later version ends with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a stage goes on after an entry of a later version")
	}
	for name, run := range map[string]func(context.Context, stage.Config) error{"sentinel-test": run,
		streams.StageIngest: ingest} {
		cfg := stage.Config{Name: name, Conn: srv.Connect(), Dir: t.TempDir()}
		if err := run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s starts: %v", name, err)
		}
	}
}

// A stage finds state that an earlier version wrote in plaintext. It must fold the ledger again and use nothing from
// that state.
func TestUnsealedStateIsFoldedAnew(t *testing.T) {
	srv := natstest.Start(t)
	in := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, ingest)
	in.awaitReady()
	publish(t, srv.Connect(), "acme", 0, 9)
	natstest.Eventually(t, time.Minute, "all messages are decided", func() bool { return len(srv.Ledger()) == 9 })
	cfg := stage.Config{Name: "sentinel-test", Conn: srv.Connect(), Dir: t.TempDir()}
	run := sentinel(new(watcher))
	for _, key := range [][]byte{nil, bytes.Repeat([]byte{7}, 32), bytes.Repeat([]byte{7}, 32)} {
		fresh := cfg.Key == nil
		cfg.Key = key
		p := start(t, cfg, run)
		p.awaitReady()
		if n := p.Stats.Entries.Load(); fresh != (n >= 9) {
			t.Errorf("with key %x, %d entries were folded", key, n)
		}
		natstest.Eventually(t, time.Minute, "answers", func() bool { return len(srv.Ledger()) == 12 })
		natstest.Eventually(t, time.Minute, "ingest has folded the answers", func() bool {
			return p.Stats.Folded.Load() >= 12
		})
		p.stop()
	}
	cfg.Key = bytes.Repeat([]byte{8}, 32)
	if err := run(t.Context(), cfg); !errors.Is(err, stage.ErrSealed) {
		t.Errorf("state that was sealed with another key: %v", err)
	}
}
