package ingest

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lazaret/internal/activation"
	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

var epoch = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// house is ingest's fold with its own ledger and no other stage. Admitted entries are in the ledger
// at once.
type house struct {
	t      testing.TB
	f      *Fold
	st     *stage.State
	now    time.Time
	seq    uint64 // in the intake
	ledger []*streams.Entry
	keep   bool // the ledger
	offers bool // the front offers proposals directly, without the intake, see stage.Offer
	behind int  // number of proposals offered directly since the last intake message
}

func newHouse(t testing.TB, st *stage.State) *house {
	t.Helper()
	h := &house{t: t, f: New(Config{}), st: st, now: epoch}
	if err := activation.Put(st, streams.DoActivatePolicy, policy.Default); err != nil {
		t.Fatal(err)
	}
	return h
}

// offline returns a state that is large enough for any test.
func offline(t testing.TB) *stage.State {
	t.Helper()
	o, err := stage.OpenOffline()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o.State(0)
}

// say publishes an event and returns ingest's entry for it.
func (h *house) say(kind streams.Kind, origin beliefs.Origin, ev any) any {
	h.t.Helper()
	return h.sayAs("agent", kind, origin, ev)
}

// sayAs is say with another agent's credential.
func (h *house) sayAs(agent string, kind streams.Kind, origin beliefs.Origin, ev any) any {
	h.t.Helper()
	body, err := streams.Marshal(ev)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.put(&stage.Message{Address: streams.Address{Project: "demo", Agent: agent, Kind: kind, Origin: origin},
		Data: body})
}

func (h *house) put(m *stage.Message) any {
	h.t.Helper()
	if k := m.Address.Kind; h.offers && (k == streams.KindAct || k == streams.KindMem || k == streams.KindRecall) {
		m.Index = streams.MaxBatch + h.behind
		h.behind++
	} else {
		h.seq++
		h.behind = 0
	}
	h.now = h.now.Add(time.Millisecond)
	m.Seq, m.Time = h.seq, h.now
	a, err := h.f.Admit(h.st, m)
	if err != nil {
		h.t.Fatal(err)
	}
	h.own(a, m.Position())
	return a.Decided
}

// control publishes a control message on the subject of project demo.
func (h *house) control(c *streams.Control) any {
	h.t.Helper()
	body, err := streams.Marshal(c)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.put(&stage.Message{Address: streams.Address{Kind: streams.KindCtl, Partition: streams.PartitionOf("demo")},
		Data: body})
}

func (h *house) own(a *stage.Admission, src uint64) {
	h.t.Helper()
	checkDecoded(h.t, a)
	e := &streams.Entry{Seq: 0, Stage: streams.StageIngest, Type: a.Type, Project: a.Project, Src: src, Body: a.Body}
	if h.keep {
		h.ledger = append(h.ledger, e)
	}
	if err := h.f.Apply(h.st, e, a.Decided); err != nil {
		h.t.Fatal(err)
	}
}

// followUps lets ingest write all its pending entries.
func (h *house) followUps() (n int) {
	h.t.Helper()
	for ; ; n++ {
		a, err := h.f.FollowUp(h.st)
		if err != nil {
			h.t.Fatal(err)
		}
		if a == nil {
			return n
		}
		h.own(a, h.seq)
	}
}

// foldOther folds another stage's entry.
func (h *house) foldOther(stg string, typ streams.Type, body any) {
	h.t.Helper()
	b, err := streams.Marshal(body)
	if err != nil {
		h.t.Fatal(err)
	}
	h.now = h.now.Add(time.Millisecond)
	e := &streams.Entry{Seq: uint64(len(h.ledger) + 1), Time: h.now, Stage: stg, Type: typ, Project: "demo", Body: b}
	if h.keep {
		h.ledger = append(h.ledger, e)
	}
	if err := h.f.Apply(h.st, e, nil); err != nil {
		h.t.Fatal(err)
	}
}

// verdict folds the arbiter's verdict on a memory write.
func (h *house) verdict(m *streams.MemoryEntry, v streams.Verdict) {
	h.t.Helper()
	b := m.Belief
	h.foldOther(streams.StageArbiter, streams.TypeVerdict, &streams.VerdictEntry{Type: streams.TypeMemory, ID: m.ID,
		Agent: m.Agent, Verdict: v, Belief: &b, Time: h.now})
}

func (h *house) read(origin beliefs.Origin, id, content string) *streams.ObservationEntry {
	h.t.Helper()
	o := &streams.Observation{Head: streams.Head{ID: id, Session: "s"}, Content: content}
	if origin.External() {
		o.Tool = "reader"
	}
	e, ok := h.say(streams.KindObs, origin, o).(*streams.ObservationEntry)
	if !ok {
		h.t.Fatalf("observation %s was not admitted", id)
	}
	return e
}

func (h *house) write(origin beliefs.Origin, m *streams.Memory) *streams.MemoryEntry {
	h.t.Helper()
	if m.Session == "" {
		m.Session = "s"
	}
	e, ok := h.say(streams.KindMem, origin, m).(*streams.MemoryEntry)
	if !ok {
		h.t.Fatalf("memory %s was not admitted", m.ID)
	}
	return e
}

func (h *house) belief(id string) *record {
	h.t.Helper()
	r, err := h.f.belief(h.st, "demo", id)
	if err != nil || r == nil {
		h.t.Fatalf("belief %s: %v, %v", id, r, err)
	}
	return r
}

// dump returns the whole state, byte for byte.
func dump(t testing.TB, st *stage.State) string {
	t.Helper()
	var b []byte
	if err := st.Scan(nil, func(k, v []byte) (bool, error) {
		b = fmt.Appendf(b, "%q = %q\n", k, v)
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// corpusLine has the fields of a corpus line that the tests use.
type corpusLine struct {
	ID      string `json:"id"`
	Dataset string `json:"dataset"`
	Label   string `json:"label"`
	Class   string `json:"source_class"`
	Content string `json:"content"`
	Meta    struct {
		Injected any `json:"injected_text"`
	} `json:"meta"`
	Steps []struct {
		Kind    string `json:"kind"`
		Content string `json:"content"`
	} `json:"steps"`
}

// corpora reads the lines of the corpus files that match a pattern. Without the files the test is
// skipped.
func corpora(t testing.TB, pattern string) []corpusLine {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../../shared/corpora", pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no corpora (%s) beside the repository: nothing was measured", pattern)
	}
	var out []corpusLine
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 64<<20)
		for sc.Scan() {
			var l corpusLine
			if err := streams.Unmarshal(sc.Bytes(), &l); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			out = append(out, l)
		}
		if err := sc.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
