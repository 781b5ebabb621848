package stage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/pkg/files/crashfs"
	"lazaret/streams"
)

// Pebble by itself does not write a state that hardly grows to files. After a kill, at most half of the entries may
// have to be folded again.
func TestAfterAKillFewEntriesAreFoldedAgainHoweverManyThereAre(t *testing.T) {
	srv := natstest.Start(t)
	fs := crashfs.New()
	in := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, ingestInFrames)
	in.awaitReady()
	group := stage.Config{Name: "sentinel-test", Conn: srv.Connect(), Dir: "/test", FS: fs}
	run := sentinel(new(watcher))
	a := start(t, group, run)
	a.awaitReady()
	const n = 15_000
	nc := srv.Connect()
	for i := 0; i < n; i += 3000 {
		publish(t, nc, "acme", i, 3000)
	}
	natstest.Eventually(t, time.Minute, "everything is folded and answered", func() bool {
		return a.Stats.Entries.Load() >= n+n/3
	})
	// The crash leaves only the data that is in files.
	group.FS = fs.Crash(vfs.CrashCloneCfg{})
	a.stop()
	group.Conn = srv.Connect()
	b := start(t, group, run)
	b.awaitReady()
	if again := b.Stats.Entries.Load(); again > n/2 {
		t.Errorf("%d of %d entries were folded again", again, n+n/3)
	}
	if b.Stats.Diverged.Load() > 0 {
		t.Error("the stage's entries differ after the restart")
	}
}

// Ingest folds another stage's entry together with ingest's own next entry in the partition. Here the quiet partition
// has no next entry. A restart must not read the many later entries of the other partition again because of that.
func TestAQuietPartitionKeepsNobodyBack(t *testing.T) {
	srv := natstest.Start(t)
	nc, dir, group := srv.Connect(), t.TempDir(), t.TempDir()
	other := "busy"
	for i := 0; streams.PartitionOf(other) == streams.PartitionOf("quiet"); i++ {
		other = fmt.Sprint("busy", i)
	}
	cfg := stage.Config{Name: streams.StageIngest, Dir: dir}
	startIngest := func() *process {
		cfg.Conn = srv.Connect()
		p := start(t, cfg, ingestInFrames)
		p.awaitReady()
		return p
	}
	a := startIngest()
	s := start(t, stage.Config{Name: "sentinel-test", Conn: srv.Connect(), Dir: group}, sentinel(new(watcher)))
	s.awaitReady()
	publish(t, nc, "quiet", 0, 3) // the third is answered, and nothing follows
	natstest.Eventually(t, time.Minute, "the sentinel's alert in the ledger", func() bool {
		return len(srv.Ledger()) == 4
	})
	s.stop()
	publish(t, nc, other, 0, 500)
	natstest.Eventually(t, time.Minute, "ingest has published the entries of the other partition", func() bool {
		return a.Stats.Published.Load() == 503
	})
	natstest.Eventually(t, time.Minute, "ingest has read its entries back", func() bool {
		return a.Stats.Entries.Load() >= 503
	})
	for range 2 {
		a.stop()
		a = startIngest()
		if n := a.Stats.Entries.Load(); n > 50 {
			t.Errorf("%d entries were read again", n)
		}
	}
	// The next entry of the quiet partition must count the waiting alert exactly once.
	for i := range 2 {
		publish(t, nc, "quiet", 3+i, 1)
		natstest.Eventually(t, time.Minute, "the next entry", func() bool { return a.Stats.Published.Load() == uint64(1+i) })
	}
	for _, e := range srv.Ledger()[4:] {
		if want := `"alerts":1`; e.Project == "quiet" && !strings.Contains(string(e.Body), want) {
			t.Errorf("%s, want %s", e.Body, want)
		}
	}
	a.stop()
	cfg.Dir = t.TempDir()
	if b := startIngest(); b.Stats.Diverged.Load() > 0 {
		t.Error("a fold of the whole ledger gives other entries")
	}
}
