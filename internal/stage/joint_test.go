package stage_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/natstest"
	"lazaret/internal/stage"
	"lazaret/pkg/position"
	"lazaret/streams"
)

// proposing is an ingest that echoes messages. It makes a proposal's entry for each message of kind act.
type proposing struct{ echo }

func (p *proposing) Admit(st *stage.State, m *stage.Message) (*stage.Admission, error) {
	out, err := p.echo.Admit(st, m)
	if err == nil && m.Address.Kind == streams.KindAct {
		out.Type = streams.TypeAction
	}
	return out, err
}

func (*proposing) Relevant(e *streams.Entry) bool { return e.Stage != streams.StageIngest }

func (p *proposing) Apply(st *stage.State, e *streams.Entry, decided any) error {
	if e.Stage == streams.StageIngest {
		return p.echo.Apply(st, e, decided)
	}
	return st.Set([]byte("alerts"), binary.BigEndian.AppendUint64(nil, count(st, "alerts")+1))
}

// answering is a sentinel that answers each proposal, or an arbiter that answers each assessment. Each answer depends
// on every entry that the stage has folded, and on a number that is kept in memory, outside State.
type answering struct {
	on, as streams.Type
	memory map[int]uint64 // number of answers by partition
}

func (a *answering) Reset() { a.memory = make(map[int]uint64) }

func (a *answering) Step(st *stage.State, e *streams.Entry) (*stage.Output, error) {
	before, _, err := st.Get([]byte("hash"))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(fmt.Appendf(bytes.Clone(before), "%d %d %d %s %s", e.Position(), e.Time.UnixNano(), e.Src, e.Stage,
		e.Body))
	if err := st.Set([]byte("hash"), sum[:]); err != nil {
		return nil, err
	}
	if e.Type != a.on {
		return nil, nil
	}
	p := st.Partition()
	if _, ok := a.memory[p]; !ok {
		a.memory[p] = count(st, "n")
	}
	a.memory[p]++
	if err := st.Set([]byte("n"), binary.BigEndian.AppendUint64(nil, a.memory[p])); err != nil {
		return nil, err
	}
	return &stage.Output{Type: a.as, Project: e.Project, Body: fmt.Appendf(nil, `{"n":%d,"hash":"%x"}`, a.memory[p],
		sum[:8])}, nil
}

func (*answering) Timer(*stage.State) (time.Time, *stage.Output, bool, error) {
	return time.Time{}, nil, false, nil
}

func assessor() *answering {
	return &answering{on: streams.TypeAction, as: streams.TypeAssessment}
}

func judge() *answering {
	return &answering{on: streams.TypeAssessment, as: streams.TypeVerdict}
}

// pipeline is the three stages of one process.
type pipeline struct {
	in, sentinel, arbiter *process
	joint                 *stage.Joint
}

func (p *pipeline) all() []*process { return []*process{p.in, p.sentinel, p.arbiter} }

func (p *pipeline) stop() {
	for _, s := range p.all() {
		s.stop()
	}
}

func startPipeline(t *testing.T, srv *natstest.Server, dir string, together bool) *pipeline {
	t.Helper()
	var j *stage.Joint
	if together {
		var err error
		if j, err = stage.NewJoint(srv.Connect(), streams.SentinelStage("a"), streams.StageArbiter); err != nil {
			t.Fatal(err)
		}
		j.Offers = true
	}
	return startFolds(t, srv, dir, j, assessor(), judge())
}

func startFolds(t *testing.T, srv *natstest.Server, dir string, j *stage.Joint, sentinel, arbiter stage.LedgerFold) *pipeline {
	t.Helper()
	cfg := func(name string) stage.Config {
		return stage.Config{Name: name, Conn: srv.Connect(), Dir: dir + "/" + name, Joint: j,
			Takeover: 50 * time.Millisecond}
	}
	ledger := func(f stage.LedgerFold) func(context.Context, stage.Config) error {
		return func(ctx context.Context, c stage.Config) error { return stage.RunLedger(ctx, c, f, nil) }
	}
	return &pipeline{
		joint: j,
		in: start(t, cfg(streams.StageIngest), func(ctx context.Context, c stage.Config) error {
			return stage.RunIntake(ctx, c, new(proposing), nil)
		}),
		sentinel: start(t, cfg(streams.SentinelStage("a")), ledger(sentinel)),
		arbiter:  start(t, cfg(streams.StageArbiter), ledger(arbiter)),
	}
}

// replayed fails the test unless the ledger has one entry of ingest for each message, and exactly the answers that a
// fold of the ledger gives. It returns the number of joint frames.
func replayed(t *testing.T, ledger []streams.Entry, project string, messages int) (joint int) {
	t.Helper()
	p := streams.PartitionOf(project)
	type answer struct {
		stage string
		src   uint64
		body  string
	}
	folds := map[string]*answering{streams.SentinelStage("a"): assessor(), streams.StageArbiter: judge()}
	var want, got []answer
	n := 0
	states := map[string]*stage.State{}
	for s, f := range folds {
		f.Reset()
		states[s] = stage.NewMemState(p)
	}
	srcs := make(map[uint64]bool)
	var others []uint64 // sequences of the other stages' entries
	for i := range ledger {
		e := &ledger[i]
		if e.Partition != p {
			continue
		}
		if e.Joint && e.Index == 0 {
			joint++
		}
		if e.Stage != streams.StageIngest {
			others = append(others, e.Seq)
		}
		for s, f := range folds {
			out, err := f.Step(states[s], e)
			if err != nil {
				t.Fatal(err)
			}
			if out != nil {
				want = append(want, answer{s, e.Position(), string(out.Body)})
			}
		}
		switch {
		case e.Type == streams.TypeClaim:
		case e.Stage != streams.StageIngest:
			got = append(got, answer{e.Stage, e.Src, string(e.Body)})
		default:
			if srcs[e.Src] {
				t.Fatalf("entry %d is the second of intake message %d", e.Seq, e.Src)
			}
			srcs[e.Src] = true
			var b struct {
				N      int `json:"n"`
				Alerts int `json:"alerts"`
			}
			if err := streams.Unmarshal(e.Body, &b); err != nil {
				t.Fatal(err)
			}
			known := 0
			for known < len(others) && others[known] <= e.At {
				known++
			}
			if b.Alerts != known {
				t.Fatalf("entry %d was decided with %d answers, but the ledger has %d up to sequence %d",
					e.Seq, b.Alerts, known, e.At)
			}
			if n++; b.N != n {
				t.Fatalf("entry %d is number %d by ingest's state, but %d in the ledger", e.Seq, b.N, n)
			}
		}
	}
	if n != messages {
		t.Fatalf("%d entries of ingest, want %d", n, messages)
	}
	compare := func(a, b answer) int {
		return bytes.Compare(fmt.Append(nil, a.stage, a.src), fmt.Append(nil, b.stage, b.src))
	}
	slices.SortFunc(want, compare)
	slices.SortFunc(got, compare)
	if !slices.Equal(want, got) {
		for i := range min(len(want), len(got)) {
			if want[i] != got[i] {
				t.Fatalf("answer %d of %d is %v, but a replay gives %v", i, len(got), got[i], want[i])
			}
		}
		t.Fatalf("the ledger has %d answers, but a replay gives %d", len(got), len(want))
	}
	return joint
}

// The stages of a process decide proposals jointly. Stages are killed at random, and a second process takes over at
// times. The ledger must have exactly the answers that a replay gives.
func TestStagesThatDecideTogetherDecideAsAlone(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	const project = "alpha"
	srv := natstest.Start(t)
	nc := srv.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	dirs := []string{t.TempDir(), t.TempDir()}
	sent := 0
	declined := 0                     // offers that ingest declined although the ledger has an entry for them
	stored := make(map[uint64]string) // the messages of the intake and the accepted offers, by position
	tried := make(map[string]bool)    // the data of offers that ingest declined
	var offers []*stage.Offer
	var a *pipeline
	acked := uint64(0) // the last acknowledged message
	send := func(kind streams.Kind) {
		subject, err := streams.IntakeSubject(project, "agent", kind, "")
		if err != nil {
			t.Fatal(err)
		}
		publish := func(data string) {
			t.Helper()
			ack, err := js.Publish(t.Context(), subject, []byte(data))
			if err != nil {
				t.Fatal(err)
			}
			stored[ack.Sequence], acked = data, ack.Sequence
			sent++
		}
		data := fmt.Sprint("message ", sent)
		// Most proposals are offered to ingest without the intake. Some are sent right after another message.
		if rnd.IntN(8) == 0 {
			publish("before " + data)
		}
		if kind == streams.KindAct && rnd.IntN(4) > 0 {
			var o *stage.Offer
			for n := 0; o == nil && n < 50; n++ { // ingest may still be busy with the answer to the proposal before
				o = a.joint.Offer(streams.Address{Partition: streams.PartitionOf(project), Project: project, Agent: "agent",
					Kind: kind}, &nats.Msg{Subject: subject, Data: []byte(data)})
			}
			if o != nil {
				if at := <-o.Decided(); at != 0 {
					if position.Sequence(at) < acked {
						t.Fatalf("a proposal was decided right after intake message %d, although message %d "+
							"had been acknowledged before the proposal",
							position.Sequence(at), acked)
					}
					stored[at] = data
					sent++
					offers = append(offers, o)
					return
				}
				tried[data] = true
			}
		}
		publish(data)
	}
	// entriesOf counts the entries of ingest and the proposals among them. It sets declined to the number of offers
	// that ingest declined although their entry was published.
	entriesOf := func(ledger []streams.Entry) (ins, acts int) {
		declined = 0
		for _, e := range ledger {
			if e.Stage != streams.StageIngest || e.Type == streams.TypeClaim {
				continue
			}
			ins++
			if e.Type == streams.TypeAction {
				acts++
			}
			if _, ok := stored[e.Src]; !ok {
				declined++
			}
		}
		return ins, acts
	}
	heard := make(chan struct{}, 1000)
	stop, err := stage.TailStage(t.Context(), nc, nil, streams.StageArbiter, slog.New(slog.DiscardHandler),
		func(streams.Entry) { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var together, alone, offered uint64
	for round := range rounds {
		a = startPipeline(t, srv, dirs[0], true)
		var b *pipeline
		if round%3 == 2 {
			b = startPipeline(t, srv, dirs[1], false)
		}
		for range 150 {
			switch rnd.IntN(40) {
			case 0:
				send(streams.KindDec)
			case 1:
				send(streams.KindAct)
				send(streams.KindAct)
			default:
				for len(heard) > 0 {
					<-heard
				}
				send(streams.KindAct)
				<-heard // most callers wait for their answer
			}
			if rnd.IntN(60) == 0 {
				// Kill one stage, or all of them, in the middle of the work.
				if k := rnd.IntN(4); k < 3 {
					a.all()[k].stop()
				} else {
					a.stop()
				}
				send(streams.KindAct)
				together += a.in.Stats.Joint.Load()
				offered += a.in.Stats.Offered.Load()
				a.stop()
				a = startPipeline(t, srv, dirs[0], true)
			}
		}
		natstest.Eventually(t, time.Minute, "all answers", func() bool {
			ledger := srv.Ledger()
			ins, acts := entriesOf(ledger)
			verdicts := 0
			for _, e := range ledger {
				if e.Type == streams.TypeVerdict {
					verdicts++
				}
			}
			return ins == sent+declined && verdicts == acts
		})
		together += a.in.Stats.Joint.Load()
		offered += a.in.Stats.Offered.Load()
		alone += a.in.Stats.SpeculationFailed.Load()
		a.stop()
		all := a.all()
		if b != nil {
			b.stop()
			all = append(all, b.all()...)
		}
		for _, s := range all {
			if d := s.Stats.Diverged.Load(); d > 0 {
				t.Errorf("round %d: %d entries diverged", round, d)
			}
		}
		if round%4 == 3 {
			dirs[0] = t.TempDir() // fold all of it again
		}
	}
	// On a slow machine, few proposals have been decided jointly until now. Go on until enough have.
	for a = startPipeline(t, srv, dirs[0], true); joint(srv.Ledger()) < 50 || len(offers) < 20; {
		for len(heard) > 0 {
			<-heard
		}
		send(streams.KindAct)
		<-heard
		together += a.in.Stats.Joint.Swap(0)
	}
	ledger := srv.Ledger()
	at := make(map[uint64]streams.Entry)
	for _, e := range ledger {
		at[e.Position()] = e
	}
	for _, o := range offers {
		select {
		case es := <-o.Answers():
			for _, e := range es {
				if is := at[e.Position()]; is.Salt != e.Salt || !bytes.Equal(is.Body, e.Body) {
					t.Errorf("the sender was told that entry %d is %s, but it is %s", e.Seq, e.Body, is.Body)
				}
			}
		default: // not decided jointly
		}
	}
	entriesOf(ledger)
	joint := replayed(t, ledger, project, sent+declined)
	for _, e := range ledger {
		var b struct {
			Data string `json:"data"`
		}
		if e.Stage != streams.StageIngest || e.Type == streams.TypeClaim {
			continue
		}
		if err := streams.Unmarshal(e.Body, &b); err != nil {
			t.Fatal(err)
		}
		if was, ok := stored[e.Src]; ok && b.Data != was || !ok && !tried[b.Data] {
			t.Fatalf("entry %d has data %q for input %s, want %q", e.Seq, b.Data, position.Text(e.Src), was)
		}
	}
	if joint == sent {
		t.Errorf("all %d messages were decided together: the test shows nothing", sent)
	}
	t.Logf("%d messages, %d decided together (%d counted), %d of %d offers accepted, %d declined late, %d dropped", sent,
		joint, together, len(offers), offered, declined, alone)
}

// Another process writes a claim. The server stores a joint frame only if ingest's own subject has not changed, so it
// must refuse every joint frame after the claim.
func TestAClaimEndsTheJointFramesOfAnotherProcess(t *testing.T) {
	const project = "alpha"
	p := streams.PartitionOf(project)
	srv := natstest.Start(t)
	js, err := jetstream.New(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	subject, err := streams.IntakeSubject(project, "agent", streams.KindAct, "")
	if err != nil {
		t.Fatal(err)
	}
	send := func(verdicts int) []streams.Entry {
		t.Helper()
		if _, err := js.Publish(t.Context(), subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
		natstest.Eventually(t, time.Minute, "a verdict", func() bool {
			n := 0
			for _, e := range srv.Ledger() {
				if e.Type == streams.TypeVerdict {
					n++
				}
			}
			return n == verdicts
		})
		return srv.Ledger()
	}
	a := startPipeline(t, srv, t.TempDir(), true)
	var fence uint64 // last sequence on ingest's own subject, as the first process knows it
	for _, e := range send(1) {
		if e.Stage == streams.StageIngest && !e.Joint {
			fence = e.Seq
		}
	}
	a.stop()
	b := startPipeline(t, srv, t.TempDir(), false)
	ledger := send(2)
	b.stop()
	claims := 0
	for _, e := range ledger {
		if e.Type == streams.TypeClaim {
			claims++
		}
	}
	if claims != 1 {
		t.Fatalf("the second process claimed %d times, want once", claims)
	}
	j, err := stage.NewJoint(srv.Connect())
	if err != nil {
		t.Fatal(err)
	}
	end := ledger[len(ledger)-1].Seq
	frame := func() []*streams.Entry {
		return []*streams.Entry{{Partition: p, Stage: streams.StageIngest, Type: streams.TypeAction, Project: project, Src: 3,
			Time: time.Now(), Salt: streams.NewSalt(), Body: []byte("{}")}}
	}
	if err := stage.PublishJoint(t.Context(), j, frame(), end, fence); err == nil {
		t.Error("a joint frame of the first process was stored after the claim")
	}
	for _, e := range ledger {
		if e.Stage == streams.StageIngest && !e.Joint {
			fence = e.Seq
		}
	}
	if err := stage.PublishJoint(t.Context(), j, frame(), end, fence); err != nil {
		t.Errorf("a joint frame that expects the claim as the last entry was refused: %v", err)
	}
}

// A claim names the same input as the entry before it. Here that input is an event of a batch whose last event is
// undecided. A stand-by must not take the claim for the decision of the last event. When the stand-by takes over, it
// must decide that event.
func TestAClaimAfterAnEventOfABatchHidesNoOtherEvent(t *testing.T) {
	t.Parallel()
	const project = "alpha"
	srv := natstest.Start(t)
	nc := srv.Connect()
	in := start(t, stage.Config{Name: streams.StageIngest, Conn: srv.Connect(), Dir: t.TempDir(), Standby: true,
		Takeover: 5 * time.Second}, ingest)
	in.awaitReady()
	floodBatches(t, nc, project, 1, 3, 10)
	natstest.Eventually(t, time.Minute, "the stand-by has the batch", func() bool { return in.Stats.Waiting.Load() == 3 })
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range []streams.Entry{
		{Type: streams.TypeObservation, Project: project, Src: position.At(1, 0)},
		{Type: streams.TypeClaim, Project: streams.SystemProject, Src: position.At(1, 0)},
		{Type: streams.TypeObservation, Project: project, Src: position.At(1, 1)},
	} {
		e.Partition, e.Stage, e.Salt, e.Body = streams.PartitionOf(project), streams.StageIngest, streams.NewSalt(), []byte(`{}`)
		m := e.Message()
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Body},
			jetstream.WithExpectLastSequence(uint64(i)))
		if err != nil {
			t.Fatal(err)
		}
	}
	natstest.Eventually(t, 30*time.Second, "an entry of the last event", func() bool {
		ledger := srv.Ledger()
		return ledger[len(ledger)-1].Src == position.At(1, 2)
	})
}
