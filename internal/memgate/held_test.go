package memgate

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"lazaret/client"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// arbiter answers proposals by their ids, as the pipeline does: a repeat gets the verdict on the first.
type arbiter struct {
	gate
	mu    sync.Mutex
	holds bool                             // it holds new proposals
	lost  error                            // if set, the caller gets this error and not the verdict
	given map[string]*streams.VerdictEntry // guarded by mu
	ids   []string                         // of the proposals, guarded by mu
}

func (a *arbiter) Remember(_ context.Context, _ beliefs.Origin, m *streams.Memory) (*client.Reply, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v := a.given[m.ID]; v != nil {
		again := *v
		again.Again = true
		return &client.Reply{Verdict: again.Verdict, Entry: &again}, nil
	}
	v := &streams.VerdictEntry{ID: m.ID, Verdict: streams.Allow}
	if a.holds {
		v.Verdict, v.Hold = streams.Hold, &streams.HoldRef{ID: "h-" + m.ID}
	}
	if a.given == nil {
		a.given = make(map[string]*streams.VerdictEntry)
	}
	a.given[m.ID], a.ids = v, append(a.ids, m.ID)
	if a.lost != nil {
		return nil, a.lost
	}
	return &client.Reply{Verdict: v.Verdict, Entry: v}, nil
}

// end ends a hold: with a verdict of a person, or by its expiry.
func (a *arbiter) end(hold string, v streams.Verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := &streams.VerdictEntry{Verdict: v}
	if v != streams.Hold {
		next.Resolved = new(streams.Resolved)
	}
	a.given[hold[len("h-"):]] = next
}

func text(s string) Text { return Text{beliefs.OriginUser, &streams.Memory{Key: "k", Content: s}} }

// write returns the verdict on a write and its open hold.
func write(t *testing.T, h Held, a *arbiter, texts ...string) (streams.Verdict, string) {
	t.Helper()
	var ms []Text
	for _, s := range texts {
		ms = append(ms, text(s))
	}
	replies, _, err := h.Write(t.Context(), a, ms, "PUT /x")
	if err != nil {
		t.Fatal(err)
	}
	last := replies[len(replies)-1]
	if client.Open(last) {
		return last.Verdict, last.Entry.Hold.ID
	}
	return last.Verdict, ""
}

func TestAnAllowedWriteIsJudgedAgainWhenItIsRepeated(t *testing.T) {
	h, a := Held(t.TempDir()), new(arbiter)
	for _, s := range []string{"tea", "coffee", "tea", "tea"} {
		if v, _ := write(t, h, a, s, s); v != streams.Allow {
			t.Errorf("%s: %s", s, v)
		}
	}
	if len(a.ids) != 4 {
		t.Errorf("four writes were %d proposals", len(a.ids))
	}
}

func TestAnApprovalLetsOneWriteThrough(t *testing.T) {
	h, a := Held(filepath.Join(t.TempDir(), "held")), &arbiter{holds: true}
	var holds []string
	for range 3 {
		v, hold := write(t, h, a, "gone")
		if again, same := write(t, h, a, "gone"); v != streams.Hold || again != v || same != hold || hold == "" {
			t.Fatalf("held as %s %q, and then as %s %q", v, hold, again, same)
		}
		holds = append(holds, hold)
		a.end(hold, streams.Allow)
		if v, _ := write(t, h, a, "gone"); v != streams.Allow {
			t.Fatalf("after the approval: %s", v)
		}
	}
	if slices.Sort(holds); len(slices.Compact(holds)) != 3 {
		t.Errorf("one approval counted more than once: %v", holds)
	}
	_, hold := write(t, h, a, "gone")
	a.end(hold, streams.Deny)
	if v, _ := write(t, h, a, "gone"); v != streams.Deny {
		t.Errorf("after the rejection: %s", v)
	}
}

// If the store cannot be reached, the write was not made, and the caller calls undo. The approval must then allow one
// more write, however often undo is called.
func TestAnApprovalIsGivenBackIfTheWriteWasNotMade(t *testing.T) {
	h, a := Held(t.TempDir()), &arbiter{holds: true}
	_, hold := write(t, h, a, "one")
	a.end(hold, streams.Allow)
	replies, undo, err := h.Write(t.Context(), a, []Text{text("one")}, "PUT /x")
	if err != nil || replies[0].Verdict != streams.Allow {
		t.Fatal(replies, err)
	}
	for range 2 { // the second has no effect
		if err := undo(); err != nil {
			t.Fatal(err)
		}
	}
	if v, _ := write(t, h, a, "one"); v != streams.Allow {
		t.Errorf("the repeated write is %s", v)
	}
	_, later := write(t, h, a, "one")
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	if v, hold := write(t, h, a, "one"); v != streams.Hold || hold != later {
		t.Errorf("a second undo replaces the id of hold %s by that of the earlier write: %s, %s", later, v, hold)
	}
}

func TestAnApprovalWaitsForTheOtherTextsOfTheWrite(t *testing.T) {
	h, a := Held(t.TempDir()), &arbiter{holds: true}
	_, one := write(t, h, a, "one", "two")
	a.end(one, streams.Allow)
	_, two := write(t, h, a, "one", "two")
	if _, same := write(t, h, a, "one", "two"); two == "" || same != two || two == one {
		t.Fatalf("holds %q, %q and %q", one, two, same)
	}
	a.end(two, streams.Allow)
	if v, _ := write(t, h, a, "one", "two"); v != streams.Allow {
		t.Errorf("both are approved: %s", v)
	}
}

// refuser allows all texts but one.
type refuser struct{ *gate }

func (refuser) Remember(_ context.Context, _ beliefs.Origin, m *streams.Memory) (*client.Reply, error) {
	v := streams.Allow
	if m.Content == "bad" {
		v = streams.Deny
	}
	return &client.Reply{Verdict: v, Entry: new(streams.VerdictEntry)}, nil
}

func TestARefusedWriteLeavesNoIDs(t *testing.T) {
	h := Held(t.TempDir())
	replies, _, err := h.Write(t.Context(), refuser{}, []Text{text("fine"), text("good"),
		text("bad")}, "PUT /x")
	if err != nil || len(replies) != 3 || replies[2].Verdict != streams.Deny {
		t.Fatalf("%+v, %v", replies, err)
	}
	if left, err := os.ReadDir(string(h)); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

func TestAWriteWhoseHoldsHaveEndedCanStillBeApproved(t *testing.T) {
	h, a := Held(t.TempDir()), &arbiter{holds: true}
	for range 12 {
		_, hold := write(t, h, a, "x")
		if hold == "" {
			t.Fatalf("after %d proposals nothing can be approved", len(a.ids))
		}
		a.end(hold, streams.Hold)
	}
	for range 12 {
		rep, err := Entered(t.Context(), a, beliefs.OriginAgent, text("summary").Memory)
		if err != nil || !client.Open(rep) {
			t.Fatalf("%+v, %v", rep, err)
		}
		a.end(rep.Entry.Hold.ID, streams.Hold)
	}
}

func TestConcurrentRequestsShareNoApproval(t *testing.T) {
	h, a := Held(t.TempDir()), &arbiter{holds: true}
	_, hold := write(t, h, a, "x")
	a.end(hold, streams.Allow)
	var through sync.Map
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			replies, _, err := h.Write(t.Context(), a, []Text{text("x")}, "PUT /x")
			if err != nil {
				t.Error(err)
			} else if replies[0].Verdict == streams.Allow {
				through.Store(i, true)
			}
		})
	}
	all.Wait()
	n := 0
	through.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("one approval let %d requests through", n)
	}
}

func TestARequestWhoseAnswerWasLostIsJudgedAsOfItsRepetition(t *testing.T) {
	for i, lost := range []error{context.DeadlineExceeded, context.DeadlineExceeded,
		&client.Error{Code: streams.CodeCredential}, &client.Error{Code: streams.CodeCredential}} {
		holds := i%2 == 1
		h, a := Held(t.TempDir()), &arbiter{holds: holds, lost: lost}
		if _, _, err := h.Write(t.Context(), a, []Text{text("x")}, "PUT /x"); err == nil {
			t.Fatal("Write returned no error although the answer was lost")
		}
		a.lost = nil
		want := map[bool]int{false: 2, true: 1}[holds] // a held proposal is only repeated with its id
		if v, hold := write(t, h, a, "x"); (v == streams.Hold) != holds || (hold != "") != holds || len(a.ids) != want {
			t.Errorf("held: %t: %s %q after %d proposals, want %d", holds, v, hold, len(a.ids), want)
		}
	}
}

func TestConcurrentRequestsForOneWriteHaveOneHold(t *testing.T) {
	h, a := Held(t.TempDir()), &arbiter{holds: true}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, _, err := h.Write(t.Context(), a, []Text{text("x")}, "PUT /x"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(a.ids) != 1 {
		t.Errorf("one write has %d holds", len(a.ids))
	}
}

func TestOldIDsAreSweptAway(t *testing.T) {
	h, a := Held(t.TempDir()), &arbiter{holds: true}
	_, old := write(t, h, a, "old")
	files, err := os.ReadDir(string(h))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	_, young := write(t, h, a, "young")
	then := time.Now().Add(-heldFor - time.Hour)
	if err := os.Chtimes(filepath.Join(string(h), files[0].Name()), then, then); err != nil {
		t.Fatal(err)
	}
	if err := h.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, hold := write(t, h, a, "old"); hold == old {
		t.Error("the old id is still used")
	}
	if _, hold := write(t, h, a, "young"); hold != young {
		t.Error("the young id is gone")
	}
}

func TestAnApprovalThatWasUsedUpDoesNotUseUpALaterOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	m := text("x")
	if known, err := identify(file, m.Memory); known || err != nil {
		t.Fatal(known, err)
	}
	if mine, err := remove(file, client.NewID()); mine || err != nil {
		t.Error("an earlier id was taken for the present one", err)
	}
	if mine, err := remove(file, m.ID); !mine || err != nil {
		t.Error("the present id was not used up", err)
	}
}
