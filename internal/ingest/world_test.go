package ingest

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// world is ingest's fold. Its intake and ledger are lists.
type world struct {
	t      testing.TB
	fold   *Fold
	st     *stage.State
	intake uint64
	ledger uint64
	now    time.Time
	// entries are all written entries, so that they can be folded again.
	entries []streams.Entry
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{t: t, fold: New(Config{}), st: offline(t), now: epoch}
}

// preparedFirst is the number of a world's first messages that are also admitted with the result of Prepare. The entry
// must be the same.
const preparedFirst = 100

// send admits an event and applies ingest's entry.
func (w *world) send(project, agent string, kind streams.Kind, origin beliefs.Origin, ev streams.Event) any {
	w.t.Helper()
	w.intake++
	w.now = w.now.Add(time.Second)
	h := streams.HeadOf(ev)
	if h.ID == "" {
		h.ID = fmt.Sprintf("e%d", w.intake)
	}
	body, err := streams.Marshal(ev)
	if err != nil {
		w.t.Fatal(err)
	}
	m := &stage.Message{Seq: w.intake, Time: w.now, Header: nats.Header{}, Data: body,
		Address: streams.Address{Project: project, Agent: agent, Kind: kind, Origin: origin}}
	out, err := w.fold.Admit(w.st, m)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.intake <= preparedFirst {
		w.prepares(*m, out)
	}
	w.add(streams.Entry{Stage: streams.StageIngest, Type: out.Type, Project: out.Project, Src: m.Seq, Body: out.Body},
		out.Decided)
	return out.Decided
}

// prepares checks that a prepared message gives the same entry.
func (w *world) prepares(m stage.Message, want *stage.Admission) {
	w.t.Helper()
	m.Prepared = w.fold.Prepare(&m)
	got, err := w.fold.Admit(w.st, &m)
	if err != nil {
		w.t.Fatal(err)
	}
	if !bytes.Equal(got.Body, want.Body) {
		w.t.Fatalf("a prepared message makes another entry:\n%s\n%s", got.Body, want.Body)
	}
}

func (w *world) add(e streams.Entry, decided any) {
	w.t.Helper()
	w.ledger++
	e.Seq, e.Time = w.ledger, w.now
	w.entries = append(w.entries, e)
	if err := w.fold.Apply(w.st, &e, decided); err != nil {
		w.t.Fatal(err)
	}
}

// remember writes to memory and gives the arbiter's verdict on it.
func (w *world) remember(project, agent string, origin beliefs.Origin, m *streams.Memory, v streams.Verdict) string {
	w.t.Helper()
	e := w.send(project, agent, streams.KindMem, origin, m).(*streams.MemoryEntry)
	w.verdict(project, e, v)
	return e.Belief.ID
}

func (w *world) verdict(project string, e *streams.MemoryEntry, v streams.Verdict) {
	w.t.Helper()
	body, err := streams.Marshal(&streams.VerdictEntry{Type: streams.TypeMemory, ID: e.ID, Agent: e.Agent, Verdict: v,
		Belief: &e.Belief, Time: w.now})
	if err != nil {
		w.t.Fatal(err)
	}
	w.add(streams.Entry{Stage: streams.StageArbiter, Type: streams.TypeVerdict, Project: project, Body: body}, nil)
}

func (w *world) observe(project, agent string, origin beliefs.Origin, content string) *streams.ObservationEntry {
	w.t.Helper()
	return w.send(project, agent, streams.KindObs, origin, &streams.Observation{Content: content,
		Head: streams.Head{Session: "s1"}}).(*streams.ObservationEntry)
}

func (w *world) recall(project, agent string, r *streams.Recall) *streams.RecallEntry {
	w.t.Helper()
	if r.Session == "" {
		r.Session = "later"
	}
	d := w.send(project, agent, streams.KindRecall, "", r)
	e, ok := d.(*streams.RecallEntry)
	if !ok {
		w.t.Fatalf("recall became %T %+v", d, d)
	}
	return e
}

// refold folds all entries into new state.
func (w *world) refold() *world {
	w.t.Helper()
	n := newWorld(w.t)
	for _, e := range w.entries {
		n.add(e, nil)
	}
	n.intake, n.now = w.intake, w.now
	return n
}
