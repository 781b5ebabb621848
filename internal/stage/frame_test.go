package stage_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/streams"
)

func TestEntriesThatWaitShareMessagesAndAreReadOneByOne(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	const n = 900
	projects := []string{"alpha", "beta", "gamma"}
	for _, p := range projects {
		publish(t, nc, p, 0, n)
	}
	feed, err := stage.OpenFeed(t.Context(), srv.Connect(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(feed.Close)
	// Ingest decides the backlog of observations before any other stage reads, so that it fills frames.
	start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir(), Feed: feed},
		ingestInFrames).awaitReady()
	natstest.Eventually(t, time.Minute, "all observations", func() bool { return len(srv.Ledger()) >= len(projects)*n })
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	if msgs := st.CachedInfo().State.Msgs; msgs > uint64(len(projects)*n/8) {
		t.Errorf("%d entries take %d messages, want far fewer", len(projects)*n, msgs)
	}
	start(t, stage.Config{Name: streams.SentinelStage("a"), Conn: srv.Connect(), Dir: t.TempDir(), Feed: feed},
		sentinel(&watcher{})).awaitReady()
	natstest.Eventually(t, time.Minute, "all alerts", func() bool {
		return len(srv.Ledger()) >= len(projects)*n+len(projects)*n/3
	})
	ledger := srv.Ledger()
	account(t, ledger)
	// An alert must name exactly one entry as its input, even if that entry shares a message with others.
	at := make(map[uint64]*streams.Entry)
	for i := range ledger {
		at[ledger[i].Position()] = &ledger[i]
	}
	if len(at) != len(ledger) {
		t.Errorf("%d entries have %d positions", len(ledger), len(at))
	}
	within := 0
	for _, e := range ledger {
		if e.Type != streams.TypeAlerts {
			continue
		}
		var o struct {
			N int `json:"n"`
		}
		src := at[e.Src]
		if src == nil {
			t.Fatalf("alert %d names position %d, but no entry is there", e.Seq, e.Src)
		}
		if err := streams.Unmarshal(src.Body, &o); err != nil || o.N%3 != 0 {
			t.Fatalf("alert %s is of %s (%v)", e.Body, src.Body, err)
		}
		if src.Index > 0 {
			within++
		}
		got, err := stage.ReadEntry(t.Context(), js, e.Src)
		if err != nil || string(got.Body) != string(src.Body) || got.Salt != src.Salt {
			t.Fatalf("the entry at position %d is %s (%v), want %s", e.Src, got.Body, err, src.Body)
		}
	}
	if within == 0 {
		t.Error("no alert is about an entry within a message: the test shows nothing")
	}
}

// follows is a Follower that collects the entries that it receives.
type follows struct {
	entries []streams.Entry
	next    uint64
	split   int   // batches that end within a message
	batches []int // bytes of the batches, without their last message
}

func (f *follows) Next() uint64 { return f.next }
func (f *follows) Take(entries []streams.Entry, _ bool) error {
	size := 0
	for i, e := range entries {
		f.entries, f.next = append(f.entries, e), e.Seq+1
		if i == 0 && e.Index > 0 {
			f.split++
		}
		if e.Seq < entries[len(entries)-1].Seq {
			size += len(e.Body)
		}
	}
	f.batches = append(f.batches, size)
	return nil
}

func TestAFollowerIsGivenWholeMessages(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	publish(t, nc, "alpha", 0, 700)
	start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, ingestInFrames).awaitReady()
	natstest.Eventually(t, time.Minute, "all observations", func() bool { return len(srv.Ledger()) >= 700 })
	f := followAll(t, srv, 3)
	if f.split > 0 || fmt.Sprint(len(f.entries)) != "700" || shared(f.entries) == 0 {
		t.Errorf("%d entries in batches of which %d end within a message, %d share one", len(f.entries), f.split,
			shared(f.entries))
	}
}

// followAll follows the ledger until the follower has all entries that it has now.
func followAll(t *testing.T, srv *natstest.Server, batch int) *follows {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &follows{next: 1}
	done := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		done <- stage.Follow(ctx, srv.Connect(), nil, f, batch, slog.New(slog.DiscardHandler), nil, func() { close(ready) })
	}()
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
		t.Fatal("the follower is not ready in time")
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return f
}

// A message is up to 1 MiB, so the number of messages does not bound the memory of a batch.
func TestAFollowersBatchIsBoundedInBytes(t *testing.T) {
	const events = 4096
	srv := natstest.Start(t)
	floodBatches(t, srv.Connect(), "flood", events/256, 256, 3500)
	start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, ingestInFrames).awaitReady()
	natstest.Eventually(t, time.Minute, "all observations", func() bool { return len(srv.Ledger()) >= events })
	f := followAll(t, srv, 4096)
	if len(f.entries) != events {
		t.Errorf("the follower has %d entries, want %d", len(f.entries), events)
	}
	if most := slices.Max(f.batches); most < 1<<20 || most >= 2<<20 {
		t.Errorf("without its last message, the largest batch has %d bytes, want 1 MiB to 2 MiB", most)
	}
}
