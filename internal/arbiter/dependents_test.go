package arbiter

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// falls folds an attestation that makes a belief less reliable by a move of one axis.
func (b *bench) falls(belief, why string, move beliefs.Move) {
	b.t.Helper()
	b.ingest(streams.TypeConfirmation, &streams.ConfirmationEntry{EntryHead: streams.EntryHead{ID: "w"}, Belief: belief,
		Decision: "word", Signer: "alice", Revisions: []beliefs.Revision{{Belief: belief, Who: "alice", Why: why,
			Moves: []beliefs.Move{move}}}})
}

// dues folds the due entries in order, and returns the verdicts that they cause.
func (b *bench) dues() (out []*streams.VerdictEntry) {
	b.t.Helper()
	for n := 0; ; n++ {
		at, due, ok, err := b.fold.Timer(b.st)
		if err != nil {
			b.t.Fatal(err)
		}
		if !ok || at.After(b.at) {
			return out
		}
		if n > 1000 {
			b.t.Fatal("due entries without end")
		}
		said := b.step(&streams.Entry{Stage: streams.StageArbiter, Type: due.Type, Project: due.Project,
			Body: bytes.Clone(due.Body)})
		if said == nil {
			continue
		}
		v := new(streams.VerdictEntry)
		if err := streams.Unmarshal(said.Body, v); err != nil {
			b.t.Fatal(err)
		}
		out = append(out, v)
	}
}

func quarantined() beliefs.Move {
	return beliefs.Move{Axis: beliefs.AxisSecurity, From: "clean", To: beliefs.Quarantined.String()}
}

// cites proposes an action that cites beliefs and is held.
func (b *bench) cites(id string, ids ...string) *streams.VerdictEntry {
	b.t.Helper()
	a := &streams.ActionEntry{EntryHead: streams.EntryHead{ID: id, Agent: "agent", Session: "s"},
		Action: beliefs.Action{Tool: "send_email", Contract: beliefs.Contract{Level: beliefs.L4}}}
	for _, x := range ids {
		a.Beliefs = append(a.Beliefs, streams.BeliefRef{ID: x, Found: true, Scope: beliefs.ToolActionAllowed})
	}
	v := new(streams.VerdictEntry)
	if err := streams.Unmarshal(b.ingest(streams.TypeAction, a).Body, v); err != nil || v.Hold == nil {
		b.t.Fatalf("%+v, %v", v, err)
	}
	return v
}

func TestPromiseA6AFallRevisesEveryOpenHoldThatDependsOnTheBelief(t *testing.T) {
	who := newPeople(t)
	b := newBench(t, who.trust)
	b.ingest(streams.TypeMemory, &streams.MemoryEntry{EntryHead: streams.EntryHead{ID: "m1", Agent: "agent"},
		Content: "x", DerivedFrom: []string{"root"}, Belief: streams.BeliefRef{ID: "b1"}})
	held := map[string]*streams.VerdictEntry{} // by dependency
	for i := range 5 {
		held[fmt.Sprint("direct", i)] = b.cites(fmt.Sprint("d", i), "root", "other")
		held[fmt.Sprint("derived", i)] = b.cites(fmt.Sprint("e", i), "b1")
	}
	out := b.ingest(streams.TypeMemory, &streams.MemoryEntry{EntryHead: streams.EntryHead{ID: "m2", Agent: "agent",
		Session: "s"},
		Unseen: true, Content: "y", DerivedFrom: []string{"b1"}, Belief: streams.BeliefRef{ID: "b2"}})
	memory := new(streams.VerdictEntry)
	if err := streams.Unmarshal(out.Body, memory); err != nil || memory.Hold == nil {
		t.Fatalf("%+v, %v", memory, err)
	}
	held["memory"] = memory
	apart := b.cites("apart", "other")
	over := b.cites("over", "root")
	b.resolve(over.Hold.ID, b.sign(b.statement(over), who.alice))

	if got := b.dues(); len(got) != 0 {
		t.Fatalf("before the fall: %+v", got)
	}
	b.falls("root", "it is false", quarantined())
	revised := map[string]string{}
	for _, v := range b.dues() {
		if v.Verdict != streams.Hold || !v.Late || v.Hold == nil || !strings.Contains(fmt.Sprint(v.Reasons), "it is false") {
			t.Errorf("%+v", v)
			continue
		}
		if revised[v.Hold.ID] != "" {
			t.Errorf("%s is revised twice", v.ID)
		}
		revised[v.Hold.ID] = v.Hold.Revision
	}
	if len(revised) != len(held) || revised[apart.Hold.ID] != "" || revised[over.Hold.ID] != "" {
		t.Errorf("%d of %d holds are revised: %v", len(revised), len(held), revised)
	}
	for how, v := range held {
		if r := revised[v.Hold.ID]; r == "" || r == v.Hold.Revision {
			t.Errorf("%s: revision %q after %q", how, r, v.Hold.Revision)
		}
	}
	// The list of holds shows the new revisions.
	listed, err := b.fold.listHolds(b.st, []byte(`{"project":"demo","state":"open"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range listed.([]Hold) {
		if want := revised[h.ID]; h.ID != apart.Hold.ID && h.Revision != want {
			t.Errorf("holds ls says %s of %s, want %s", h.Revision, h.ID, want)
		}
	}
	v := held["derived3"]
	if out := b.resolve(v.Hold.ID, b.sign(b.statement(v), who.alice)); b.state(v.Hold.ID) != streams.HoldOpen ||
		!strings.Contains(string(out.Body), "approval-revision") {
		t.Errorf("%s: %s", b.state(v.Hold.ID), out.Body)
	}
	// The same attestation of root again: if a hold gets a revision, the revision must name its reason. Then an
	// attestation contradicts b1: the six holds that depend on b1 get a new revision.
	b.falls("root", "it is false", quarantined())
	for _, v := range b.dues() {
		if !strings.Contains(fmt.Sprint(v.Reasons), "it is false") {
			t.Errorf("%+v", v)
		}
	}
	b.falls("b1", "so is this", beliefs.Move{Axis: beliefs.AxisTruth, From: "supported",
		To: beliefs.Contradicted.String()})
	if n := len(b.dues()); n != 6 {
		t.Errorf("%d holds are revised by the second fall, want 6", n)
	}
	b.replayed()
}

// A hold is opened on an action that cites b1. Only then it becomes known that b1 derives from root. When root becomes
// unreliable, the hold must get a new revision.
func TestPromiseA6AHoldFollowsWhatItsBeliefIsFoundToDeriveFrom(t *testing.T) {
	b := newBench(t, newPeople(t).trust)
	v := b.cites("a1", "b1")
	b.ingest(streams.TypeMemory, &streams.MemoryEntry{EntryHead: streams.EntryHead{ID: "m1", Agent: "agent"},
		Content: "x", DerivedFrom: []string{"root"}, Belief: streams.BeliefRef{ID: "b1"}})
	if got := b.dues(); len(got) != 0 {
		t.Fatalf("nothing fell: %+v", got)
	}
	b.falls("root", "it is false", quarantined())
	if got := b.dues(); len(got) != 1 || got[0].Hold.ID != v.Hold.ID {
		t.Errorf("%+v", got)
	}
	b.replayed()
}

// A settled hold is not in the index, and a repeated due entry does nothing.
func TestPromiseA6ASettledHoldLeavesNothingBehind(t *testing.T) {
	who := newPeople(t)
	b := newBench(t, who.trust)
	v := b.cites("a1", "b1", "b2")
	b.falls("b1", "it is false", quarantined())
	_, due, ok, err := b.fold.Timer(b.st)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for n := range 3 {
		out := b.step(&streams.Entry{Stage: streams.StageArbiter, Type: due.Type, Project: due.Project,
			Body: bytes.Clone(due.Body)})
		if (out != nil) != (n == 0) {
			t.Errorf("due entry %d leads to %v", n, out)
		}
	}
	now := b.shown(v.Hold.ID)
	b.resolve(v.Hold.ID, b.sign(b.statement(&now.Verdict), who.alice))
	if b.state(v.Hold.ID) != streams.HoldApproved {
		t.Fatal(b.state(v.Hold.ID))
	}
	for _, space := range []byte{keyDependents, keyTouched} {
		err := b.st.Scan([]byte{space}, func(k, _ []byte) (bool, error) { t.Errorf("left behind: %q", k); return true, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	b.falls("b2", "so is this", quarantined())
	if got := b.dues(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	b.replayed()
}

// shown returns a hold as shown to people.
func (b *bench) shown(id string) *Hold {
	b.t.Helper()
	shown, err := b.fold.listHolds(b.st, []byte(`{"project":"demo","id":"`+id+`"}`))
	if err != nil || len(shown.([]Hold)) != 1 {
		b.t.Fatal(shown, err)
	}
	return &shown.([]Hold)[0]
}
