package arbiter

import (
	"fmt"
	"os"
	"testing"
	"time"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// flatActions returns after how many actions of a project the costs of a verdict are compared with the costs after a
// thousand actions.
func flatActions(t *testing.T) int {
	if os.Getenv("LAZARET_LONG") != "" {
		return 100_000
	}
	return 10_000
}

// TestAVerdictCostsTheSameAfterManyOthers counts the accesses of a decision to the state: reads, writes, bytes, and
// scan steps over deleted keys. After many verdicts, the accesses must not be more than after a thousand. (The scan
// steps once grew with the number of verdicts.) The counts do not depend on the machine.
func TestAVerdictCostsTheSameAfterManyOthers(t *testing.T) {
	many := flatActions(t)
	pol := testPolicy(t)
	off, err := stage.OpenOffline()
	if err != nil {
		t.Fatal(err)
	}
	defer off.Close()
	d := newDesk(t, newArbiter(t), pol)
	d.st = off.State(0)
	fill(t, d.st, pol)
	decide := func(i int) {
		d.base, d.ledger = d.tail(), nil // the earlier entries are in the state
		d.now = d.now.Add(100 * time.Millisecond)
		tool, level := "read_file", beliefs.L1
		if i%16 == 0 {
			tool, level = "send_email", beliefs.L4
		}
		a := action(fmt.Sprint("a", i), tool, level)
		a.Session = fmt.Sprint("s", i%64)
		seq := d.add(streams.StageIngest, streams.TypeAction, 0, a)
		for _, g := range []string{"a", "b"} {
			d.assess(g, seq, &streams.AssessmentEntry{})
		}
		if i%16 == 0 {
			d.add(streams.StageIngest, streams.TypeOutcome, 0, &streams.OutcomeEntry{
				EntryHead: streams.EntryHead{ID: fmt.Sprint("o", i), Agent: "agent", Session: a.Session},
				Outcome:   beliefs.Outcome{Action: a.ID, Status: streams.HoldCancelled}})
		}
		d.wait(0)
		if i%4 == 0 {
			if err := off.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	const window = 512
	var first, last stage.Work
	began := off.Work()
	for i := range many {
		switch i {
		case 1000:
			began = off.Work()
		case 1000 + window:
			first = off.Work().Sub(began)
		case many - window:
			began = off.Work()
		}
		decide(i)
	}
	last = off.Work().Sub(began)
	t.Logf("%d decisions after 1,000: %+v", window, first)
	t.Logf("%d decisions after %d: %+v", window, many-window, last)
	for _, c := range []struct {
		what        string
		first, last uint64
		slack       uint64 // allowance for keys that are removed in bursts
	}{
		{"reads", first.Gets, last.Gets, 0},
		{"writes", first.Sets, last.Sets, 0},
		{"scans", first.Scans, last.Scans, window / 4},
		{"bytes written", first.Bytes, last.Bytes, 0},
		{"steps of scans", first.Steps, last.Steps, 8 * window},
	} {
		if 10*c.last > 13*c.first+10*c.slack {
			t.Errorf("%s of %d decisions: %d after 1,000, %d after %d", c.what, window, c.first, c.last, many)
		}
	}
	// Decided proposals are removed after keepLate.
	proposals := 0
	if err := d.st.Scan([]byte{keyProposal}, func(_, _ []byte) (bool, error) {
		proposals++
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	if most := int((keepLate + pruneSlack + time.Second) / (100 * time.Millisecond)); proposals > most {
		t.Errorf("%d proposals are kept, of %v there are at most %d", proposals, keepLate, most)
	}
}

func TestVerdictsAndHoldsAreForgottenByLedgerTimeAndReplaysDoTheSame(t *testing.T) {
	pol := testPolicy(t)
	like := newArbiter(t)
	d := newDesk(t, like, pol)
	held := d.add(streams.StageIngest, streams.TypeAction, 0, action("a1", "send_email", beliefs.L4))
	for _, g := range []string{"a", "b"} {
		d.assess(g, held, &streams.AssessmentEntry{})
	}
	again := func() *streams.VerdictEntry {
		t.Helper()
		n := len(d.ledger)
		d.add(streams.StageIngest, streams.TypeRepeat, 0,
			&streams.RepeatEntry{EntryHead: streams.EntryHead{ID: "a1", Agent: "agent"}, Kind: streams.KindAct})
		v := new(streams.VerdictEntry)
		if err := streams.Unmarshal(d.ledger[n+1].Body, v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	hold := d.last(held).Hold
	d.wait(25 * time.Hour) // the hold expires
	if v := again(); v.Verdict != streams.Hold || len(v.Reasons) == 0 ||
		v.Reasons[len(v.Reasons)-1].Code != streams.CodeExpired {
		t.Fatalf("after it expired: %+v", v)
	}
	state := func() bool {
		ok, err := d.st.Load(stage.Key(keyHold, "demo", hold.ID), new(struct{}))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !state() {
		t.Fatal("a hold that ended is not listed any more")
	}
	d.wait(KeepHold + time.Hour)
	if v := again(); v.Verdict != streams.Hold || v.Reasons[0].Code != streams.CodeForgotten {
		t.Fatalf("after %v: %+v", KeepVerdict, v)
	}
	if state() {
		t.Error("a hold that ended long ago is still kept")
	}
	// A fold that restarts at any entry gives the same answers.
	for cut := 1; cut < len(d.ledger); cut++ {
		st, f := emptyState(t, pol), foldLike(like)
		var own []string
		for i, e := range d.ledger {
			if i == cut {
				f = foldLike(like)
			}
			out, err := f.Step(st, e)
			if err != nil {
				t.Fatal(err)
			}
			if out != nil {
				own = append(own, string(out.Body))
			}
		}
		n := 0
		for _, e := range d.ledger {
			if e.Stage == streams.StageArbiter && e.Type != streams.TypeDue {
				if n >= len(own) || own[n] != string(e.Body) {
					t.Fatalf("a fold that restarts at entry %d gives another answer %d", cut, n)
				}
				n++
			}
		}
	}
}

// TestAnOldAlertStillCounts: a belief gets a finding, and three years later an action cites the belief. The action must
// be held.
func TestAnOldAlertStillCounts(t *testing.T) {
	pol := testPolicy(t)
	d := newDesk(t, newArbiter(t), pol)
	d.add(streams.SentinelStage("a"), streams.TypeAlerts, 0, &streams.AlertsEntry{Group: "a", Digest: rulesDigest,
		Alerts: []streams.Alert{{
			ID: "x1", Rule: "planted", Group: "a", Severity: "high", Subject: streams.AlertSubject{Kind: "belief", ID: "b1"},
			Project: "demo", Agent: "other",
			Message: "planted", Effect: "hold", Mode: "enforce", Count: 1}}})
	for range 3 {
		d.wait(400 * 24 * time.Hour)
		d.add(streams.StageIngest, streams.TypeOutcome, 0, &streams.OutcomeEntry{})
	}
	a := action("a1", "read_file", beliefs.L1)
	a.Beliefs = []streams.BeliefRef{{ID: "b1", Found: true, Axes: beliefs.Axes{Truth: beliefs.Supported,
		Retrieval: beliefs.Normal}}}
	seq := d.add(streams.StageIngest, streams.TypeAction, 0, a)
	for _, g := range []string{"a", "b"} {
		d.assess(g, seq, &streams.AssessmentEntry{})
	}
	if v := d.last(seq); v.Verdict != streams.Hold {
		t.Fatalf("three years after the alert: %s %+v", v.Verdict, v.Reasons)
	}
}

// TestAFloodOfAlertsPushesOutNoneThatHolds: alerts that ask for neither a hold nor a deny must never evict an alert
// that asks for a hold.
func TestAFloodOfAlertsPushesOutNoneThatHolds(t *testing.T) {
	off, err := stage.OpenOffline()
	if err != nil {
		t.Fatal(err)
	}
	defer off.Close()
	st := off.State(0)
	f := newArbiter(t)
	note := func(id string, v streams.Verdict) {
		t.Helper()
		fd := finding{Reason: streams.Reason{Code: streams.CodeRests, Verdict: v, Rule: "r" + v.String()}}
		if err := f.noteFinding(st, "demo", beliefSubject(id), fd, epoch); err != nil {
			t.Fatal(err)
		}
	}
	there := func(id string) bool {
		_, ok, err := st.Get(stage.Key(keyAlerted, "demo", beliefSubject(id)))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	note("planted", streams.Hold)
	note("first", streams.Allow)
	note("became", streams.Allow)
	note("became", streams.Hold)
	for i := range maxAlerted + 10 {
		note(fmt.Sprint("flood", i), streams.Allow)
	}
	if !there("planted") || !there("became") {
		t.Error("a finding that holds fell out")
	}
	if there("first") || there("flood5") || !there(fmt.Sprint("flood", maxAlerted+9)) {
		t.Error("the oldest that only alerts is still there")
	}
}
