package stage_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/metrics"
	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/streams"
)

// The ledger is full, so ingest has read an input and cannot add its entry. The health check must then say that ingest
// is not ready, and why. Once the ledger has room and the entry is added, ingest must be ready again.
func TestPromiseC24AStageWithAPendingEntryIsNotReady(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	room := func(bytes int64) {
		st, err := js.Stream(t.Context(), streams.LedgerStream)
		if err != nil {
			t.Fatal(err)
		}
		cfg := st.CachedInfo().Config
		cfg.MaxBytes = bytes
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	p := metrics.New()
	in := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, ingest)
	in.awaitReady()
	p.Watch(streams.StageIngest, stage.Tail(nc, nil), in.Stats)
	p.Complete()
	publish(t, nc, "demo", 0, 3)
	var b bytes.Buffer
	natstest.Eventually(t, time.Minute, "a stage that is ready", func() bool {
		return len(srv.Ledger()) == 3 && p.Ready(t.Context(), &b)
	})
	room(1)
	publish(t, nc, "demo", 3, 3)
	natstest.Eventually(t, time.Minute, "a stage with a pending entry", func() bool {
		b.Reset()
		return !p.Ready(t.Context(), &b) && strings.Contains(b.String(), "ingest: an entry has been pending for") &&
			strings.Contains(b.String(), "maximum bytes exceeded")
	})
	if pending := scraped(t, p, `lazaret_stage_owed_seconds{stage="ingest"}`); pending < 1 {
		t.Errorf("the metric says that an entry has been pending for %v seconds", pending)
	}
	room(-1)
	natstest.Eventually(t, time.Minute, "a stage that is ready again", func() bool {
		return len(srv.Ledger()) == 6 && p.Ready(t.Context(), &b)
	})
}

// scraped returns the value of a metric from the text that Prometheus would read.
func scraped(t *testing.T, p *metrics.Process, series string) float64 {
	t.Helper()
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
	}
	t.Fatalf("there is no %s", series)
	return 0
}
