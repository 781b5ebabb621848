package stage_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/streams"
)

// echo is an ingest whose entries repeat the data of each message and number the messages of a partition. So the
// entries show if a message was lost, doubled or reordered.
type echo struct{ resets int }

func (e *echo) Reset() { e.resets++ }

func (*echo) Relevant(e *streams.Entry) bool { return e.Type == streams.TypeAlerts }

func (*echo) FollowUp(*stage.State) (*stage.Admission, error) { return nil, nil }
func (*echo) Wakes(*streams.Entry) bool                       { return false }

func count(st *stage.State, key string) uint64 {
	v, ok, err := st.Get([]byte(key))
	if err != nil || !ok {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

func (*echo) Admit(st *stage.State, m *stage.Message) (*stage.Admission, error) {
	body := fmt.Sprintf(`{"n":%d,"alerts":%d,"data":%q}`, count(st, "n")+1, count(st, "alerts"), m.Data)
	return &stage.Admission{Output: stage.Output{Type: streams.TypeObservation, Project: m.Address.Project,
		Body: []byte(body)}}, nil
}

func (*echo) Reject(_ *stage.State, m *stage.Message, why *streams.RejectError) (*stage.Admission, error) {
	out, err := stage.NewOutput(streams.TypeRejected, m.Address.Project,
		&streams.RejectedEntry{EntryHead: streams.EntryHead{Intake: m.Seq}, Code: why.Code, Reason: why.Reason, Raw: m.Data})
	if err != nil {
		return nil, err
	}
	return &stage.Admission{Output: *out}, nil
}

func (*echo) Shed(_ *stage.Message, reason string) *streams.RejectError {
	return &streams.RejectError{Code: streams.CodeAgentFull, Reason: reason}
}

func (*echo) Apply(st *stage.State, e *streams.Entry, _ any) error {
	key := "n"
	if e.Type == streams.TypeAlerts {
		key = "alerts"
	}
	return st.Set([]byte(key), binary.BigEndian.AppendUint64(nil, count(st, key)+1))
}

// watcher is a sentinel that alerts on every third observation.
type watcher struct{ slow time.Duration }

func (*watcher) Reset() {}

func (w *watcher) Step(st *stage.State, e *streams.Entry) (*stage.Output, error) {
	if e.Stage != streams.StageIngest || e.Type != streams.TypeObservation {
		return nil, nil
	}
	time.Sleep(w.slow)
	n := count(st, "n") + 1
	if err := st.Set([]byte("n"), binary.BigEndian.AppendUint64(nil, n)); err != nil {
		return nil, err
	}
	if n%3 != 0 {
		return nil, nil
	}
	return &stage.Output{Type: streams.TypeAlerts, Project: e.Project, Body: fmt.Appendf(nil, `{"of":%d}`, n)}, nil
}

func (*watcher) Timer(*stage.State) (time.Time, *stage.Output, bool, error) {
	return time.Time{}, nil, false, nil
}

// process is a stage that can be stopped and started again.
type process struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan error
	Stats  *stage.Stats
	ready  chan struct{}
}

func start(t *testing.T, cfg stage.Config, run func(context.Context, stage.Config) error) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{t: t, cancel: cancel, done: make(chan error, 1), Stats: new(stage.Stats), ready: make(chan struct{})}
	cfg.Stats, cfg.Ready = p.Stats, func() { close(p.ready) }
	if testing.Verbose() && os.Getenv("LZ_LOG") != "" {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	go func() { p.done <- run(ctx, cfg) }()
	t.Cleanup(p.stop)
	return p
}

func (p *process) awaitReady() {
	p.t.Helper()
	select {
	case <-p.ready:
	case err := <-p.done:
		p.done = nil
		p.t.Fatalf("the stage ended: %v", err)
	case <-time.After(30 * time.Second):
		p.t.Fatal("the stage was not ready in time")
	}
}

func (p *process) stop() {
	p.cancel()
	if p.done == nil {
		return
	}
	if err := <-p.done; err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		p.t.Errorf("the stage ended with %v", err)
	}
	p.done = nil
}

func ingest(ctx context.Context, cfg stage.Config) error {
	return stage.RunIntake(ctx, cfg, &echo{}, nil)
}

// sharing is an echo whose entries may share ledger messages with each other.
type sharing struct{ echo }

func (s *sharing) Admit(st *stage.State, m *stage.Message) (*stage.Admission, error) {
	out, err := s.echo.Admit(st, m)
	if err == nil {
		out.Together = out.Project
	}
	return out, err
}

func ingestInFrames(ctx context.Context, cfg stage.Config) error {
	return stage.RunIntake(ctx, cfg, &sharing{}, nil)
}

// shared returns the number of entries that are not the first one in their message.
func shared(ledger []streams.Entry) (n int) {
	for _, e := range ledger {
		if e.Index > 0 {
			n++
		}
	}
	return n
}

func sentinel(w *watcher) func(context.Context, stage.Config) error {
	return func(ctx context.Context, cfg stage.Config) error { return stage.RunLedger(ctx, cfg, w, nil) }
}

func publish(t testing.TB, nc *nats.Conn, project string, from, n int) {
	t.Helper()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1000))
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < from+n; i++ {
		subject, err := streams.IntakeSubject(project, "agent", streams.KindDec, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.PublishAsync(subject, fmt.Append(nil, i), jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(30 * time.Second):
		t.Fatal("publishes were not acknowledged")
	}
}

// account fails the test unless each project's observations are in the ledger exactly once and in order, and each alert
// exactly once. It returns the number of observations and of alerts by project.
func account(t *testing.T, ledger []streams.Entry) (observations map[string]int, alerts map[string]int) {
	t.Helper()
	observations, alerts = map[string]int{}, map[string]int{}
	perPartition := map[int]int{}
	for _, e := range ledger {
		switch e.Stage {
		case streams.StageIngest:
			var b struct {
				N    int    `json:"n"`
				Data string `json:"data"`
			}
			if err := streams.Unmarshal(e.Body, &b); err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprint(observations[e.Project]); b.Data != want {
				t.Fatalf("entry %d of %s holds message %s, want %s", e.Seq, e.Project, b.Data, want)
			}
			observations[e.Project]++
			if perPartition[e.Partition]++; b.N != perPartition[e.Partition] {
				t.Fatalf("entry %d is number %d of its partition by its state, but %d in the ledger", e.Seq, b.N,
					perPartition[e.Partition])
			}
		default:
			var b struct {
				Of int `json:"of"`
			}
			if err := streams.Unmarshal(e.Body, &b); err != nil {
				t.Fatal(err)
			}
			key := fmt.Sprint(e.Stage, "/", e.Partition)
			if alerts[key]++; b.Of != 3*alerts[key] {
				t.Fatalf("alert %d of %s is of observation %d, want %d", e.Seq, key, b.Of, 3*alerts[key])
			}
		}
	}
	return observations, alerts
}

func TestEveryMessageLeavesOneEntryInOrder(t *testing.T) {
	srv := natstest.Start(t)
	start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, ingest).awaitReady()
	start(t, stage.Config{Name: streams.SentinelStage("a"), Conn: srv.Connect(), Dir: t.TempDir()},
		sentinel(&watcher{})).awaitReady()
	nc := srv.Connect()
	const n = 900
	projects := []string{"alpha", "beta", "gamma", "delta"}
	var wg sync.WaitGroup
	for _, p := range projects {
		wg.Go(func() { publish(t, nc, p, 0, n) })
	}
	wg.Wait()
	natstest.Eventually(t, time.Minute, "all entries", func() bool { return len(srv.Ledger()) >= 4*n+4*n/3 })
	obs, alerts := account(t, srv.Ledger())
	for _, p := range projects {
		if obs[p] != n {
			t.Errorf("project %s has %d entries, want %d", p, obs[p], n)
		}
	}
	if len(alerts) == 0 {
		t.Error("no alerts")
	}
}

func TestRestartsAndRivalsChangeNothing(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	dirs := []string{t.TempDir(), t.TempDir()}
	sdirs := []string{t.TempDir(), t.TempDir()}
	run := func(i int) (*process, *process) {
		// One of the two ingest processes publishes frames, and the other one only single entries.
		how := ingest
		if i == 0 {
			how = ingestInFrames
		}
		in := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: dirs[i],
			Takeover: 50 * time.Millisecond}, how)
		se := start(t, stage.Config{Name: streams.SentinelStage("a"), Conn: srv.Connect(), Dir: sdirs[i],
			Takeover: 50 * time.Millisecond}, sentinel(&watcher{}))
		return in, se
	}
	const rounds, n = 6, 1200
	lost, ahead := uint64(0), uint64(0)
	for round := range rounds {
		// Two processes of each stage run at the same time. In each round, the first process of each stage is stopped
		// in the middle of the stream; the two take turns at that.
		ai, as := run(round % 2)
		bi, bs := run(1 - round%2)
		done := make(chan struct{})
		go func() { defer close(done); publish(t, nc, "alpha", round*n, n) }()
		natstest.Eventually(t, time.Minute, "progress", func() bool {
			return ai.Stats.Published.Load()+bi.Stats.Published.Load() > 20
		})
		ai.stop()
		as.stop()
		<-done
		natstest.Eventually(t, 2*time.Minute, "all entries", func() bool { return len(srv.Ledger()) >= (round+1)*(n+n/3) })
		bi.stop()
		bs.stop()
		for _, s := range []*process{ai, as, bi, bs} {
			if d := s.Stats.Diverged.Load(); d > 0 {
				t.Errorf("round %d: %d entries diverged", round, d)
			}
			lost += s.Stats.FenceLost.Load()
			ahead += s.Stats.Ahead.Load()
		}
	}
	if lost == 0 || ahead == 0 {
		t.Errorf("%d fences lost, %d batches decided ahead: the test shows nothing", lost, ahead)
	}
	ledger := srv.Ledger()
	if s := shared(ledger); s == 0 {
		t.Errorf("none of %d entries share a message", len(ledger))
	}
	obs, alerts := account(t, ledger)
	if obs["alpha"] != rounds*n {
		t.Errorf("%d observations, want %d", obs["alpha"], rounds*n)
	}
	total := 0
	for _, a := range alerts {
		total += a
	}
	if total != rounds*n/3 {
		t.Errorf("%d alerts, want %d", total, rounds*n/3)
	}
}

func TestAStandbyIsSilentUntilWorkLiesUndone(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	active := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir(),
		Takeover: 200 * time.Millisecond}, ingest)
	active.awaitReady()
	standby := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir(),
		Takeover: 3 * time.Second, Standby: true}, ingest)
	standby.awaitReady()
	publish(t, nc, "alpha", 0, 50)
	natstest.Eventually(t, time.Minute, "entries by the active", func() bool { return len(srv.Ledger()) == 50 })
	if n := standby.Stats.Published.Load(); n != 0 {
		t.Fatalf("the stand-by published %d entries while the active was at work", n)
	}
	natstest.Eventually(t, time.Minute, "the stand-by follows", func() bool { return standby.Stats.Folded.Load() == 50 })
	if s := standby.Stats; s.Entries.Load() != 50 || !s.Ready.Load() || s.Active.Load() || s.TakenOver.Load() != 0 {
		t.Errorf("the stand-by took in %d entries, ready %v, active %v, took over %d partitions", s.Entries.Load(),
			s.Ready.Load(), s.Active.Load(), s.TakenOver.Load())
	}
	at := streams.PartitionOf("alpha")
	for _, c := range []struct {
		partitions []int
		tail       uint64
	}{{nil, 50}, {[]int{at}, 50}, {[]int{(at + 1) % streams.Partitions}, 0}} {
		if got, err := stage.Tail(nc, c.partitions)(t.Context()); err != nil || got != c.tail {
			t.Errorf("the tail of %v is %d, want %d: %v", c.partitions, got, c.tail, err)
		}
	}
	active.stop()
	publish(t, nc, "alpha", 50, 50)
	natstest.Eventually(t, time.Minute, "entries by the stand-by", func() bool { return len(srv.Ledger()) == 100 })
	if n := standby.Stats.TakenOver.Load(); n != 1 {
		t.Errorf("the stand-by took over %d partitions, want 1", n)
	}
	account(t, srv.Ledger())
}

func TestAnEmptyCacheIsRebuiltFromTheLedger(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	for round := range 3 {
		in := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, ingest)
		publish(t, nc, "alpha", round*40, 40)
		natstest.Eventually(t, time.Minute, "entries", func() bool { return len(srv.Ledger()) == (round+1)*40 })
		in.stop()
	}
	account(t, srv.Ledger())
}

func TestTheIntakeIsPurgedOnlyOfWhatTheLedgerHolds(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect()
	start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}, ingest).awaitReady()
	publish(t, nc, "alpha", 0, 100)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, time.Minute, "purge", func() bool {
		st, err := js.Stream(context.Background(), streams.IntakeStream)
		return err == nil && st.CachedInfo().State.Msgs == 0
	})
	if n := len(srv.Ledger()); n != 100 {
		t.Fatalf("the intake was purged with %d of 100 entries in the ledger", n)
	}
}

// Ingest decides a proposal before it knows where the ledger ends. If the ledger has more entries, it must decide the
// proposal again. The proposal's entry must take into account every entry that was in the ledger before the proposal
// was published.
func TestAProposalKnowsWhatStoodInTheLedgerBeforeIt(t *testing.T) {
	for _, kind := range []streams.Kind{streams.KindRecall, streams.KindAct} {
		t.Run(string(kind), func(t *testing.T) { knowsWhatStood(t, kind) })
	}
}

func knowsWhatStood(t *testing.T, kind streams.Kind) {
	srv := natstest.Start(t)
	dir := t.TempDir()
	p := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: dir}, ingest)
	p.awaitReady()
	nc := srv.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	const project = "alpha"
	subject, err := streams.IntakeSubject(project, "agent", kind, "")
	if err != nil {
		t.Fatal(err)
	}
	var stood []int // alerts in the ledger before each recall
	alerts := 0
	deadline := time.Now().Add(20 * time.Second)
	for len(stood) < 300 || p.Stats.SpeculationFailed.Load() == 0 || p.Stats.SpeculationFailed.Load() == p.Stats.Speculated.Load() {
		if time.Now().After(deadline) {
			t.Fatalf("of %d proposals, %d were decided speculatively, %d of them in vain: the test shows nothing",
				len(stood),
				p.Stats.Speculated.Load(), p.Stats.SpeculationFailed.Load())
		}
		if len(stood)%3 > 0 {
			e := &streams.Entry{Partition: streams.PartitionOf(project), Stage: streams.SentinelStage("a"),
				Type: streams.TypeAlerts, Project: project, Salt: streams.NewSalt(), Body: []byte("{}")}
			if _, err := js.PublishMsg(t.Context(), wire.Msg(e)); err != nil {
				t.Fatal(err)
			}
			alerts++
		}
		stood = append(stood, alerts)
		if _, err := js.Publish(t.Context(), subject, fmt.Append(nil, len(stood))); err != nil {
			t.Fatal(err)
		}
	}
	entries := func() (own []streams.Entry) {
		for _, e := range srv.Ledger() {
			if e.Stage == streams.StageIngest {
				own = append(own, e)
			}
		}
		return own
	}
	natstest.Eventually(t, time.Minute, "all entries", func() bool { return len(entries()) >= len(stood) })
	for i, e := range entries() {
		var b struct {
			N      int `json:"n"`
			Alerts int `json:"alerts"`
		}
		if err := streams.Unmarshal(e.Body, &b); err != nil {
			t.Fatal(err)
		}
		if b.N != i+1 || b.Alerts < stood[i] {
			t.Fatalf("proposal %d has number %d and was decided with %d alerts, but %d were in the ledger",
				i+1, b.N, b.Alerts,
				stood[i])
		}
	}
}
