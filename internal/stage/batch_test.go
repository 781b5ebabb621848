package stage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
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
	// Each process starts with the ledger only, and is stopped in the middle.
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
	// A process that runs to the end purges the whole intake.
	start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, ingest).awaitReady()
	natstest.Eventually(t, time.Minute, "a purged intake", func() bool {
		st, err := js.Stream(context.Background(), streams.IntakeStream)
		return err == nil && st.CachedInfo().State.Msgs == 0
	})
}
