package stage_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/streams"
)

// others changes the answers of a fold.
type others struct {
	*answering
	change func(out *stage.Output)
}

func (o *others) Step(st *stage.State, e *streams.Entry) (*stage.Output, error) {
	out, err := o.answering.Step(st, e)
	if out != nil && o.change != nil {
		o.change(out)
	}
	return out, err
}

// acting publishes proposals and waits for verdicts.
type acting struct {
	t    *testing.T
	srv  *natstest.Server
	js   jetstream.JetStream
	sent int
}

func newActing(t *testing.T) *acting {
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	return &acting{t: t, srv: srv, js: js}
}

func (a *acting) send(project string, kind streams.Kind, data string) uint64 {
	a.t.Helper()
	subject, err := streams.IntakeSubject(project, "agent", kind, "")
	if err != nil {
		a.t.Fatal(err)
	}
	ack, err := a.js.Publish(a.t.Context(), subject, []byte(data))
	if err != nil {
		a.t.Fatal(err)
	}
	return ack.Sequence
}

// decided waits until the ledger has a verdict for each proposal that was sent, and returns the ledger's entries.
func (a *acting) decided() []streams.Entry {
	a.t.Helper()
	var ledger []streams.Entry
	natstest.Eventually(a.t, time.Minute, fmt.Sprint(a.sent, " verdicts"), func() bool {
		ledger = a.srv.Ledger()
		n := 0
		for i := range ledger {
			if ledger[i].Type == streams.TypeVerdict {
				n++
			}
		}
		return n >= a.sent
	})
	return ledger
}

// act sends a proposal, waits for its verdict, and returns the ledger's entries.
func (a *acting) act(project string) []streams.Entry {
	a.t.Helper()
	a.send(project, streams.KindAct, fmt.Sprint(a.sent))
	a.sent++
	return a.decided()
}

// joint returns the number of joint frames.
func joint(ledger []streams.Entry) (n int) {
	for i := range ledger {
		if e := &ledger[i]; e.Joint && e.Index == 0 {
			n++
		}
	}
	return n
}

// tillJoint sends proposals, one after another, until one is decided jointly. It returns the ledger's entries.
func (a *acting) tillJoint(project string) []streams.Entry {
	a.t.Helper()
	for before := joint(a.srv.Ledger()); ; {
		if ledger := a.act(project); joint(ledger) > before {
			return ledger
		}
	}
}

// Each case makes a joint decision impossible: the answers cannot share a message, or a sentinel group outside of the
// process would be passed over. The proposal must then get its verdict from separate entries, and the reason must be
// counted.
func TestProposalsThatStagesDoNotDecideTogether(t *testing.T) {
	t.Parallel()
	group := streams.SentinelStage("a")
	large := func(out *stage.Output) {
		out.Body = fmt.Appendf(nil, `{"pad":%q}`, strings.Repeat("x", streams.MaxFrameBytes*2/3))
	}
	for name, c := range map[string]struct {
		why        stage.Alone
		sentinel   func(*stage.Output)
		arbiter    func(*stage.Output)
		elsewhere  bool
		otherGroup bool
	}{
		"the answers are too large together":    {why: stage.AloneLarge, sentinel: large, arbiter: large},
		"an answer is of another project":       {why: stage.AloneLarge, sentinel: func(out *stage.Output) { out.Project = "beta" }},
		"the arbiter waits for somebody":        {why: stage.AloneGroup, arbiter: func(out *stage.Output) { out.Type = streams.TypeAlerts }},
		"a group may run elsewhere":             {why: stage.AloneGroup, elsewhere: true},
		"another group has written to a ledger": {why: stage.AloneGroup, otherGroup: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const project = "alpha"
			a := newActing(t)
			if c.otherGroup {
				// It answered before the start.
				e := streams.Entry{Partition: streams.PartitionOf(project), Stage: streams.SentinelStage("b"),
					Type: streams.TypeAlerts, Project: project, Src: 1, Salt: streams.NewSalt(), Body: []byte("{}")}
				m := e.Message()
				if _, err := a.js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Body}); err != nil {
					t.Fatal(err)
				}
			}
			j, err := stage.NewJoint(a.srv.Connect(), group, streams.StageArbiter)
			if err != nil {
				t.Fatal(err)
			}
			j.Elsewhere = func() bool { return c.elsewhere }
			p := startFolds(t, a.srv, t.TempDir(), j, &others{assessor(), c.sentinel}, &others{judge(), c.arbiter})
			// A stage may be behind at first; then AloneBehind is counted.
			for n := 1; p.in.Stats.Alone[c.why].Load() == 0; n++ {
				a.send(project, streams.KindAct, "x")
				natstest.Eventually(t, time.Minute, "an answer of the arbiter", func() bool {
					said := 0
					for _, e := range a.srv.Ledger() {
						if e.Stage == streams.StageArbiter {
							said++
						}
					}
					return said == n
				})
			}
			if n := joint(a.srv.Ledger()); n > 0 {
				t.Errorf("%d joint frames", n)
			}
		})
	}
}

// A sentinel group that has written nothing for longer than the retirement age must not prevent joint decisions,
// although its last entry is in the ledger. Once the group writes again, it must prevent them.
func TestAGroupThatWasRetiredDoesNotEndJointDecisions(t *testing.T) {
	t.Parallel()
	a := newActing(t)
	write := func() {
		t.Helper()
		e := streams.Entry{Partition: streams.PartitionOf("alpha"), Stage: streams.SentinelStage("old"),
			Type: streams.TypeAlerts, Project: "alpha", Src: 1, Salt: streams.NewSalt(), Body: []byte("{}")}
		m := e.Message()
		if _, err := a.js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Body}); err != nil {
			t.Fatal(err)
		}
	}
	write()
	dir := t.TempDir()
	first := startPipeline(t, a.srv, dir, false)
	a.act("alpha")
	first.stop()
	j, err := stage.NewJoint(a.srv.Connect(), streams.SentinelStage("a"), streams.StageArbiter)
	if err != nil {
		t.Fatal(err)
	}
	j.Retired(time.Nanosecond)
	p := startFolds(t, a.srv, dir, j, assessor(), judge())
	for joint(a.srv.Ledger()) == 0 {
		if a.act("alpha"); p.in.Stats.Alone[stage.AloneGroup].Load() > 0 {
			t.Fatal("ingest waits for a group that no longer exists")
		}
	}
	write()
	natstest.Eventually(t, time.Minute, "the group counts", func() bool {
		a.act("alpha")
		return p.in.Stats.Alone[stage.AloneGroup].Load() > 0
	})
}

// lasting is a fold that counts how often it lost its data in memory, which Reset drops.
type lasting struct {
	*others
	lost atomic.Int64
}

func (l *lasting) Reset() {
	l.lost.Add(1)
	l.others.Reset()
}

// One stage never takes part, so no joint decision comes about. A stage that was asked but has folded nothing must keep
// its indexes.
func TestAStageThatFoldedNothingKeepsItsIndexes(t *testing.T) {
	t.Parallel()
	a := newActing(t)
	j, err := stage.NewJoint(a.srv.Connect(), streams.SentinelStage("a"), streams.StageArbiter, "absent")
	if err != nil {
		t.Fatal(err)
	}
	fold := &lasting{others: &others{assessor(), nil}}
	p := startFolds(t, a.srv, t.TempDir(), j, fold, judge())
	for _, s := range p.all() {
		s.awaitReady()
	}
	before := fold.lost.Load()
	for p.in.Stats.Alone[stage.AloneBehind].Load() < 30 {
		a.act("alpha")
	}
	if n := fold.lost.Load() - before; n > 0 {
		t.Errorf("the stage lost its indexes %d times", n)
	}
}

// After a proposal whose answers are too large for a joint frame, the next 15 proposals must be decided separately.
// Otherwise the stages would fold each one only to drop it again.
func TestAnswersThatAreTooLargeDelayTheNextJointDecision(t *testing.T) {
	t.Parallel()
	a := newActing(t)
	large := func(out *stage.Output) {
		out.Body = fmt.Appendf(nil, `{"pad":%q}`, strings.Repeat("x", streams.MaxFrameBytes*2/3))
	}
	j, err := stage.NewJoint(a.srv.Connect(), streams.SentinelStage("a"), streams.StageArbiter)
	if err != nil {
		t.Fatal(err)
	}
	p := startFolds(t, a.srv, t.TempDir(), j, &others{assessor(), large}, &others{judge(), large})
	alone := &p.in.Stats.Alone
	for alone[stage.AloneLarge].Load() == 0 {
		a.act("alpha")
	}
	load := alone[stage.AloneLoad].Load()
	for alone[stage.AloneLoad].Load() < load+15 {
		if a.act("alpha"); alone[stage.AloneLarge].Load() > 1 {
			t.Fatalf("%d proposals later, stages fold proposals again only to drop them", alone[stage.AloneLoad].Load()-load)
		}
	}
}

// The entries of a joint frame have the time at which the proposal came. So a proposal older than jointFresh must be
// decided separately: otherwise its answers would have an old time.
func TestAnOldProposalIsNotDecidedTogether(t *testing.T) {
	t.Parallel()
	a, dir := newActing(t), t.TempDir()
	first := startPipeline(t, a.srv, dir, true)
	a.act("alpha")
	first.stop()
	seq := a.send("alpha", streams.KindAct, "x")
	a.sent++
	st, err := a.js.Stream(t.Context(), streams.IntakeStream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := st.GetMsg(t.Context(), seq)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, time.Minute, "an old proposal", func() bool { return time.Since(m.Time) > time.Second })
	p := startPipeline(t, a.srv, dir, true)
	ledger := a.decided()
	if n := p.in.Stats.Alone[stage.AloneTime].Load(); n != 1 || joint(ledger) != 0 {
		t.Errorf("%d old proposals, %d joint frames, want 1 and 0", n, joint(ledger))
	}
	if a.tillJoint("alpha"); p.in.Stats.Alone[stage.AloneTime].Load() != 1 {
		t.Error("a fresh proposal counts as old")
	}
}

// The entries of joint frames have the times at which proposals came. Still, no ledger entry may have an earlier time
// than the entry before it.
func TestTimesOfJointFramesDoNotGoBack(t *testing.T) {
	t.Parallel()
	a := newActing(t)
	startPipeline(t, a.srv, t.TempDir(), true)
	projects := []string{"alpha", "beta", "gamma", "delta"}
	for joint(a.srv.Ledger()) < 30 {
		for _, p := range projects {
			a.send(p, streams.KindAct, "x")
			a.sent++
		}
		a.decided()
		a.act(projects[a.sent%len(projects)])
	}
	var last time.Time
	for _, e := range a.srv.Ledger() {
		if e.Time.Before(last) {
			t.Fatalf("entry %d is of %v, and one before it of %v", e.Seq, e.Time, last)
		}
		last = e.Time
	}
}

// gate is an arbiter's fold that waits before an answer, while its field closed is set.
type gate struct {
	*answering
	closed  atomic.Bool
	reached chan struct{}
	open    chan struct{}
}

func (g *gate) Step(st *stage.State, e *streams.Entry) (*stage.Output, error) {
	if e.Type == g.on && g.closed.CompareAndSwap(true, false) {
		close(g.reached)
		<-g.open
	}
	return g.answering.Step(st, e)
}

// A sentinel is stopped in the middle of a joint decision. Ingest and the arbiter must continue, and the ledger must be
// as a replay gives it.
func TestAStageThatEndsInTheMiddleOfAJointDecision(t *testing.T) {
	t.Parallel()
	a, dir := newActing(t), t.TempDir()
	j, err := stage.NewJoint(a.srv.Connect(), streams.SentinelStage("a"), streams.StageArbiter)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{answering: judge(), reached: make(chan struct{}), open: make(chan struct{})}
	p := startFolds(t, a.srv, dir, j, assessor(), g)
	a.tillJoint("alpha")
	g.closed.Store(true)
	a.send("alpha", streams.KindAct, "x")
	a.sent++
	// The arbiter is in its step now. In a joint decision, the sentinel has answered and waits for the arbiter. If the
	// proposal is not decided jointly, the sentinel has published its answer.
	<-g.reached
	p.sentinel.stop()
	close(g.open)
	a.send("alpha", streams.KindDec, "y")
	natstest.Eventually(t, 20*time.Second, "ingest has decided everything", func() bool {
		return p.in.Stats.Waiting.Load() == 0
	})
	cfg := stage.Config{Name: streams.SentinelStage("a"), Conn: a.srv.Connect(), Dir: dir + "/" + streams.SentinelStage("a"), Joint: j}
	start(t, cfg, func(ctx context.Context, c stage.Config) error { return stage.RunLedger(ctx, c, assessor(), nil) })
	replayed(t, a.decided(), "alpha", a.sent+1)
}

// blocking is a fold of ingest that waits in its next decision.
type blocking struct {
	proposing
	wait atomic.Pointer[func()]
}

func (b *blocking) Admit(st *stage.State, m *stage.Message) (*stage.Admission, error) {
	if f := b.wait.Swap(nil); f != nil {
		(*f)()
	}
	return b.proposing.Admit(st, m)
}

// Another process may publish joint frames in a partition. A process must decide nothing there before it has written a
// claim there. That must hold whether it learns of the other process at its start or later.
func TestNothingIsDecidedBeforeAClaim(t *testing.T) {
	t.Parallel()
	a := newActing(t)
	var projects [streams.Partitions]string
	for i, n := 0, 0; n < streams.Partitions; i++ {
		if p := streams.PartitionOf(fmt.Sprint("p", i)); projects[p] == "" {
			projects[p], n = fmt.Sprint("p", i), n+1
		}
	}
	// rival writes entries of ingest as another process that may publish joint frames.
	rival := func(partitions []string) {
		for _, project := range partitions {
			e := streams.Entry{Partition: streams.PartitionOf(project), Stage: streams.StageIngest, Type: streams.TypeObservation,
				Project: project, Src: a.send(project, streams.KindDec, "rival"), Salt: streams.NewSalt(), Body: []byte(`{}`)}
			m := e.Message()
			m.Header[streams.HeaderOpen] = []string{"1"}
			if _, err := a.js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Body}); err != nil {
				t.Fatal(err)
			}
		}
	}
	rival(projects[:])
	fold := new(blocking)
	in := start(t, stage.Config{Name: streams.StageIngest, Conn: a.srv.Connect(), Dir: t.TempDir(), Takeover: 50 * time.Millisecond},
		func(ctx context.Context, c stage.Config) error { return stage.RunIntake(ctx, c, fold, nil) })
	in.awaitReady()
	for round := range 10 {
		reached, open := make(chan struct{}), make(chan struct{})
		wait := func() { close(reached); <-open }
		fold.wait.Store(&wait)
		a.send(projects[0], streams.KindDec, "first")
		<-reached
		kind := streams.KindDec
		if round > 0 {
			rival(projects[1:])
			kind = streams.KindAct
		}
		for _, p := range projects[1:] {
			a.send(p, kind, "x")
		}
		close(open)
		last := make(map[string]bool)
		natstest.Eventually(t, time.Minute, "all decisions", func() bool {
			for _, e := range a.srv.Ledger() {
				last[e.Project] = bytes.Contains(e.Body, []byte(`"x"`))
			}
			for _, p := range projects[1:] {
				if !last[p] {
					return false
				}
			}
			return true
		})
	}
	var open [streams.Partitions]bool
	for _, e := range a.srv.Ledger() {
		if open[e.Partition] && !e.Open && e.Type != streams.TypeClaim {
			t.Fatalf("entry %d of partition %d was decided without a claim", e.Seq, e.Partition)
		}
		open[e.Partition] = e.Open
	}
}

// The last entry of ingest says that the process that wrote it may publish joint frames. A message that is not an
// entry follows it, such as an acknowledgement that an agent directed to the ledger. A process that starts must still
// find the last entry. It must write a claim before any other entry.
func TestAMessageThatIsNoEntryHidesNoProcessWithJointFrames(t *testing.T) {
	t.Parallel()
	a := newActing(t)
	e := streams.Entry{Partition: streams.PartitionOf("alpha"), Stage: streams.StageIngest, Type: streams.TypeObservation,
		Project: "alpha", Src: a.send("alpha", streams.KindDec, "rival"), Salt: streams.NewSalt(), Body: []byte(`{}`)}
	m := e.Message()
	m.Header[streams.HeaderOpen] = []string{"1"}
	if _, err := a.js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Body}); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{m.Subject, streams.LedgerSubject(e.Partition, streams.StageJoint)} {
		if _, err := a.js.Publish(t.Context(), subject, []byte("+ACK")); err != nil {
			t.Fatal(err)
		}
	}
	startPipeline(t, a.srv, t.TempDir(), false)
	a.send("alpha", streams.KindAct, "x")
	st, err := a.js.Stream(t.Context(), streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	var first *jetstream.RawStreamMsg
	natstest.Eventually(t, time.Minute, "an entry of the second process", func() bool {
		first, err = st.GetMsg(t.Context(), 4)
		return err == nil
	})
	if typ := first.Header.Get(streams.HeaderType); typ != string(streams.TypeClaim) {
		t.Errorf("the first entry of the second process is %s, want a claim", typ)
	}
}

// The ledger gets a joint frame that ingest did not publish, at a time when no other process may publish one. Ingest
// must count it as diverged.
func TestAForgedJointFrameIsReported(t *testing.T) {
	t.Parallel()
	a := newActing(t)
	p := startPipeline(t, a.srv, t.TempDir(), true)
	ledger := a.tillJoint("alpha")
	var fence uint64
	for _, e := range ledger {
		if e.Stage == streams.StageIngest && !e.Joint {
			fence = e.Seq
		}
	}
	if n := p.in.Stats.Diverged.Load(); n != 0 {
		t.Fatalf("%d joint frames of this process count as forged", n)
	}
	j, err := stage.NewJoint(a.srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	forged := []*streams.Entry{{Partition: streams.PartitionOf("alpha"), Stage: streams.StageIngest, Type: streams.TypeAction,
		Project: "alpha", Src: 1, Time: time.Now(), Salt: streams.NewSalt(), Body: []byte("{}")}}
	if err := stage.PublishJoint(t.Context(), j, forged, ledger[len(ledger)-1].Seq, fence); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, time.Minute, "a report", func() bool { return p.in.Stats.Diverged.Load() == 1 })
}

// erasing is an ingest that also writes erasure statements.
type erasing struct{ proposing }

func (f *erasing) Admit(st *stage.State, m *stage.Message) (*stage.Admission, error) {
	if strings.HasPrefix(string(m.Data), "erase ") {
		return new(scribe).Admit(st, m)
	}
	return f.proposing.Admit(st, m)
}

// The entries of a proposal that was decided separately are erased, and joint frames come after them. A stage that
// starts without a state must know from the joint frames what it has answered. It must not publish the answers again.
func TestAStageWithoutStateKnowsWhatItAnsweredInJointFrames(t *testing.T) {
	t.Parallel()
	a := newActing(t)
	run := func() *pipeline {
		j, err := stage.NewJoint(a.srv.Connect(), streams.SentinelStage("a"), streams.StageArbiter)
		if err != nil {
			t.Fatal(err)
		}
		p := startFolds(t, a.srv, t.TempDir(), j, assessor(), judge())
		for _, s := range p.all() {
			s.awaitReady()
		}
		return p
	}
	p := run()
	p.in.stop()
	p.in = start(t, stage.Config{Name: streams.StageIngest, Conn: a.srv.Connect(), Dir: t.TempDir(), Joint: nil},
		func(ctx context.Context, c stage.Config) error { return stage.RunIntake(ctx, c, new(erasing), nil) })
	a.act("alpha") // its entries are not erased, so that the ledger keeps its first entry
	after := len(a.srv.Ledger())
	gone := a.act("alpha")[after].Seq
	p.stop()
	p = run()
	a.tillJoint("alpha")
	ledger := a.tillJoint("alpha")
	p.stop()
	in := start(t, stage.Config{Name: streams.StageIngest, Conn: a.srv.Connect(), Dir: t.TempDir()},
		func(ctx context.Context, c stage.Config) error { return stage.RunIntake(ctx, c, new(erasing), nil) })
	var list []uint64
	for _, e := range ledger {
		if e.Seq >= gone && e.Seq < gone+3 {
			list = append(list, e.Seq)
		}
	}
	a.send("alpha", streams.KindDec, "erase "+streams.FormatSeqs(list))
	natstest.Eventually(t, time.Minute, "a statement", func() bool {
		ledger = a.srv.Ledger()
		return ledger[len(ledger)-1].Type == streams.TypeErased
	})
	in.stop()
	st, err := a.js.Stream(t.Context(), streams.LedgerStream)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range list {
		if err := st.SecureDeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	p = run()
	for _, s := range p.all() {
		if n := s.Stats.Diverged.Load(); n > 0 {
			t.Errorf("%d answers differ from those in the ledger", n)
		}
	}
	for _, e := range a.srv.Ledger() {
		if e.Seq > ledger[len(ledger)-1].Seq && e.Type != streams.TypeClaim {
			t.Errorf("entry %d is %s of %s on %d", e.Seq, e.Type, e.Stage, e.Src)
		}
	}
}

// An agent can make the server publish an acknowledgement on a sentinel group's subject of the ledger. That message
// must not count as a sentinel group, so proposals must still be decided jointly.
func TestAnAcknowledgementIsNoGroup(t *testing.T) {
	t.Parallel()
	a := newActing(t)
	if _, err := a.js.Publish(t.Context(), streams.LedgerSubject(streams.PartitionOf("alpha"), streams.SentinelStage("none")),
		[]byte(`{"stream":"LZ_INTAKE","seq":1}`)); err != nil {
		t.Fatal(err)
	}
	j, err := stage.NewJoint(a.srv.Connect(), streams.SentinelStage("a"), streams.StageArbiter)
	if err != nil {
		t.Fatal(err)
	}
	p := startFolds(t, a.srv, t.TempDir(), j, assessor(), judge())
	for n := uint64(1); p.in.Stats.Joint.Load() == 0; n++ { // a stage may be behind at first
		a.send("alpha", streams.KindAct, "x")
		// If the next proposal came before the verdict, the other stages would always be behind.
		natstest.Eventually(t, time.Minute, "a verdict", func() bool {
			st, err := a.js.Stream(t.Context(), streams.LedgerStream)
			if err != nil {
				return false
			}
			info, err := st.Info(t.Context(), jetstream.WithSubjectFilter("lz.ledger.*.>"))
			if err != nil {
				return false
			}
			p := streams.PartitionOf("alpha")
			return info.State.Subjects[streams.LedgerSubject(p, streams.StageArbiter)]+
				info.State.Subjects[streams.LedgerSubject(p, streams.StageJoint)] >= n
		})
		if p.in.Stats.Alone[stage.AloneGroup].Load() > 0 {
			t.Fatal("ingest waits for a group that does not exist")
		}
	}
}
