package stage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/files/crashfs"
	"lazaret/streams"
)

// retention stands in for the retention stage: it writes trim and trimmed entries and purges the ledger.
type retention struct {
	t  *testing.T
	js jetstream.JetStream
	st jetstream.Stream
}

func newRetention(t *testing.T, srv *natstest.Server) *retention {
	t.Helper()
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(context.Background(), streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	return &retention{t, js, st}
}

func (r *retention) say(p int, typ streams.Type, b streams.Retention) {
	r.t.Helper()
	body, err := streams.Marshal(b)
	if err != nil {
		r.t.Fatal(err)
	}
	e := streams.Entry{Partition: p, Stage: streams.StageRetention, Type: typ, Project: streams.SystemProject,
		Salt: streams.NewSalt(), Body: body}
	if _, err := r.js.PublishMsg(context.Background(), wire.Msg(&e)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *retention) announce(id string, upTo, already uint64) {
	r.t.Helper()
	for p := range streams.Partitions {
		r.say(p, streams.TypeTrim, streams.Retention{ID: id, UpTo: upTo, Trimmed: already})
	}
}

// purge removes entries after their announcement.
func (r *retention) purge(upTo uint64) {
	r.t.Helper()
	ctx := context.Background()
	info, err := r.st.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		r.t.Fatal(err)
	}
	for s := range info.State.Subjects {
		m, err := r.st.GetLastMsgForSubject(ctx, s)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := r.st.Purge(ctx, jetstream.WithPurgeSubject(s),
			jetstream.WithPurgeSequence(min(upTo+1, m.Sequence))); err != nil {
			r.t.Fatal(err)
		}
	}
}

// secured waits until stage name has answered the trim entry id in every partition, with a sequence of at least upTo.
func secured(t *testing.T, srv *natstest.Server, name, id string, upTo uint64) {
	t.Helper()
	natstest.Eventually(t, time.Minute, name+" has its state on disk", func() bool {
		there := make(map[int]bool)
		for _, e := range srv.Ledger() {
			var b streams.SecuredEntry
			if e.Stage == name && e.Type == streams.TypeSecured && streams.Unmarshal(e.Body, &b) == nil && b.ID == id &&
				b.Folded >= upTo {
				there[e.Partition] = true
			}
		}
		return len(there) == streams.Partitions
	})
}

func TestATrimmedLedgerTakesNothingFromWhoHasFoldedItAndSilencesWhoHasNot(t *testing.T) {
	srv := natstest.Start(t)
	r := newRetention(t, srv)
	in := stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: filepath.Join(t.TempDir(), "ingest")}
	group := stage.Config{Name: "sentinel-test", Conn: srv.Connect(), Dir: filepath.Join(t.TempDir(), "test")}
	runGroup := sentinel(new(watcher))
	a, b := start(t, in, ingest), start(t, group, runGroup)
	a.awaitReady()
	b.awaitReady()
	nc := srv.Connect()
	publish(t, nc, "acme", 0, 90)
	publish(t, nc, "other", 0, 30)
	if streams.PartitionOf("acme") == streams.PartitionOf("other") {
		t.Fatal("the two projects share a partition")
	}
	const n = 120 + 40
	natstest.Eventually(t, time.Minute, "all entries", func() bool { return len(srv.Ledger()) == n })
	last := srv.Ledger()[n-1].Seq

	// This group has never run, so it has folded none of the entries that will be trimmed.
	late := stage.Config{Name: "sentinel-late", Conn: srv.Connect(), Dir: filepath.Join(t.TempDir(), "late")}

	r.announce("t1", last, 0)
	secured(t, srv, "ingest", "t1", last)
	secured(t, srv, "sentinel-test", "t1", last)
	r.say(0, streams.TypeTrimmed, streams.Retention{ID: "t1", UpTo: last, Trimmed: last})
	r.purge(last)
	left := srv.Ledger()
	for _, e := range left {
		if e.Seq <= last {
			t.Errorf("entry %d of %s is left, although the stage has added later entries", e.Seq, e.Stage)
		}
	}

	// A stage that folded the trimmed entries must continue after a restart, with the state that it reported as synced.
	a.stop()
	b.stop()
	a, b = start(t, in, ingest), start(t, group, runGroup)
	a.awaitReady()
	b.awaitReady()
	publish(t, nc, "acme", 90, 30)
	natstest.Eventually(t, time.Minute, "the alerts go on with their numbers", func() bool {
		l := srv.Ledger()
		return strings.Contains(string(l[len(l)-1].Body), `{"of":120}`) && l[len(l)-1].Stage == "sentinel-test"
	})

	// A stage that did not fold the trimmed entries must stop with an error and publish nothing.
	if err := end(start(t, late, runGroup)); !isTrimmed(err, "sentinel-late") {
		t.Errorf("a group that comes late: %v", err)
	}
	b.stop()
	if err := os.Rename(group.Dir, group.Dir+".lost"); err != nil {
		t.Fatal(err)
	}
	before := len(srv.Ledger())
	if err := end(start(t, group, runGroup)); !isTrimmed(err, "sentinel-test") || !strings.Contains(err.Error(),
		"lazaret state restore sentinel-test") {
		t.Errorf("a group that lost its disk: %v", err)
	}
	if now := len(srv.Ledger()); now != before {
		t.Errorf("the stage added %d entries without its state", now-before)
	}

	// The stage's folder is lost. Restore must make the state from the stage's snapshot.
	if _, err := stage.Restore(context.Background(), srv.Connect(), nil, stage.SnapshotDir(group.Dir),
		group.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := stage.Restore(context.Background(), srv.Connect(), nil, stage.SnapshotDir(group.Dir),
		group.Dir); err == nil {
		t.Error("state is overwritten")
	}
	b = start(t, group, runGroup)
	b.awaitReady()
	publish(t, nc, "acme", 120, 3)
	natstest.Eventually(t, time.Minute, "the restored group goes on with its numbers", func() bool {
		l := srv.Ledger()
		return strings.Contains(string(l[len(l)-1].Body), `{"of":123}`) && l[len(l)-1].Stage == "sentinel-test"
	})
	if d := b.Stats.Diverged.Load(); d != 0 {
		t.Errorf("%d entries differ", d)
	}

	// Restore must refuse a snapshot that was made before entries were trimmed that the snapshot has not folded.
	old := filepath.Join(t.TempDir(), "old.snapshot")
	if err := os.CopyFS(old, os.DirFS(stage.SnapshotDir(group.Dir))); err != nil {
		t.Fatal(err)
	}
	l := srv.Ledger()
	end := l[len(l)-1].Seq
	r.announce("t2", end, last)
	secured(t, srv, "ingest", "t2", end)
	secured(t, srv, "sentinel-test", "t2", end)
	r.say(0, streams.TypeTrimmed, streams.Retention{ID: "t2", UpTo: end, Trimmed: end})
	r.purge(end)
	to := filepath.Join(t.TempDir(), "state")
	if _, err := stage.Restore(context.Background(), srv.Connect(), nil, old, to); err == nil ||
		!strings.Contains(err.Error(), "a later snapshot is needed") {
		t.Errorf("a snapshot that is too old: %v", err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("the state was restored from a snapshot that is too old")
	}
}

// end waits until a process ends by itself, and returns the process's error.
func end(p *process) error {
	err := <-p.done
	p.done = nil
	return err
}

func isTrimmed(err error, name string) bool {
	var t *stage.TrimmedError
	return errors.As(err, &t) && t.Stage == name
}

// slowReader is a watcher that waits at one entry, so that the test can trim the ledger during the fold.
type slowReader struct {
	watcher
	at   uint64
	here chan struct{}
	on   chan struct{}
}

func (s *slowReader) Step(st *stage.State, e *streams.Entry) (*stage.Output, error) {
	if e.Seq == s.at {
		close(s.here)
		<-s.on
	}
	return s.watcher.Step(st, e)
}

// A stage without state folds the ledger while the ledger is trimmed. Its reader continues after the removed entries
// without an error. The stage must notice that entries are missing, stop, and publish nothing.
func TestWhoReadOverAHoleSaysNothing(t *testing.T) {
	srv := natstest.Start(t)
	r := newRetention(t, srv)
	const n = 20_000
	js := r.js
	for i := range n {
		e := streams.Entry{Partition: 3, Stage: streams.StageIngest, Type: streams.TypeObservation, Project: "acme",
			Src: uint64(i + 1), Salt: streams.NewSalt(), Body: []byte(fmt.Sprintf(`{"n":%d}`, i))}
		if _, err := js.PublishMsgAsync(wire.Msg(&e), jetstream.WithStallWait(10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	fold := &slowReader{at: 1, here: make(chan struct{}), on: make(chan struct{})}
	group := stage.Config{Name: "sentinel-test", Conn: srv.Connect(), Dir: filepath.Join(t.TempDir(), "test")}
	b := start(t, group, func(ctx context.Context, c stage.Config) error { return stage.RunLedger(ctx, c, fold, nil) })
	<-fold.here
	r.say(0, streams.TypeTrimmed, streams.Retention{ID: "t", UpTo: n - 100, Trimmed: n - 100})
	r.purge(n - 100)
	close(fold.on)
	if err := end(b); !isTrimmed(err, "sentinel-test") {
		t.Errorf("the stage ended with %v, want an error that entries were trimmed", err)
	}
	for _, e := range srv.Ledger() {
		if e.Stage == "sentinel-test" {
			t.Fatalf("the stage added entry %d: %s", e.Seq, e.Body)
		}
	}
}

// The machine loses power right after a stage has reported its state as synced, and the ledger is trimmed. After a
// restart, the stage must continue from the state on disk, because it cannot fold the trimmed entries again.
func TestWhatAStageSecuredSurvivesACrash(t *testing.T) {
	srv := natstest.Start(t)
	r, nc := newRetention(t, srv), srv.Connect()
	fs, gs := crashfs.New(), crashfs.New()
	in := stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: "/ingest", FS: fs}
	group := stage.Config{Name: "sentinel-test", Conn: srv.Connect(), Dir: "/test", FS: gs}
	runGroup := sentinel(new(watcher))
	a, b := start(t, in, ingest), start(t, group, runGroup)
	a.awaitReady()
	b.awaitReady()
	already := uint64(0)
	for round := range 5 {
		publish(t, nc, "acme", round*30, 30)
		natstest.Eventually(t, time.Minute, "all alerts", func() bool {
			l := srv.Ledger()
			return len(l) > 0 && strings.Contains(string(l[len(l)-1].Body), fmt.Sprintf(`{"of":%d}`, (round+1)*30))
		})
		l := srv.Ledger()
		last, id := l[len(l)-1].Seq, fmt.Sprint("t", round)
		r.announce(id, last, already)
		secured(t, srv, "ingest", id, last)
		secured(t, srv, "sentinel-test", id, last)
		fs, gs = fs.Crash(vfs.CrashCloneCfg{}), gs.Crash(vfs.CrashCloneCfg{})
		r.say(0, streams.TypeTrimmed, streams.Retention{ID: id, UpTo: last, Trimmed: last})
		r.purge(last)
		already = last
		a.stop()
		b.stop()
		in.FS, group.FS = fs, gs
		a, b = start(t, in, ingest), start(t, group, runGroup)
		a.awaitReady()
		b.awaitReady()
	}
	if a.Stats.Diverged.Load()+b.Stats.Diverged.Load() > 0 {
		t.Error("entries differ")
	}
}

// The ledger gets a message on a stage's own subject that is not an entry. The server then expects that message's
// sequence from the stage's next publish. The stage must find out the sequence and continue, at once and after a
// restart.
func TestPromiseC22AMessageInAStagesOwnNameDoesNotStopIt(t *testing.T) {
	srv := natstest.Start(t)
	nc, dirs, n := srv.Connect(), [2]string{t.TempDir(), t.TempDir()}, 0
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	alertsOf := func() (alerts int) {
		span := stage.Span{Stream: streams.LedgerStream,
			Filters: []string{streams.LedgerStageFilter(streams.SentinelStage("watch"))}}
		err := stage.Each(t.Context(), js, span, func(m jetstream.Msg, _ uint64, _ time.Time) error {
			if m.Headers().Get(streams.HeaderType) == string(streams.TypeAlerts) {
				alerts++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return alerts
	}
	for range 2 {
		in := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: dirs[0]}, ingest)
		watch := start(t, stage.Config{Name: streams.SentinelStage("watch"), Conn: srv.Connect(), Dir: dirs[1]},
			sentinel(&watcher{}))
		for range 2 {
			for _, s := range []string{streams.StageIngest, streams.SentinelStage("watch")} {
				if _, err := js.Publish(t.Context(), streams.LedgerSubject(streams.PartitionOf("demo"), s),
					[]byte("no entry")); err != nil {
					t.Fatal(err)
				}
			}
			publish(t, nc, "demo", n, 3)
			n += 3
			natstest.Eventually(t, time.Minute, "the entries after the message", func() bool {
				return alertsOf() == n/3
			})
		}
		in.stop()
		watch.stop()
	}
}
