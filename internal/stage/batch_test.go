package stage_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/pkg/position"
	"lazaret/streams"
)

func TestABatchIsManyInputsAlsoWhenIngestStopsWithinIt(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	subject, err := streams.IntakeSubject("alpha", "agent", streams.KindObs, "web")
	if err != nil {
		t.Fatal(err)
	}
	const batches, size = 40, 200
	n := 0
	for range batches {
		var events []string
		for range size {
			events = append(events, fmt.Sprintf(`{"specversion":"1.0","id":"e%d","source":"s","type":"t","data":%d}`, n, n))
			n++
		}
		m := &nats.Msg{Subject: subject, Header: nats.Header{"content-type": {streams.BatchContentType}},
			Data: []byte("[" + strings.Join(events, ",") + "]")}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	// Each process starts without a stored state, so it folds the ledger. The test stops it in the middle of its
	// decisions.
	for round := 0; len(srv.Ledger()) < n; round++ {
		how := ingest
		if round%2 == 0 {
			how = ingestInFrames
		}
		in := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, how)
		natstest.Eventually(t, time.Minute, "progress", func() bool {
			return in.Stats.Published.Load() > 0 || len(srv.Ledger()) == n
		})
		in.stop()
	}
	ledger := srv.Ledger()
	obs, _ := account(t, ledger)
	if obs["alpha"] != n {
		t.Errorf("%d entries, want %d", obs["alpha"], n)
	}
	srcs := make(map[uint64]bool)
	for _, e := range ledger {
		srcs[e.Src] = true
	}
	if len(srcs) != n {
		t.Errorf("%d entries name %d inputs", n, len(srcs))
	}
	// A process that is not stopped purges all messages from the intake in the end.
	start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, ingest).awaitReady()
	natstest.Eventually(t, time.Minute, "a purged intake", func() bool {
		st, err := js.Stream(context.Background(), streams.IntakeStream)
		return err == nil && st.CachedInfo().State.Msgs == 0
	})
}

// floodBatches publishes batches of events to the intake. The data of each event begins with the event's number.
func floodBatches(t *testing.T, nc *nats.Conn, project string, batches, events, size int) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range batches {
		body := []byte("[")
		for range events {
			body = fmt.Appendf(body, `{"specversion":"1.0","id":"e%d","source":"s","type":"t","data":"%d %s"},`, n, n,
				strings.Repeat("x", size))
			n++
		}
		body[len(body)-1] = ']'
		m := &nats.Msg{Subject: "lz.in." + project + ".agent.obs.web", Data: body,
			Header: nats.Header{streams.HeaderContentType: {streams.BatchContentType}}}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

// The test queues more batches than fit into memory. The stage may read each message from the intake at most once more,
// not once for each event. The entries must have the order of the events. Messages that are decided in order must be
// purged together, not deleted one by one.
func TestABatchIsReadOnceForAllItsEvents(t *testing.T) {
	const batches, events = 48, 256 // 43 MB
	srv := natstest.Start(t)
	nc := srv.Connect()
	floodBatches(t, nc, "flood", batches, events, 3500)
	requests := func(what string) *nats.Subscription {
		sub, err := nc.SubscribeSync("$JS.API." + what + "." + streams.IntakeStream)
		if err != nil {
			t.Fatal(err)
		}
		return sub
	}
	reads, purges, deletions := requests("DIRECT.GET"), requests("STREAM.PURGE"), requests("STREAM.MSG.DELETE")
	// The takeover time is long enough that all batches are queued when this stand-by takes over.
	start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir(), Standby: true,
		Takeover: 5 * time.Second}, briefly).awaitReady()
	natstest.Eventually(t, 2*time.Minute, "an entry of each event", func() bool {
		return len(srv.Ledger()) == batches*events
	})
	for i, e := range srv.Ledger() {
		if want := fmt.Sprintf(`"%d`, i); string(e.Body) != want {
			t.Fatalf("entry %d is of event %s, want %s", i, e.Body, want)
		}
	}
	n, _, err := reads.Pending()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d reads of the intake for %d messages", n, batches)
	if n > batches {
		t.Errorf("%d messages were read %d times", batches, n)
	}
	if n == 0 {
		t.Error("all events were held in memory: the test shows nothing")
	}
	if n, _, err := deletions.Pending(); err != nil || n > 0 {
		t.Errorf("%d messages were deleted one by one (%v), want none", n, err)
	}
	natstest.Eventually(t, time.Minute, "a third purge of the intake", func() bool {
		n, _, err := purges.Pending()
		return err == nil && n >= 3
	})
	if n, _, err := purges.Pending(); err != nil || n > batches/4 {
		t.Errorf("the intake was purged %d times (%v), want once for several batches", n, err)
	}
}

// Ingest decides a long backlog. It must read its own entries from the process's feed often enough that the feed does
// not release it. Otherwise the ledger would be read twice, by the feed and by ingest. On a machine that is busy with
// other work, ingest may fall behind once, so one of three attempts must show it.
func TestUnderABacklogIngestKeepsUpWithTheFeed(t *testing.T) {
	const attempts = 3
	for i := range attempts {
		n := releasesUnderABacklog(t)
		if n == 0 {
			return
		}
		t.Logf("attempt %d: the feed released ingest %d times", i+1, n)
	}
	t.Errorf("the feed released ingest in each of %d attempts", attempts)
}

// releasesUnderABacklog returns how often the feed releases ingest while ingest decides 64 MB, four times what may wait
// for a stage.
func releasesUnderABacklog(t *testing.T) int {
	t.Helper()
	const batches, events = 72, 256
	srv := natstest.Start(t)
	nc := srv.Connect()
	floodBatches(t, nc, "flood", batches, events, 3500)
	feed, err := stage.OpenFeed(t.Context(), srv.Connect(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	r := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir(), Feed: feed},
		ingestInFrames)
	r.awaitReady()
	natstest.Eventually(t, 2*time.Minute, "an entry of each event", func() bool {
		return len(srv.Ledger()) == batches*events
	})
	r.stop()
	return feed.Released()
}

// A process asks ingest at its start what is active in each partition, and ends if there is no answer in time. So the
// answers must not wait for the backlog that the process has after it was killed.
func TestQueriesDoNotWaitForTheBacklog(t *testing.T) {
	const batches, events = 72, 256 // about seven chains of batches, each decided without a break
	srv := natstest.Start(t)
	floodBatches(t, srv.Connect(), "flood", batches, events, 3500)
	queries := make(chan stage.Query)
	p := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()},
		func(ctx context.Context, cfg stage.Config) error {
			return stage.RunIntake(ctx, cfg, &sharing{}, queries)
		})
	p.awaitReady()
	natstest.Eventually(t, time.Minute, "the first entries", func() bool { return p.Stats.Published.Load() > 0 })
	var wg sync.WaitGroup
	for part := range streams.Partitions {
		wg.Go(func() {
			if err := stage.Ask(t.Context(), queries, part, func(*stage.State) {}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := p.Stats.Published.Load(); n > batches*events/2 {
		t.Errorf("%d of %d events were decided before %d queries were answered", n, batches*events, streams.Partitions)
	}
}

// The batches of one agent have more events than the stage reads ahead. The stage must still read the proposals of two
// other projects, one in the agent's partition and one in another partition, and decide them after a few batches.
func TestPromiseC21BatchesOfOneAgentDoNotHideTheOthers(t *testing.T) {
	const batches, events = 160, 256
	srv := natstest.Start(t)
	nc := srv.Connect()
	flood := neighbours(2)[0]
	others := []string{neighbours(2)[1], "other"}
	if streams.PartitionOf(flood) == streams.PartitionOf("other") {
		t.Fatal("the two projects share a partition")
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(project, kind string) {
		if _, err := js.Publish(t.Context(), "lz.in."+project+".agent."+kind, []byte("0")); err != nil {
			t.Fatal(err)
		}
	}
	publish("other", "obs.web") // so the process takes over this partition before the flood's
	floodBatches(t, nc, flood, batches, events, 0)
	for _, project := range others {
		publish(project, "act")
	}
	// The takeover time is long enough that the queue is full when this stand-by takes over.
	start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir(), Standby: true,
		Takeover: 5 * time.Second}, briefly).awaitReady()
	before, found := 0, make(map[string]int)
	natstest.Eventually(t, 2*time.Minute, "the proposals", func() bool {
		before = 0
		for _, e := range srv.Ledger() {
			if e.Project == flood {
				before++
			} else if position.Sequence(e.Src) > batches {
				found[e.Project] = before
			}
		}
		return len(found) == len(others)
	})
	t.Logf("events of the flood decided before each proposal: %v", found)
	for project, n := range found {
		if n > 2*500 { // two full batches of the stage
			t.Errorf("%d events of the flood were decided before %s's proposal", n, project)
		}
	}
}
