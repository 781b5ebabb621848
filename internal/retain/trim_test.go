package retain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"lazaret/internal/inquiry"
	"lazaret/internal/natstest"
	"lazaret/internal/wire"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// A purge must remove the old entries of a ledger and keep the young ones, whatever the order of writers. It must keep
// the last entry of each subject, because that entry is a stage's fence. The last joint frame is no fence, and must be
// removed too if it is old. Each case makes dozens of server requests, so there are only a hundred cases.
func TestThePurgeLeavesWhatIsYoungAndEveryFence(t *testing.T) {
	srv := natstest.Start(t)
	ctx := context.Background()
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		first := st.CachedInfo().State.LastSeq
		if info, err := st.Info(ctx); err == nil {
			first = info.State.LastSeq
		}
		last := make(map[string]uint64)
		subjects := make(map[uint64]string)
		// Some subjects stop early.
		n := rapid.IntRange(1, 60).Draw(rt, "entries")
		for i := range n {
			kinds := 6
			if i > n/2 {
				kinds = 3
			}
			writer := fmt.Sprintf("stage%d", rapid.IntRange(0, kinds-1).Draw(rt, "stage"))
			if writer == "stage0" {
				writer = streams.StageJoint
			}
			subject := streams.LedgerSubject(rapid.IntRange(0, 1).Draw(rt, "partition"), writer)
			ack, err := js.Publish(ctx, subject, nil)
			if err != nil {
				rt.Fatal(err)
			}
			last[subject], subjects[ack.Sequence] = ack.Sequence, subject
		}
		upTo := first + uint64(rapid.IntRange(0, n).Draw(rt, "up to"))
		if err := purge(ctx, st, upTo); err != nil {
			rt.Fatal(err)
		}
		for seq, subject := range subjects {
			_, err := st.GetMsg(ctx, seq)
			fence := last[subject] == seq && !strings.HasSuffix(subject, "."+streams.StageJoint)
			if want := seq > upTo || fence; (err == nil) != want {
				rt.Fatalf("entry %d of %s, trimmed up to %d, its last is %d: %v", seq, subject, upTo, last[subject], err)
			}
		}
		// The next round starts with the remaining entries.
		for s := range last {
			if err := st.Purge(ctx, jetstream.WithPurgeSubject(s)); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

func TestWhatIsOlderThanTheHorizonIsFound(t *testing.T) {
	srv := natstest.Start(t)
	ctx := context.Background()
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := lastBefore(ctx, js, time.Now()); got != 0 || err != nil {
		t.Errorf("of an empty ledger: %d, %v", got, err)
	}
	var at [10]time.Time
	for i := range at {
		ack, err := js.Publish(ctx, streams.LedgerSubject(i, "x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		st, err := js.Stream(ctx, streams.LedgerStream)
		if err != nil {
			t.Fatal(err)
		}
		m, err := st.GetMsg(ctx, ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		at[i] = m.Time
	}
	for i, tm := range at {
		if got, err := lastBefore(ctx, js, tm); err != nil || got != uint64(i) {
			t.Errorf("before entry %d: %d, %v", i+1, got, err)
		}
	}
	if got, err := lastBefore(ctx, js, time.Now().Add(time.Hour)); got != 10 || err != nil {
		t.Errorf("before tomorrow: %d, %v", got, err)
	}
}

// A long trim proceeds in steps. The next trim completes an interrupted step, and the stages are not
// asked again for it.
func TestALongTrimmingGoesStepByStep(t *testing.T) {
	srv := natstest.Start(t)
	nc, ctx, trust := srv.Connect(), t.Context(), new(keys.Trust)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	say := func(e streams.Entry) {
		if _, err := js.PublishMsg(ctx, wire.Msg(&e)); err != nil {
			t.Error(err)
		}
	}
	const entries = 30
	for i := range entries {
		say(streams.Entry{Partition: i % streams.Partitions, Stage: "x", Type: streams.TypeAlerts, Project: "p",
			Salt: streams.NewSalt(), Body: fmt.Append(nil, i)})
	}
	a := newReplica(t, "auditor", trust, entries)
	if _, err := js.Publish(ctx, checkpointSubject, a.checkpoint(t)); err != nil {
		t.Fatal(err)
	}
	if err := a.log.Close(); err != nil {
		t.Fatal(err)
	}
	c := &Config{Conn: nc, Trust: trust, Without: []string{streams.StageIngest, streams.StageArbiter}, step: 7,
		Log: func(ctx context.Context, ask func(*inquiry.Log) error) error {
			l, err := inquiry.Open(ctx, a.dir, inquiry.Options{MasterKey: replicaKey,
				Verifiers: trust.Verifiers(keys.RoleAuditor)})
			if err != nil {
				return err
			}
			defer l.Close()
			return ask(l)
		}}
	first, interrupt := context.WithCancel(ctx)
	defer interrupt()
	var asked atomic.Int64
	sub, err := srv.Connect().Subscribe("lz.ledger.*."+streams.StageRetention, func(m *nats.Msg) {
		e, err := streams.ParseEntry(m.Subject, m.Header, m.Data, 1<<40, time.Now())
		if err != nil {
			t.Error(err)
			return
		}
		if e.Type == streams.TypeTrimmed {
			interrupt()
			return
		}
		asked.Add(1)
		r, err := streams.ReadRetention(&e)
		if err != nil {
			t.Error(err)
			return
		}
		b, err := streams.Marshal(&streams.SecuredEntry{ID: r.ID, Folded: r.UpTo})
		if err != nil {
			t.Error(err)
		}
		go say(streams.Entry{Partition: e.Partition, Stage: "x", Type: streams.TypeSecured, Project: streams.SystemProject,
			Salt: streams.NewSalt(), Body: b})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	if _, err := c.Trim(first, time.Now()); first.Err() == nil {
		t.Fatalf("the trim was not interrupted: %v", err)
	}
	var marks []uint64
	look := func() {
		t.Helper()
		marks = nil
		there := make(map[uint64]bool)
		for _, e := range srv.Ledger() {
			there[e.Seq] = true
			if r, err := streams.ReadRetention(&e); err == nil && e.Type == streams.TypeTrimmed {
				marks = append(marks, r.Trimmed)
			}
		}
		if len(marks) == 0 {
			t.Fatal("nothing was said to go")
		}
		for seq := uint64(1); seq <= entries; seq++ {
			if last := marks[len(marks)-1]; seq > last && !there[seq] {
				t.Fatalf("entry %d is gone, and only those up to %d may be", seq, last)
			}
		}
	}
	// A subscriber receives the entry that announces the trim before the stream has stored it. So wait until it is
	// stored.
	natstest.Eventually(t, 10*time.Second, "a mark in the ledger", func() bool {
		return slices.ContainsFunc(srv.Ledger(), func(e streams.Entry) bool { return e.Type == streams.TypeTrimmed })
	})
	look()
	if marks[0] != 7 {
		t.Errorf("the first step goes to %d, want 7", marks[0])
	}
	got, err := c.Trim(ctx, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	look()
	if want := marks[:1:1]; got.UpTo != entries || !slices.IsSorted(marks) || marks[len(marks)-1] != entries ||
		len(marks) < 4 || want[0] != 7 {
		t.Errorf("trimmed up to %d in steps %v", got.UpTo, marks)
	}
	if n := asked.Load(); n != 2*streams.Partitions {
		t.Errorf("%d questions to stages, want one for each partition and trimming", n)
	}
	if _, err := c.SurveyPerson(ctx, Subject{Project: "p", Person: "jane"}, ""); err == nil ||
		!strings.HasPrefix(err.Error(), "LZ412: ") {
		t.Errorf("after a trim, the survey of one person returns %v, want LZ412", err)
	}
	for _, e := range srv.Ledger() {
		if e.Seq <= entries {
			t.Errorf("entry %d is still there", e.Seq)
		}
	}
}

// A first trim that no stage confirmed takes its announcement back in every partition that it reached.
func TestATrimThatFailsTakesItsAnnouncementBack(t *testing.T) {
	srv := natstest.Start(t)
	ctx := t.Context()
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	c := &Config{Conn: srv.Connect()}
	if _, err := js.PublishMsg(ctx, wire.Msg(&streams.Entry{Partition: 3, Stage: "x", Type: streams.TypeAlerts, Project: "p",
		Salt: streams.NewSalt(), Body: []byte("{}")})); err != nil {
		t.Fatal(err)
	}
	r := streams.Retention{ID: "t1", UpTo: 1}
	stopped, stop := context.WithCancel(ctx)
	for p := range 9 {
		if _, err := c.announce(ctx, js, p, streams.TypeTrim, &r); err != nil {
			t.Fatal(err)
		}
	}
	other := streams.Retention{ID: "t2", UpTo: 1}
	if _, err := c.announce(ctx, js, 8, streams.TypeTrim, &other); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := c.withdraw(stopped, js, r); err != nil {
		t.Fatal(err)
	}
	last := make(map[int]string)
	for _, e := range srv.Ledger() {
		if b, err := streams.ReadRetention(&e); err == nil {
			last[e.Partition] = fmt.Sprint(b.ID, b.UpTo)
		}
	}
	for p := range streams.Partitions {
		want := "t10"
		switch {
		case p == 8:
			want = "t21"
		case p > 8:
			want = ""
		}
		if last[p] != want {
			t.Errorf("partition %d ends with %q, want %q", p, last[p], want)
		}
	}
}
