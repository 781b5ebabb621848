package stage_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/streams"
)

// neighbours returns the names of n projects in the partition of project flood.
func neighbours(n int) (names []string) {
	p := streams.PartitionOf("flood")
	for i := 0; len(names) < n; i++ {
		if name := fmt.Sprintf("project%d", i); streams.PartitionOf(name) == p {
			names = append(names, name)
		}
	}
	return names
}

// brief is an echo whose entry for a message has only the number at the beginning of the message's data.
type brief struct{ echo }

func (b *brief) Admit(_ *stage.State, m *stage.Message) (*stage.Admission, error) {
	n, _, _ := strings.Cut(string(m.Data), " ")
	return &stage.Admission{Together: m.Address.Project, Output: stage.Output{Type: streams.TypeObservation,
		Project: m.Address.Project, Body: []byte(n)}}, nil
}

func briefly(ctx context.Context, cfg stage.Config) error {
	return stage.RunIntake(ctx, cfg, &brief{}, nil)
}

// Projects of one partition take turns. Messages have all sizes, and processes stop, lose their state or are replaced.
// Each message must be decided once, and the messages of a project in order.
func TestTurnsDecideEachMessageOnceAndKeepTheOrderOfAProject(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect(), jetstream.WithPublishAsyncMaxPending(500))
	if err != nil {
		t.Fatal(err)
	}
	projects := append(neighbours(4), "elsewhere")
	sent := make(map[string]int)
	total := 0
	event := func(project string, size int) string {
		e := fmt.Sprintf("%d %s", sent[project], strings.Repeat("x", size))
		sent[project]++
		total++
		return e
	}
	// feed publishes a flood of messages of one project, with some messages of the other projects in between.
	feed := func() {
		flood := projects[r.IntN(len(projects))]
		for range 300 {
			project, size := flood, r.IntN(40_000)
			if r.IntN(10) == 0 {
				project, size = projects[r.IntN(len(projects))], r.IntN(200)
			}
			m := &nats.Msg{Subject: "lz.in." + project + ".agent.obs.web"}
			if r.IntN(8) == 0 {
				var events []string
				for i := range 1 + r.IntN(streams.MaxBatch) { // more than a turn takes
					events = append(events, fmt.Sprintf(`{"specversion":"1.0","id":"%d","source":"s","type":"t","data":%s}`, i,
						event(project, 0)))
				}
				m.Header = nats.Header{"content-type": {streams.BatchContentType}}
				m.Data = []byte("[" + strings.Join(events, ",") + "]")
			} else {
				m.Data = []byte(event(project, size))
			}
			if _, err := js.PublishMsgAsync(m); err != nil {
				t.Fatal(err)
			}
		}
		<-js.PublishAsyncComplete()
	}
	dirs := []string{t.TempDir(), t.TempDir()}
	procs := make([]*process, 2)
	rounds := 12
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		feed()
		i := r.IntN(2)
		if procs[i] == nil {
			if r.IntN(3) == 0 {
				dirs[i] = t.TempDir() // it has lost its state
			}
			procs[i] = start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: dirs[i],
				Takeover: 50 * time.Millisecond, Standby: r.IntN(2) == 0}, briefly)
		}
		if other := procs[1-i]; other != nil && r.IntN(2) == 0 {
			other.stop()
			procs[1-i] = nil
		}
		// The next fault comes within the backlog.
		at := len(srv.Ledger()) + r.IntN(200)
		natstest.Eventually(t, time.Minute, "entries", func() bool { n := len(srv.Ledger()); return n >= at || n == total })
	}
	for i := range procs {
		if procs[i] == nil {
			procs[i] = start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: dirs[i],
				Takeover: 50 * time.Millisecond}, briefly)
		}
	}
	natstest.Eventually(t, time.Minute, "an entry of each message", func() bool { return len(srv.Ledger()) >= total })
	got, srcs, passed := make(map[string]int), make(map[uint64]bool), 0
	var last uint64
	for _, e := range srv.Ledger() {
		if srcs[e.Src] {
			t.Fatalf("input %d has two entries", e.Src)
		}
		srcs[e.Src] = true
		if n := fmt.Sprint(got[e.Project]); string(e.Body) != n {
			t.Fatalf("entry %d of %s is of its message %s, want %s", e.Seq, e.Project, e.Body, n)
		}
		got[e.Project]++
		if e.Project != "elsewhere" && e.Src&(1<<44-1) < last {
			passed++
		}
		last = e.Src & (1<<44 - 1)
	}
	for _, p := range projects {
		if got[p] != sent[p] {
			t.Errorf("%s has %d entries of %d messages", p, got[p], sent[p])
		}
	}
	if passed == 0 {
		t.Error("no message was decided before an earlier one: the test shows nothing")
	}
}

// A project has a backlog of large messages, and then another project of its partition sends a proposal. The proposal
// must be decided before three quarters of the backlog. Another process then takes over, and must decide the rest of
// the backlog in order.
func TestPromiseC21AProjectDoesNotWaitForAnotherOneOfItsPartition(t *testing.T) {
	const n, size = 60, 900_000
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	flood, other := neighbours(2)[0], neighbours(2)[1]
	for i := range n {
		body := append(fmt.Appendf(nil, "%d ", i), bytes.Repeat([]byte("x"), size)...)
		if _, err := js.Publish(t.Context(), "lz.in."+flood+".agent.obs.web", body); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "lz.in."+other+".agent.act", []byte("0")); err != nil {
		t.Fatal(err)
	}
	cfg := stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir()}
	// The first process stops as soon as it has published the proposal's entry.
	ctx, end := context.WithCancel(t.Context())
	halting := func(_ context.Context, cfg stage.Config) error {
		cfg.Published = func(e *streams.Entry, _ any) {
			if e.Project == other {
				end()
			}
		}
		return stage.RunIntake(ctx, cfg, &slowBrief{other: other}, nil)
	}
	first := start(t, cfg, halting)
	<-ctx.Done()
	first.stop()
	before := len(srv.Ledger())
	// The stage holds at most 32 MiB of the large messages in memory, which are 37 of them, before it reads the
	// proposal.
	if before > n*3/4 {
		t.Errorf("%d of %d large messages were decided before the other project's proposal or with it", before, n)
	}
	second := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir(),
		Takeover: 50 * time.Millisecond}, briefly)
	second.awaitReady()
	natstest.Eventually(t, time.Minute, "the rest of the backlog", func() bool { return len(srv.Ledger()) == n+1 })
	at := 0
	for _, e := range srv.Ledger() {
		if e.Project != flood {
			continue
		}
		if string(e.Body) != fmt.Sprint(at) {
			t.Fatalf("entry %d is of message %s, want %d", e.Seq, e.Body, at)
		}
		at++
	}
}

// slowBrief is a brief that takes 250 ms for each message until it has admitted a message of project other.
type slowBrief struct {
	brief
	other string
	met   bool
}

func (s *slowBrief) Admit(st *stage.State, m *stage.Message) (*stage.Admission, error) {
	if m.Address.Project == s.other {
		s.met = true
	} else if !s.met {
		time.Sleep(250 * time.Millisecond)
	}
	return s.brief.Admit(st, m)
}
